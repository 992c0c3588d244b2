"""Firmware on QEMU's Cortex-M55: what it prints is what the other emulator, the replay and the functional run say."""

from __future__ import annotations

import re
import shutil
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from command_line import call, refusal
from firmware_builds import by_hand, compiled, make, need, network
from hypothesis import given
from hypothesis import strategies as st
from reference_data import shared_data
from test_firmware import _HEAD, CHIP, printed
from test_json_schemas import require_valid

from npu_model.compiled.network import read_compiled
from npu_model.memory.timing_adapter import profile
from npu_testbed.firmware import load_chip, run_firmware
from npu_testbed.firmware.thumb_access import advanced, thumb_access
from npu_testbed.models.sources import load_model
from sim import counted_replay
from validation.litert.judge import reference_outputs

M55 = CHIP.with_name("corstone-300-m55.toml")


def need_qemu() -> None:
    need("qemu-system-arm", "qemu-system-arm")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example built for a Cortex-M55 with Helium."""
    need_qemu()
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi libnewlib-arm-none-eabi")
    need("make", "make")
    folder = tmp_path_factory.mktemp("m55")
    network(folder)
    make(f"NETWORK={folder}", f"BUILD={folder}", "CORE=-mcpu=cortex-m55 -mfloat-abi=hard", folder / "firmware.elf")
    return folder


def test_the_example_with_helium_prints_the_functional_runs_bytes_and_the_replays_counts(built: Path) -> None:
    document = require_valid("device run", built / "firmware.elf", "--chip", "corstone-300-m55", "--time-limit", 60)
    assert document["output"] == printed(built)
    assert document["passed"]
    assert document["core_cycles"] is None


def test_an_arena_in_memory_of_the_core_alone_is_a_bus_abort_there_too(built: Path, tmp_path: Path) -> None:
    chip = tmp_path / "blind.toml"
    chip.write_text(M55.read_text().replace("size = 0x400000\n", "size = 0x400000\nnpu = false\n"))
    document = require_valid("device run", built / "firmware.elf", "--chip", chip, "--time-limit", 60)
    assert "job 0: result 4, STATUS 0x" in document["output"]
    assert document["exit_code"] == 1


_ACCESSES = """
#define NPU(offset) (0x58102000 + offset)
#define UART2(offset) (*(volatile uint32_t *)(0x59303000 + offset))
static void put2(const char *text) { while (*text) { while (UART2(4) & 1) { } UART2(0) = (uint8_t)*text++; } }
static void hex(uint32_t value) { char text[10] = "        "; for (int i = 7; i >= 0; --i) {
    text[i] = "0123456789abcdef"[value & 15]; value >>= 4; }
    put2(text); put2(" "); }
