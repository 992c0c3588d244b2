from __future__ import annotations

import gzip
import json
import sys
import time
import tracemalloc
from contextlib import suppress
from functools import cache
from itertools import accumulate
from pathlib import Path

import pytest
from msgspec.structs import replace

from cascader.frontends.vela import VelaResult, compile_network, named_network
from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.memory.timing_adapter import profile
from npu_model.program import KernelOperation
from npu_model.timing import DEFAULT_TIMING
from npu_testbed.outcomes.validation import FvpLiveOutcome
from sim import NetworkReplay, replay_network
from validation.fvp.live import json_events
from validation.fvp.live import pmu_trace as pmu_trace_module
from validation.fvp.live import runner as runner_module
from validation.fvp.live.live import LiveResult, render, validate_live
from validation.fvp.live.operations import compare_operations
from validation.fvp.live.pmu_trace import StreamTrace, read_pmu_trace
from validation.fvp.live.runner import FvpOptions, find_binary, find_firmware, run_fvp
from validation.zoo import build

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for an FVP is a script with a #! line")


def _trace(entries: list[tuple[float, object]], *, packed: bool = True) -> bytes:
    events = [{"name": "qread", "ph": "C", "pid": "DMA", "ts": ts, "args": {"qread": offset}} for ts, offset in entries]
    others = [{"name": "axi_enabled_cycles", "ph": "C", "pid": "DMA", "ts": 1, "args": {"value": 9}}, {"ph": "M", "name": "process_name"}]
    text = json.dumps({"traceEvents": others + events}).encode()
    return gzip.compress(text, mtime=0) if packed else text


def test_a_trace_gives_the_time_at_which_the_npu_had_read_beyond_a_word() -> None:
    (stream,) = read_pmu_trace(_trace([(10, 0), (20, 64), (30, "0x80"), (40, 200)]))
    assert stream == StreamTrace((0, 64, 128, 200), (10.0, 20.0, 30.0, 40.0))
    assert [stream.passed(offset) for offset in (0, 60, 64, 127, 128, 199, 200, 900)] == [20, 20, 30, 30, 40, 40, 40, 40]


def test_a_trace_of_several_streams_is_cut_where_the_offset_falls() -> None:
    first, second = read_pmu_trace(_trace([(1, 0), (2, 8), (2.5, 8), (3, 0), (4, 16)]))
    assert (first.offsets, second.offsets) == ((0, 8, 8), (0, 16))


@pytest.mark.parametrize("shape", ["list", "unpacked", "cut short"])
def test_a_trace_may_be_a_bare_list_that_is_not_closed(shape: str) -> None:
    events = [{"name": "qread", "ts": 1, "args": {"value": 4}}, {"name": "qread", "ts": 2, "args": {"value": 8}}]
    text = {"list": json.dumps(events), "unpacked": json.dumps({"traceEvents": events}), "cut short": json.dumps(events)[:-1] + ",\n"}[
        shape
    ]
    (stream,) = read_pmu_trace(text.encode())
    assert stream.offsets == (4, 8)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not JSON"),
        (b"\x1f\x8bgarbage", "is not gzip"),
        (gzip.compress(b"{", mtime=0), "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"{}", "has 0 qread events"),
        (b"3", "has 0 qread events"),
        (b'{"traceEvents": 3}', "has 0 qread events"),
        (b'[3, {"name": "qread"}, {"name": "qread", "ts": "1", "args": {"qread": 1}}]', "has 0 qread events"),
        (b'[{"name": "qread", "ts": 1, "args": {"qread": "x"}}]', "has 0 qread events"),
        (b'[{"name": "qread", "ts": 1e999, "args": {"qread": 1}}, {"name": "qread", "ts": NaN, "args": {"qread": 1}}]', "has 0 qread"),
        (b'[{"name": "qread", "ts": 1' + b"0" * 400 + b', "args": {"qread": 1}}]', "has 0 qread events"),
        (
            b'[{"name": "qread", "ts": 1, "args": {"a": 1, "b": 2}}, {"name": "qread", "ts": 1, "args": {"qread": -1}}]',
            "has 0 qread events",
        ),
    ],
)
def test_a_damaged_trace_is_one_sentence(data: bytes, message: str) -> None:
    with pytest.raises(InputError) as error:
        read_pmu_trace(data)
    assert message in str(error.value)
    assert str(error.value).count("\n") == 0


def test_a_trace_that_unpacks_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_events, "MAX_BYTES", 1000)
    with pytest.raises(InputError, match="unpacks to more than 1000 bytes"):
        read_pmu_trace(gzip.compress(b" " * 100_000, mtime=0))


