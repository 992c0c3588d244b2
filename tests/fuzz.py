"""The standing fuzzer: damaged files of every kind, each case in a process of its own with 4 GiB and 60 s.

A case passes if it ends by itself with a result or one sentence: no traceback, no hang, no blow-up, and no answer other than the right
one where that is known (:mod:`damage`). ``tox -e fuzz`` runs for five minutes, ``-- --hours N`` and ``-- --cases N`` for longer. What
fails is written to the folder ``fuzz_found`` as a file that belongs into ``tests/fuzz_corpus`` once it is mended.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import io
import json
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout, suppress
from functools import cache
from pathlib import Path

from msgspec import Struct, to_builtins

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import damage
import numpy as np
from cpu_networks import cpu_split_network
from delegates import U85_DEDICATED, raw_network, stream
from deployed_forms import SOURCES, compiled_network, source_of
from plan_files import edited_plan
from vela_u85 import compiled

from cascader.frontends.vela import compile_network
from cascader.frontends.vela_timeout import TIMEOUT_VARIABLE
from npu_model.export import export_raw
from npu_testbed.commands.cli import main
from npu_testbed.devices.configs import vela_ini_text
from validation.portfolio import build as build_of_portfolio
from validation.zoo import build

ROOT = Path(__file__).parents[1]
PROFILE = ROOT / "validation" / "calibrate" / "corstone_fvp_u55.toml"
MEMORY_BYTES = 4 << 30
SECONDS = 60
WRONG = 99
"""Exit status of a case whose answer is wrong."""

WORDS = (
    *(b"nan", b"inf", b"-1", b"0", b"1e999999999", b"\x00", b"\xff\xfe"),
    *(b"9" * 5000, b"0x" + b"f" * 4000, b"%(core_clock)s" * 40, b"[" * 3000),
)
"""Words that are put into texts: numbers out of range, bytes that are no text, and endless lines."""


class Case(Struct, frozen=True):
    """A command line on a file ``name``, whose place in ``argv`` is {}; or a seed of one of the kinds of :mod:`damage`."""

    kind: str
    seed: int
    argv: tuple[str, ...] = ()
    name: str = ""
    content: str = ""

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return base64.b64decode(self.content)


def _text(rng: random.Random, data: bytes) -> bytes:
    """One to three edits of a text: bytes, words, lines."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data) + 1)
        lines = data.split(b"\n")
        a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
        kind = rng.randrange(6)
        if kind == 0:
            data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at] + rng.choice(WORDS) + data[at + rng.randrange(8) :]
        elif kind == 2:
            lines[a], lines[b] = lines[b], lines[a]
            data = b"\n".join(lines)
        elif kind == 3:
            data = b"\n".join([*lines[:a], lines[b], *lines[a:]])
        elif kind == 4:
            head, mark, _ = lines[a].partition(b"=" if b"=" in lines[a] else b",")
            data = b"\n".join([*lines[:a], head + mark + rng.choice(WORDS), *lines[a + 1 :]])
        else:
            data = data[:at]
    return data


ODD = (
    *("-1", "0", "1", "true", "nan", "-inf", "1e300", "0.1", "4096", "4294967296", "9223372036854775807", str(10**30)),
    *('""', '"x"', r'"a\nb\u001b[2J"', r'"a\u0000b"', '"../x"', "[]", "[[]]", "[0, 0]", '["x", 1]', "{}", "{x = 1}", "2026-01-01"),
)
"""Values of TOML that a key may not have."""


def _toml(rng: random.Random, data: bytes) -> bytes:
    """One or two lines of a TOML text with another value, another key, or another heading; sometimes other edits."""
    if rng.randrange(4) == 0:
        return _text(rng, data)
    lines = data.decode().split("\n")
    keys = [at for at, line in enumerate(lines) if "=" in line and not line.startswith("#")]
    for at in rng.sample(keys, min(len(keys), rng.choice((1, 1, 2)))):
        key, _, value = lines[at].partition("=")
        lines[at] = rng.choice((f"{key}= {rng.choice(ODD)}", f"{key}= {rng.choice(ODD)}", f"x{key}={value}", f"{key}.x ={value}", ""))
    if rng.randrange(8) == 0:
        at = rng.randrange(len(lines))
        lines[at] = rng.choice((f"[{lines[at]}]", lines[at].replace("[[", "[").replace("]]", "]"), "[x]", "[[core]]"))
    return "\n".join(lines).encode()