void entry(void) {
    UART2(16) = 16; UART2(8) = 1;
    uint32_t a, b, base = NPU(0x80), one = 0x11223344, two = 0x80F0A5C3;
    __asm volatile("str %1, [%0]" : : "r"(base), "r"(one) : "memory");
    __asm volatile("strb %1, [%0, #1]\\n strh %1, [%0, #2]" : : "r"(base), "r"(two) : "memory");
    __asm volatile("ldr %0, [%1]" : "=r"(a) : "r"(base)); hex(a);
    __asm volatile("ldrsb %0, [%1, #1]" : "=r"(a) : "r"(base)); hex(a);
    __asm volatile("ldrsh %0, [%1, #2]" : "=r"(a) : "r"(base)); hex(a);
    __asm volatile("ldrb %0, [%1, #3]" : "=r"(a) : "r"(base)); hex(a);
    base = NPU(0x1A0);
    __asm volatile("strd %1, %2, [%0]" : : "r"(base), "r"(one), "r"(two) : "memory");
    __asm volatile("ldrd %0, %1, [%2]" : "=r"(a), "=r"(b) : "r"(base)); hex(a); hex(b);
    base = NPU(0x2C);
    __asm volatile("str %1, [%0], #4" : "+r"(base) : "r"(two) : "memory"); hex(base);
    __asm volatile("ldr %1, [%0, #-4]!" : "+r"(base), "=r"(a)); hex(base); hex(a);
    b = NPU(0); a = 0x2C >> 2;
    __asm volatile("ldr %0, [%1, %0, lsl #2]" : "+r"(a) : "r"(b)); hex(a);
    a = 1; b = 5;
    __asm volatile("cmp %0, #1\\n ittee eq\\n ldreq %1, [%2]\\n addeq %0, #1\\n ldrne %1, [%3]\\n addne %0, #7"
        : "+r"(a), "+r"(b) : "r"(NPU(0x28)), "r"(NPU(0)) : "cc");
    hex(a); hex(b);
    __asm volatile("cmp %0, #1\\n itete eq\\n ldreq %1, [%2]\\n ldrne %1, [%3]\\n addeq %0, #1\\n addne %0, #7"
        : "+r"(a), "+r"(b) : "r"(NPU(0x28)), "r"(NPU(0)) : "cc");
    hex(a); hex(b); while (UART2(4) & 1) { } put2("\\004"); for (;;) { }
}
"""


def test_every_form_of_access_does_the_same_on_both_emulators(tmp_path: Path) -> None:
    need_qemu()
    pytest.importorskip("unicorn", reason="the emulator unicorn is not installed: the extra 'device'")
    file = compiled(_HEAD + _ACCESSES, tmp_path)
    ours, theirs = (run_firmware(file, load_chip(chip), Fraction(30)) for chip in ("corstone-300", "corstone-300-m55"))
    assert ours.stopped == theirs.stopped == ""
    assert ours.output == theirs.output
    words = ours.output.decode().split()
    assert words[:4] == ["a5c3c344", "ffffffc3", "ffffa5c3", "000000a5"]
    assert words[4:6] == ["11223344", "0000a5c3"]
    assert words[6:10] == ["58102030", "5810202c", "80f0a5c3", "80f0a5c3"]
    assert words[10:] == ["00000002", "00001807", "00000009", "10060000"]


def test_a_time_limit_and_an_exit_code_hold(tmp_path: Path) -> None:
    need_qemu()
    path = tmp_path / "hand.elf"
    path.write_bytes(by_hand(0xE7FE))
    assert run_firmware(path, load_chip("corstone-300-m55"), Fraction(1)).stopped == "the firmware has not ended in 1 s of real time"
    path.write_bytes(by_hand(0x2020, 0x4901, 0xBEAB, 0xE7FE, data=(0x50, 0, 0x20026, 7)))
    assert run_firmware(path, load_chip("corstone-300-m55"), Fraction(30)).exit_code == 7


def test_a_machine_that_qemu_has_not_is_refused_with_its_words(tmp_path: Path) -> None:
    need_qemu()
    (tmp_path / "a.elf").write_bytes(by_hand(0xE7FE))
    chip = tmp_path / "other.toml"
    chip.write_text(M55.read_text().replace("mps3-an547", "mps9"))
    assert "QEMU does not start with this firmware" in refusal("device", "run", tmp_path / "a.elf", "--chip", chip)
    chip.write_text(M55.read_text().replace("mps3-an547", "-cpu max"))
    assert "give a machine of QEMU" in refusal("device", "run", tmp_path / "a.elf", "--chip", chip)


def test_without_qemu_its_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.elf").write_bytes(by_hand(0xE7FE))
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    sentence = refusal("device", "run", tmp_path / "a.elf", "--chip", "corstone-300-m55")
    assert sentence.endswith("needs qemu-system-arm, which is not installed: Debian has it as the package qemu-system-arm.")


@given(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF))
def test_any_two_halves_are_an_access_or_none(code: int, more: int) -> None:
    found = thumb_access(code, more, lambda number: 0x5810_2000 + 4 * number)
    assert found is None or (found.size in (2, 4) and found.width in (1, 2, 4) and len(found.registers) in (1, 2))


def test_an_it_block_ends_after_as_many_instructions_as_it_has() -> None:
    for state, length in ((0x08, 1), (0x04, 2), (0x02, 3), (0x01, 4)):
        status = (state & 3) << 25 | (state >> 2) << 10 | 0xF000_0000
        for left in range(length, 0, -1):
            assert status & (3 << 25 | 0x3F << 10), left
            status = advanced(status)
        assert status == 0xF000_0000


def runner() -> Path:
    """Arm's firmware for the FVP in the wheel mlia-ethos-u; skips where that is not installed."""
    found = find_spec("mlia")
    folder = Path(next(iter(found.submodule_search_locations or []), "")) if found else Path()
    files = sorted(folder.glob("resources/backends/applications/*sse-300*tflm-ethos-U55*/*.axf"))
    if not files:
        pytest.skip("the package mlia-ethos-u, which has Arm's firmware for the FVP, is not installed")
    return files[0]