@pytest.mark.parametrize(("head", "item"), [(b"[", b"{},"), (b'{"traceEvents":[', b'{"name":"qread","ts":1,"args":{"a":1}},')])
def test_a_trace_that_unpacks_a_thousandfold_takes_little_memory(item: bytes, head: bytes) -> None:
    packed = gzip.compress(head + item * ((1 << 20) // len(item)), mtime=0)
    assert len(packed) < 12_000
    tracemalloc.start()
    try:
        with suppress(InputError):
            read_pmu_trace(packed)
        assert tracemalloc.get_traced_memory()[1] < 12 << 20
    finally:
        tracemalloc.stop()


def test_a_trace_of_too_many_entries_or_of_one_endless_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="a value of more than 4194304 characters"):
        read_pmu_trace(b'["' + b"a" * (6 << 20))
    monkeypatch.setattr(json_events, "MAX_EVENTS", 100)
    with pytest.raises(InputError, match="has more than 100 events"):
        read_pmu_trace(b"[" + b"{}," * 200)
    monkeypatch.setattr(pmu_trace_module, "MAX_ENTRIES", 3)
    assert len(read_pmu_trace(_trace([(1, 0), (2, 4), (3, 8)]))) == 1
    with pytest.raises(InputError, match="has more than 3 qread events"):
        read_pmu_trace(_trace([(1, 0), (2, 4), (3, 8), (4, 12)]))


def test_events_are_those_of_the_whole_document_wherever_its_pieces_end(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [1.25, {"a": [1, {"b": "c,]}"}], "n": -12}, "x", None, True, 123456789, []]
    for size in range(1, 40):
        monkeypatch.setattr(json_events, "_CHUNK", size)
        for text in (json.dumps(whole), json.dumps(whole, indent=1), json.dumps({"x": {"traceEvents": [3]}, "traceEvents": whole, "y": 5})):
            assert list(json_events.events(text.encode())) == whole
            assert list(json_events.events(gzip.compress(text.encode()))) == whole


# Operation by operation


@cache
def compilation() -> VelaResult:
    return compile_network(build("tiny_conv"))


@cache
def network() -> CompiledNetwork:
    return named_network(compilation())


@cache
def our_replay() -> NetworkReplay:
    return replay_network(network(), profile("off").memory_system())


def _as_traced(run: NetworkReplay, scale: float = 1.0) -> list[tuple[float, object]]:
    """The trace that an FVP would write which is our replay: QREAD goes on when a command is issued."""
    entries: list[tuple[float, object]] = []
    begin = 0.0
    for one in run.replays:
        ends = list(accumulate(one.program.words))
        issued = {operation.index: operation.issued for operation in one.operations}
        entries.append((begin, 0))
        entries += [
            (begin + issued[i] * scale, ends[i] * 4) for i, op in enumerate(one.program.operations) if isinstance(op, KernelOperation)
        ]
        entries.append((begin + one.cycles * scale, ends[-1] * 4))
        begin += one.cycles * scale + 1
    return entries


@pytest.mark.parametrize("scale", [1.0, 0.002])
def test_a_trace_of_our_own_replay_agrees_on_every_operation_whatever_its_unit_of_time(scale: float) -> None:
    run = our_replay()
    rows = compare_operations(run, read_pmu_trace(_trace(_as_traced(run, scale))), run.cycles)
    assert len(rows) == sum(len(program.kernels) for program in network().programs)
    assert [row.ours for row in rows] == [row.fvp for row in rows]
    assert all(row.layer for row in rows)
    assert {row.offset for row in rows} <= set(compilation().layers[0])


def test_the_rows_of_both_sides_add_up_to_the_time_after_the_first_issue() -> None:
    run = our_replay()
    rows = compare_operations(run, read_pmu_trace(_trace(_as_traced(run))), run.cycles)
    first = min(op.issued for op in run.replays[0].operations if isinstance(op.op, KernelOperation))
    assert sum(row.ours for row in rows) == run.cycles - first


def test_a_kernel_that_takes_longer_on_the_fvp_shows_in_its_row_alone() -> None:
    run = our_replay()
    entries = _as_traced(run)
    late = [(ts + (500 if position > 1 else 0), offset) for position, (ts, offset) in enumerate(entries)]
    rows = compare_operations(run, read_pmu_trace(_trace(late)), run.cycles + 500)
    assert [row.fvp - row.ours for row in rows] == [500] + [0] * (len(rows) - 1)


def test_a_trace_of_another_network_is_one_sentence() -> None:
    run = our_replay()
    streams = read_pmu_trace(_trace(_as_traced(run)))
    with pytest.raises(InputError, match="has 2 command streams and the network 1"):
        compare_operations(run, (*streams, *streams), run.cycles)
    with pytest.raises(InputError, match="The PMU trace ends at byte 4 of a command stream whose last kernel is at byte"):
        compare_operations(run, (StreamTrace((0, 4), (0.0, 1.0)),), run.cycles)
    with pytest.raises(InputError, match="lasts 0 units of time"):
        compare_operations(run, (StreamTrace((0, 1 << 20), (1.0, 1.0)),), run.cycles)


# Runs of a stand-in for the FVP


def _fake(folder: Path, body: str) -> Path:
    """A script in the place of the FVP; ``argv`` are its arguments and ``trace`` the file that it is asked for."""
    path = folder / "FVP_Corstone_SSE-300_Ethos-U55"
    head = (
        f"#!{sys.executable}\nimport os, signal, sys, time\nfrom pathlib import Path\nargv = sys.argv[1:]\n"
        "trace = next((a.split()[-1] for a in argv if a.startswith('ethosu.extra_args=--pmu-trace ')), None)\n"
    )
    path.write_text(head + body, encoding="utf-8")
    path.chmod(0o755)
    return path


def _options(folder: Path, body: str) -> FvpOptions:
    firmware = folder / "runner.axf"
    firmware.write_bytes(b"\x7fELF")
    return FvpOptions(binary=_fake(folder, body), firmware=firmware, timeout=30)


def _log_of(run: NetworkReplay, active: int) -> str:
    beats = run.beats
    return (
        f"INFO - NPU AXI0_RD_DATA_BEAT_RECEIVED beats: {beats.axi0_read}\nINFO - NPU AXI0_WR_DATA_BEAT_WRITTEN beats: {beats.axi0_write}\n"
        f"INFO - NPU AXI1_RD_DATA_BEAT_RECEIVED beats: {beats.axi1_read}\nINFO - NPU ACTIVE cycles: {active}\n"
    )


def _live(folder: Path, *, active: int, traced: bool = True) -> LiveResult:
    run = our_replay()
    (folder / "trace.gz").write_bytes(_trace(_as_traced(run)))
    write = f"Path(trace).write_bytes(Path({str(folder / 'trace.gz')!r}).read_bytes())\n" if traced else ""
    body = (
        f"Path({str(folder / 'argv')!r}).write_text('\\n'.join(argv))\n"
        "model = argv[argv.index('--data') + 1].rpartition('@')[0]\n"
        f"Path({str(folder / 'model')!r}).write_bytes(Path(model).read_bytes())\n{write}"
        f"print({_log_of(run, active)!r})\n"
    )
    return validate_live(build("tiny_conv"), "ethos-u55-128", replace(_options(folder, body), trace=traced))


def test_a_live_run_sets_counters_and_operations_side_by_side(tmp_path: Path) -> None:
    cycles = our_replay().cycles
    result = _live(tmp_path, active=2 * cycles)
    assert (tmp_path / "model").read_bytes() == compilation().compiled
    errors = {row.name: row.error for row in result.counters}
    assert errors["NPU_ACTIVE"] == -0.5
    assert [errors[name] for name in errors if name != "NPU_ACTIVE"] == [0.0, 0.0, 0.0]
    # The FVP took twice our cycles, so that every operation did (to the cycle, by rounding).
    assert all(abs(row.fvp - 2 * row.ours) <= 1 for row in result.operations)
    document = FvpLiveOutcome(result, DEFAULT_TIMING).to_dict()
    assert document["counters"][0] == {"name": "NPU_ACTIVE", "fvp": 2 * cycles, "ours": cycles, "error": -0.5}
    assert len(document["operations"]) == len(result.operations) > 0
    text = "\n".join(table.text() for table in render(result))
    assert "-50.00 %" in text
    assert result.operations[0].layer in text
    assert "not silicon" in text


def test_the_fvp_is_asked_for_the_macs_the_trace_and_its_serial_line(tmp_path: Path) -> None:
    _live(tmp_path, active=our_replay().cycles)
    argv = (tmp_path / "argv").read_text(encoding="utf-8").split("\n")
    assert argv[argv.index("-a") + 1] == str(tmp_path / "runner.axf")
    assert argv[argv.index("--data") + 1].endswith("network_vela.tflite@0x90000000")
    assert "ethosu.num_macs=128" in argv
    assert "mps3_board.uart0.out_file=-" in argv
    assert any(argument.startswith("ethosu.extra_args=--pmu-trace ") for argument in argv)


def test_without_a_trace_the_counters_alone_are_compared(tmp_path: Path) -> None:
    result = _live(tmp_path, active=our_replay().cycles, traced=False)
    assert result.operations == ()
    assert len(render(result)) == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)\n", "The FVP crashed with signal 11: check that it runs on this system."),
        ("print('cannot open licence')\nsys.exit(3)\n", "The FVP ended with status 3 and says 'cannot open licence': check its licence"),
        ("sys.exit(1)\n", "The FVP ended with status 1 and says nothing"),
    ],
)
def test_an_fvp_that_fails_is_one_sentence(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        run_fvp(b"network", 128, _options(tmp_path, body))
    assert str(error.value).startswith(message)


def test_a_hanging_fvp_ends_with_all_that_it_started(tmp_path: Path) -> None:
    beats = tmp_path / "beats"
    child = f"import time\nwhile True:\n    open({str(beats)!r}, 'a').write('x')\n    time.sleep(0.01)\n"
    body = f"import subprocess\nsubprocess.Popen([sys.executable, '-c', {child!r}])\ntime.sleep(60)\n"
    start = time.monotonic()
    with pytest.raises(InputError, match=r"^The FVP did not finish within 1\.5 s: give more time"):
        run_fvp(b"network", 128, replace(_options(tmp_path, body), timeout=1.5))
    assert time.monotonic() - start < 30
    # The child's heart beats no more, if a busy machine let it start at all.
    time.sleep(0.2)
    length = beats.stat().st_size if beats.exists() else 0
    time.sleep(0.3)
    assert (beats.stat().st_size if beats.exists() else 0) == length


def test_an_fvp_that_never_stops_talking_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "MAX_LOG_BYTES", 10_000)
    with pytest.raises(InputError, match="wrote more than 10000 bytes of log"):
        run_fvp(b"network", 128, _options(tmp_path, "while True: print('x' * 1000, flush=True); time.sleep(0.001)\n"))