def _firmware() -> bytes:
    """An ELF file by hand: it writes a letter to the UART, and ends by semihosting."""
    code = struct.pack("<4HI", 0x4801, 0x2141, 0x6001, 0xBEAB, 0x4930_3000)
    content = struct.pack("<II", 0x2001_0000, 0x41).ljust(0x40, b"\0") + code
    segment = struct.pack("<8I", 1, 84, 0, 0, len(content), len(content), 7, 4)
    ident = b"\x7fELF\x01\x01\x01".ljust(16, b"\0")
    return struct.pack("<16sHHIIIIIHHHHHH", ident, 2, 40, 1, 0x41, 52, 0, 0, 52, 32, 1, 40, 0, 0) + segment + content


_PACK = b"""<?xml version="1.0"?>
<package><devices><device Dname="Maker X1">
  <feature type="NPU" name="Ethos-U55" macs="64"/>
  <file category="other" name="tools/vela.ini"/>
</device></devices></package>
"""
"""A device pack, by hand."""


def _inputs() -> tuple[bytes, ...]:
    """Inputs of the small network, one with the wrong shape and one with the wrong name."""
    files = []
    for name, shape in (("image", (1, 16, 16, 8)), ("image", (1, 16, 16)), ("picture", (1, 16, 16, 8))):
        made = io.BytesIO()
        np.savez(made, **{name: np.zeros(shape, np.int8)})
        files.append(made.getvalue())
    return tuple(files)


def _chips() -> tuple[bytes, ...]:
    """The shipped chips, each as a file of its own."""
    folder = ROOT / "npu_testbed" / "devices" / "chips"
    text = (folder / "chips.toml").read_text(encoding="utf-8").replace("chips.ini", str(folder / "chips.ini"))
    return tuple(one.partition("]\n")[2].encode() for one in text.split("\n[")[1:])


def _delegates() -> tuple[bytes, ...]:
    """A vela_bin_stream of an Ethos-U55, and one of an Ethos-U85 that uses a fast scratch."""
    with tempfile.TemporaryDirectory() as folder:
        return stream(raw_network(Path(folder))), stream(raw_network(Path(folder), *U85_DEDICATED, device="ethos-u85-256"))


_ONE_CONFIGURATION = """
[System_Config.Own]
core_clock=100e6
axi0_port=Sram
axi1_port=OffChipFlash
Sram_clock_scale=1.0
Sram_burst_length=32
Sram_read_latency=1
Sram_write_latency=1
OffChipFlash_clock_scale=0.5
OffChipFlash_burst_length=32
OffChipFlash_read_latency=9
OffChipFlash_write_latency=9
[Memory_Mode.Shared_Sram]
const_mem_area=Axi1
arena_mem_area=Axi0
cache_mem_area=Axi0
"""
"""A configuration of Vela with one system and one memory mode, as a device pack has it."""


@cache
def _compiled_small() -> bytes:
    return compile_network(build("tiny_conv")).compiled


@cache
def _deep_model() -> bytes:
    """The network of most of the Ethos-U85's streams."""
    return build_of_portfolio("conv_resize_nearest_half_conv")


def _in_payload(rng: random.Random, data: bytes) -> bytes:
    """A file with damage in its command streams alone, whose other parts are read then."""
    copy = bytearray(data)
    start = data.find(b"COP1")
    (length,) = struct.unpack_from("<I", data, start - 4) if start >= 4 else (0,)
    end = start + (length if 0 < length <= len(data) - start else 2048)
    if start >= 0 and rng.randrange(2):
        damage.damaged(rng, copy, start, min(end, len(copy)), rng.choice((1, 2, 4)))
    else:
        damage.damaged(rng, copy, 0, len(copy), rng.choice((1, 4)))
    return bytes(copy)


def _sources() -> tuple[bytes, ...]:
    """C sources with driver payloads, as three compilers write them."""
    return tuple(source_of(kind, compiled_network("tiny_residual")) for kind in SOURCES)


def _raw() -> bytes:
    """A raw file."""
    return export_raw(compiled_network("tiny_residual"))