@pytest.mark.parametrize("macs", [32, 64, 128, 256])
@pytest.mark.parametrize("model", ["kws_micronet_m", "rnnoise_INT8", "yolo-fastest_192_face_v4"])
def test_arms_own_firmware_prints_the_replays_counters(model: str, macs: int, tmp_path: Path) -> None:
    need_qemu()
    firmware = runner()
    stream = shared_data() / "fvp" / "streams" / f"{model}.ethos-u55-{macs}.vela500.tflite"
    chip = tmp_path / "chip.toml"
    chip.write_text(M55.read_text().replace("ethos-u55-128", f"ethos-u55-{macs}"))
    outcome = call("device", "run", firmware, "--chip", chip, "--data", f"{stream}@0x90000000", "--time-limit", 120)
    assert outcome.status == 0, outcome
    (program,) = read_compiled(stream.read_bytes()).programs
    counts = counted_replay(program, profile("u55_high_end").memory_system()).pmu()
    printed_counts = {name: int(count) for name, count in re.findall(r"NPU (\w+): (\d+) (?:cycles|beats)", outcome.output)}
    events = ("AXI0_RD_DATA_BEAT_RECEIVED", "AXI0_WR_DATA_BEAT_WRITTEN", "AXI1_RD_DATA_BEAT_RECEIVED")
    assert printed_counts["ACTIVE"] == counts["NPU_ACTIVE"]
    assert {name: printed_counts[name] for name in events} == {name: counts[name] for name in events}


@pytest.mark.parametrize("options", [(), ("--home", "input=ext")])
@pytest.mark.parametrize("model", ["zoo:resnet8", "zoo:ds_cnn"])
def test_outputs_under_arms_own_firmware_are_litert_s(model: str, options: tuple[str, ...], tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="LiteRT's reference kernels are not installed")
    need_qemu()
    firmware, file = runner(), tmp_path / "m.tflite"
    call("schedule", model, *options, "--effort", "quick", "--no-advice", "-o", tmp_path / "s.json")
    call("export", tmp_path / "s.json", "-o", file)
    compiled_network = read_compiled(file.read_bytes())
    (port,) = compiled_network.inputs
    image = np.random.default_rng(3).integers(port.dtype.minimum, port.dtype.maximum + 1, port.shape).astype(str(port.dtype))
    (tmp_path / "input.bin").write_bytes(image.tobytes())
    data = "--data", f"{file}@0x90000000", "--data", f"{tmp_path / 'input.bin'}@0x92000000"
    dump = "--dump", f"{tmp_path / 'output.bin'}@0x93000000,{sum(one.size for one in compiled_network.outputs)}"
    assert call("device", "run", firmware, "--chip", "corstone-300-m55", *data, *dump, "--time-limit", 200).status == 0
    (expected,) = reference_outputs(load_model(model).data, [{port.name: image}])
    assert (tmp_path / "output.bin").read_bytes() == b"".join(values.tobytes() for values in expected.values())


def test_firmware_that_semihosting_ends_leaves_no_memory_to_write(tmp_path: Path) -> None:
    need_qemu()
    (tmp_path / "a.elf").write_bytes(by_hand(0x2018, 0x4901, 0xBEAB, 0xE7FE, data=(0x20026,)))
    words = "device", "run", tmp_path / "a.elf", "--chip", "corstone-300-m55", "--dump", f"{tmp_path / 'a.bin'}@0x21000000,4"
    assert "semihosting ends QEMU too" in refusal(*words)