def test_a_binary_of_another_system_is_one_sentence(tmp_path: Path) -> None:
    options = _options(tmp_path, "")
    assert options.binary is not None
    options.binary.write_bytes(b"\x00\x01\x02\x03")
    with pytest.raises(InputError, match=r"^The FVP FVP_Corstone_SSE-300_Ethos-U55 cannot be started \(Exec format error\)"):
        run_fvp(b"network", 128, options)


def test_a_run_without_counters_or_trace_is_one_sentence(tmp_path: Path) -> None:
    compiled = compilation().compiled
    with pytest.raises(InputError, match="has no NPU_ACTIVE"):
        validate_live(compiled, options=_options(tmp_path, "print('hello')\n"))
    with pytest.raises(InputError, match="wrote no PMU trace: it is too old for --pmu-trace"):
        validate_live(compiled, options=_options(tmp_path, "print('NPU ACTIVE cycles: 7')\n"))
    with pytest.raises(InputError, match="compiled for ethos-u55-128, not for ethos-u55-256: name that one"):
        validate_live(compiled, "ethos-u55-256", _options(tmp_path, ""))


def test_the_fvp_is_found_in_path_or_where_the_option_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="No FVP is in PATH"):
        find_binary(None)
    fake = _fake(tmp_path, "")
    assert find_binary(None) == fake
    assert find_binary(fake) == fake
    for wrong in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InputError, match="is not a file that can be run"):
            find_binary(wrong)


def test_ready_firmware_is_found_in_its_package_for_this_board_and_framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="No firmware was given and no runner of mlia-ethos-u is installed"):
        find_firmware(None)
    runners = ("sse-310/u55/tflm/a.axf", "sse-300/u65/tflm/a.axf", "sse-300/u55/executorch/a.axf", "sse-300/u55/tflm/a.axf")
    record = ""
    for runner in runners:
        path = tmp_path / "mlia_ethos_u" / runner
        path.parent.mkdir(parents=True)
        path.write_bytes(b"\x7fELF")
        record += f"mlia_ethos_u/{runner},,\n"
    info = tmp_path / "mlia_ethos_u-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mlia-ethos-u\nVersion: 0.1\n", encoding="utf-8")
    (info / "RECORD").write_text(record, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_firmware(None) == tmp_path / "mlia_ethos_u" / "sse-300/u55/tflm/a.axf"
    with pytest.raises(InputError, match=r"is not a file: give the path of an \.axf"):
        find_firmware(tmp_path)