def _baseline() -> bytes:
    """The document that ``check --json`` prints of the network that baselines are held against."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(printed):
        path = Path(folder) / "n.tflite"
        path.write_bytes(compile_network(build("tiny_residual")).compiled)
        main(["check", str(path), "--json"])
    return printed.getvalue().encode()


def _measurements() -> tuple[bytes, ...]:
    """Measurements of the network that they are held against, of each kind; its command stream has a few hundred bytes."""
    entries = [(0, 0), (944, 332), (1400, 460), (9120, 544), (15731, 700), (29555, 828), (47570, 832)]
    trace = [{"name": "qread", "ts": cycle / 500, "args": {"qread": place}} for cycle, place in entries]
    return (
        b"cycle,qread\n" + b"".join(b"%d,%d\n" % entry for entry in entries),
        b"stream,qread,samples\n" + b"".join(b"0,0x%x,%d\n" % (place, cycle + 1) for cycle, place in entries),
        b"layer,cycles\n#2 CONV_2D,500\n#5 DEPTHWISE,800\n",
        json.dumps({"traceEvents": trace}, indent=0).encode(),
    )


_DEEP = ("conv_resize_nearest_half_conv", 256), ("conv_resize_nearest_half_conv", 512), ("mobilenet_v3", 1024)
"""Networks of the portfolio and MACs, with chains, resizes and four weight streams."""


@cache
def _seeds() -> dict[str, tuple[bytes, ...]]:
    """Inputs that are damaged, by kind."""
    adapters = ROOT / "npu_model" / "data" / "timing_adapters"
    return {
        "network": (build("tiny_conv"), build("tiny_residual"), cpu_split_network()),
        "compiled": (compile_network(build("tiny_residual")).compiled, compile_network(cpu_split_network()).compiled),
        "deep": tuple(compiled(name, macs) for name, macs in _DEEP),
        "executorch": _delegates(),
        "source": (b"const uint8_t n[] = {\n" + b",".join(b"%d" % byte for byte in build("tiny_conv")) + b"\n};\n",),
        "deployed": _sources(),
        "raw": (_raw(),),
        "baseline": (_baseline(),),
        "ini": (vela_ini_text().encode(),),
        "toml": tuple(path.read_bytes() for path in sorted(adapters.glob("*.toml"))),
        "profile": (PROFILE.read_bytes(),),
        "timing": (PROFILE.read_bytes(),),
        "pack": (_PACK,),
        "inputs": _inputs(),
        "measured": _measurements(),
        "trace": tuple(gzip.compress(one, mtime=0) for one in _measurements() if one.startswith(b"{")),
        "energy": ((ROOT / "npu_testbed" / "energy" / "illustrative.toml").read_bytes(),),
        "chip": _chips(),
        "board": ((ROOT / "npu_testbed" / "firmware" / "chips" / "corstone-300.toml").read_bytes(),),
        "elf": (_firmware(),),
        "cpu": ((ROOT / "npu_testbed" / "cpu_time" / "cortex-m55.toml").read_bytes(),),
        "homes": (b'input = "ext"\noutput = "axi1"\n', b'image = "sram"\nafter = "ext"\n'),
        "csv": (b"model,NPU_ACTIVE,timing_adapter,network,use\n{model},15000,off,a,\n{model},16000,u55_high_end,b,test\n",),
    }


COMMANDS: dict[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    "network": ("n.tflite", (("simulate", "vela", "{}"), ("schedule", "{}", "--no-cascade", "-o", "s.json"), ("validate", "vela", "{}"))),
    "compiled": ("n_vela.tflite", (("simulate", "vela", "{}", "--stalls"), ("inspect", "{}"), ("export", "{}", "-o", "x.tflite"))),
    "deep": (
        "n_vela.tflite",
        (
            ("inspect", "{}"),
            ("export", "{}", "-o", "x.tflite"),
            ("simulate", "vela", "{}", "--stalls"),
            ("check", "{}", "--max-cycles", "1"),
            ("verify", "{}", "--model", "{deep}", "--inferences", "1"),
        ),
    ),
    "executorch": ("n.pte", (("simulate", "vela", "{}", "--stalls"), ("inspect", "{}"))),
    "source": ("n.cc", (("simulate", "vela", "{}"),)),
    "deployed": ("n.c", (("simulate", "vela", "{}", "--stalls"), ("inspect", "{}"), ("verify", "{}"))),
    "raw": ("n.npz", (("simulate", "vela", "{}", "--stalls"), ("inspect", "{}"), ("verify", "{}"))),
    "baseline": ("b.json", (("check", "{model}", "--against", "{}"),)),
    "ini": ("v.ini", (("simulate", "vela", "{model}", "--config", "{}", "--system-config", "Ethos_U55_High_End_Embedded"),)),
    "toml": ("t.toml", (("simulate", "vela", "{model}", "--timing-adapter", "{}"),)),
    "profile": ("p.toml", (("calibrate", "check", "{}", "{csv}"),)),
    "timing": (
        "p.toml",
        (
            ("simulate", "vela", "{small}", "--no-advice", "--timing", "{}"),
            ("schedule", "{small}", "--timing", "{}", "--no-cascade", "-o", "s.json"),
        ),
    ),
    "pack": ("m.pdsc", (("simulate", "vela", "{small}", "--no-advice", "--chip", "{}"),)),
    "inputs": ("i.npz", (("verify", "{of_small}", "--model", "{small}", "--inferences", "1", "--input", "{}"),)),
    "measured": ("m.csv", (("simulate", "vela", "{model}", "--no-advice", "--measured", "{}"),)),
    "trace": ("t.json.gz", (("simulate", "vela", "{model}", "--no-advice", "--measured", "{}"),)),
    "energy": ("e.toml", (("diff", "{model}", "--timing-adapter", "u55_high_end,off", "--energy", "{}"),)),
    "chip": ("c.toml", (("simulate", "vela", "{small}", "--chip", "{}"),)),
    "board": ("b.toml", (("device", "run", "{elf}", "--chip", "{}", "--time-limit", "0.001"),)),
    "elf": ("f.elf", (("device", "run", "{}", "--time-limit", "0.001"),)),
    "cpu": ("c.toml", (("simulate", "vela", "{split}", "--cpu", "{}"),)),
    "homes": ("h.toml", (("schedule", "{split}", "--home", "{}", "--no-cascade", "-o", "s.json"),)),
    "plan": (
        "p.json",
        (
            ("simulate", "schedule", "{}", "--stalls", "--no-advice"),
            ("simulate", "schedule", "{}", "--no-advice", "--stream", "input=100"),
            ("inspect", "{}"),
            ("export", "{}", "-o", "x.tflite"),
            ("export", "{}", "-o", "x.c", "--format", "c"),
            ("diff", "{}", "--timing-adapter", "u55_high_end,off"),
        ),
    ),
    "decided": ("p.json", (("verify", "{}", "--inferences", "1"),)),
    "csv": ("c.csv", (("calibrate", "check", "{profile}", "{}"), ("calibrate", "fit", "{}", "-o", "f.toml"))),
}
"""The file and the command lines of each kind."""

KINDS = (*COMMANDS, *(kind.__name__ for kind in damage.KINDS))


def case_of(kind: str, seed: int) -> Case:
    """The case of a seed."""
    if kind not in COMMANDS:
        return Case(kind, seed)
    rng = random.Random(f"{kind} {seed}")
    name, commands = COMMANDS[kind]
    if kind in ("plan", "decided"):
        data = edited_plan(rng, decisions=kind == "decided")
        return Case(kind, seed, rng.choice(commands), name, base64.b64encode(data).decode())
    data = rng.choice(_seeds()[kind])
    if kind in ("chip", "board", "cpu", "homes", "toml", "energy", "profile", "timing"):
        data = _toml(rng, data)
    elif kind in ("deep", "executorch"):
        data = _in_payload(rng, data)
    elif kind in ("network", "compiled", "raw", "trace", "elf", "inputs"):
        copy = bytearray(data)
        damage.damaged(rng, copy, 0, len(copy), rng.choice((1, 4)))
        data = bytes(copy)
    else:
        data = _text(rng, data)
    return Case(kind, seed, rng.choice(commands), name, base64.b64encode(data).decode())


def _run_command(case: Case, folder: Path) -> int:
    """Run the command line in ``folder``; its status, or WRONG if what it says is no sentence."""
    model, table = folder / "model_vela.tflite", folder / "table.csv"
    model.write_bytes(_seeds()["compiled"][0])
    (folder / "split.tflite").write_bytes(_seeds()["network"][2])
    (folder / "small.tflite").write_bytes(_seeds()["network"][0])
    (folder / "deep.tflite").write_bytes(_deep_model())
    (folder / "of_small_vela.tflite").write_bytes(_compiled_small())
    (folder / "tools").mkdir()
    (folder / "tools" / "vela.ini").write_text(_ONE_CONFIGURATION)
    (folder / "a.elf").write_bytes(_seeds()["elf"][0])
    table.write_text(f"model,NPU_ACTIVE,timing_adapter\n{model.name},15000,off\n")
    file = folder / case.name
    file.write_bytes(case.data.replace(b"{model}", model.name.encode()))
    places = {"{}": str(file), "{model}": str(model), "{csv}": str(table), "{profile}": str(PROFILE)}
    places |= {"{split}": str(folder / "split.tflite"), "{small}": str(folder / "small.tflite"), "{elf}": str(folder / "a.elf")}
    places |= {"{deep}": str(folder / "deep.tflite"), "{of_small}": str(folder / "of_small_vela.tflite")}
    argv = [places.get(word, str(folder / word) if word.startswith(("s.", "x.", "f.")) else word) for word in case.argv]
    status = main(argv)
    sys.stderr.flush()
    said = (folder / "stderr").read_bytes()
    if status == 2:
        if any(folder.glob("[sxf].*")):
            # A refusal leaves no file.
            return WRONG
        fine = said.startswith(b"npu-testbed: error: ") and said.rstrip().endswith((b".", b").")) and said.count(b"\n") == 1
        return 2 if fine and len(said) < 3000 else WRONG
    if case.kind == "decided" and status == 1:
        # What a schedule decides changes no byte of its network's outputs.
        return WRONG
    return status if b"Traceback" not in said else WRONG


def _own_bytes() -> int:
    """Bytes of address space of this process, which a case begins with: a run of many tests takes gigabytes. 0 where nothing says so."""
    said = Path("/proc/self/statm")
    return int(said.read_text().split()[0]) * resource.getpagesize() if said.is_file() else 0


def _child(case: Case, folder: Path) -> int:
    """The case, in a process of its own."""
    most = _own_bytes() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT, 0o600), number)
        # Under pytest they are streams of its own.
        setattr(sys, name, os.fdopen(number, "w", closefd=False))
    tempfile.tempdir = str(folder)
    os.chdir(folder)
    # Vela may take 120 s by default, and on some damaged networks does: our bound must end it before the case is over.
    os.environ[TIMEOUT_VARIABLE] = str(SECONDS // 3)
    if case.argv:
        return _run_command(case, folder)
    kind = next(kind for kind in damage.KINDS if kind.__name__ == case.kind)
    return {"result": 0, "refused": 2}[damage.outcome(kind, case.seed)]


def run(case: Case) -> str:
    """ "result", "refused", or what is wrong with how the case ended."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name)
        child = os.fork()
        if child == 0:
            status = WRONG
            with suppress(BaseException):
                try:
                    os.setpgid(0, 0)
                    status = _child(case, folder)
                except BaseException:
                    traceback.print_exc()
                    raise
            sys.stderr.flush()
            os._exit(status)
        deadline = time.monotonic() + SECONDS
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > deadline:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return f"hang: more than {SECONDS} s"
            time.sleep(0.002)
        status = os.waitstatus_to_exitcode(ended[1])
        if status in (0, 1, 2):
            left = [path.name for path in folder.glob("npu-testbed-*")]
            return f"left behind: {left}" if left else "refused" if status == 2 else "result"
        report = "".join(path.read_text() for path in folder.glob("npu-testbed-error-*"))
        return f"status {status}: {report}{(folder / 'stderr').read_text(errors='replace')[-3000:]}"


