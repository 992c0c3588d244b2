"""The report of a run of firmware: its output, the work of the NPUs, and its end."""

from __future__ import annotations

from npu_testbed.documents.firmware import DeviceRunDocument, NpuRunEntry
from npu_testbed.firmware.run import FirmwareRun


def run_json(result: FirmwareRun) -> DeviceRunDocument:
    """The document of a run."""
    return DeviceRunDocument(
        chip=result.chip,
        core_cycles=result.core_cycles,
        exit_code=result.exit_code,
        npu_runs=tuple(NpuRunEntry(one.npu, one.start, one.cycles, one.ending) for one in result.npu_runs),
        output=result.text,
        passed=result.passed,
        stopped=result.stopped,
    )


def run_text(result: FirmwareRun) -> str:
    """The text that the firmware sent, without control codes, and below it a line for each run of an NPU and one for the end."""
    sent = "".join(char for char in result.text if char.isprintable() or char in "\n\t").rstrip("\n")
    lines = [sent] if sent else []
    lines += [f"NPU {one.npu}: {one.cycles:,} cycles from cycle {one.start:,} on, {one.ending}" for one in result.npu_runs]
    ended = f"exit code {result.exit_code}" if result.exit_code is not None else result.stopped
    after = "" if result.core_cycles is None else f" after {result.core_cycles:,} core cycles"
    return "\n".join([*lines, f"{result.chip}: {ended}{after}"])