def cases(start: int) -> Iterator[Case]:
    """Cases of all kinds in turn, without end."""
    for seed in range(start, 1 << 62):
        for kind in KINDS:
            yield case_of(kind, seed)


def fuzz(more: Callable[[int], bool], start: int, found: Path) -> bool:
    """Run cases while there are to be ``more``; whether all passed."""
    counts: Counter[tuple[str, str]] = Counter()
    numbered = enumerate(cases(start))
    # Whoever interrupts a long run sees what it has come to.
    with suppress(KeyboardInterrupt):
        _run_all(numbered, more, found, counts)
    for (kind, outcome), count in sorted(counts.items()):
        print(f"{kind:>20} {outcome:>8} {count}")  # noqa: T201  # run by hand
    print(f"{counts.total()} cases")  # noqa: T201  # run by hand
    return not any(outcome == "FAILED" for _, outcome in counts)


def _run_all(numbered: Iterator[tuple[int, Case]], more: Callable[[int], bool], found: Path, counts: Counter[tuple[str, str]]) -> None:
    """Run the cases and count how they ended; what fails is printed and kept."""
    for number, case in numbered:
        if not more(number):
            break
        outcome = run(case)
        counts[case.kind, outcome if outcome in ("result", "refused") else "FAILED"] += 1
        if outcome not in ("result", "refused"):
            found.mkdir(exist_ok=True)
            (found / f"{case.kind}_{case.seed}.json").write_text(json.dumps(to_builtins(case)) + "\n")
            print(f"{case.kind} {case.seed} {' '.join(case.argv)}\n{outcome}\n", flush=True)  # noqa: T201  # run by hand


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=1 / 12, help="how long to run (default: five minutes)")
    parser.add_argument("--cases", type=int, help="how many cases to run, however long it takes")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    return parser.parse_args()


if __name__ == "__main__":
    arguments = _parse()
    end = time.monotonic() + 3600 * arguments.hours
    wanted = arguments.cases
    passed = fuzz(lambda n: n < wanted if wanted else time.monotonic() < end, arguments.start, Path("fuzz_found"))
    sys.exit(0 if passed else 1)
