"""One run of firmware: its files, its output, its end, and the work of its NPUs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

from msgspec import Struct

from npu_model.errors import InputError
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_testbed.documents.firmware import NpuRun
from npu_testbed.firmware.chip import FirmwareChip
from npu_testbed.firmware.core import StoppedError
from npu_testbed.firmware.elf import Firmware, read_elf
from npu_testbed.firmware.machine import FirmwareMachine
from npu_testbed.firmware.qemu import NotStartedError, QemuMachine
from validation.reading import read_file

MAX_SECONDS = 3600
_TRIES = 3


class FirmwareRun(Struct, frozen=True):
    """The result of firmware: its output, exit code (None if it did not end), why it stopped, and runs of the NPUs.

    ``core_cycles`` are None where the emulator does not count them. ``dumped`` is the memory that the caller asked for, if the firmware has
    ended by itself.
    """

    chip: str
    output: bytes
    exit_code: int | None
    stopped: str
    core_cycles: int | None
    npu_runs: tuple[NpuRun, ...]
    dumped: tuple[bytes, ...] = ()

    @property
    def text(self) -> str:
        """The output as text; bytes that are not UTF-8 are marked."""
        return self.output.decode("utf-8", "replace")

    @property
    def passed(self) -> bool:
        """Whether the firmware ended by itself, with exit code 0."""
        return self.exit_code == 0


def run_firmware(
    firmware: str | Path,
    chip: FirmwareChip,
    seconds: Fraction = Fraction(10),
    data: Sequence[tuple[int, bytes]] = (),
    timing: TimingParameters = DEFAULT_TIMING,
    spans: Sequence[tuple[int, int]] = (),
) -> FirmwareRun:
    """Run an ELF file on a chip for ``seconds`` of its own time (of real time if its core is QEMU's).

    ``data`` are bytes that lie in memory at an address from the start; ``spans`` are addresses and sizes of memory that the result has.
    InputError if the file is not ELF, the chip has no memory for it or for a span, or its emulator is not installed.
    """
    for address, size in spans:
        chip.require_memory(address, size)
    if not 0 < seconds <= MAX_SECONDS:
        raise InputError(f"A time limit of {float(seconds):g} s was given: above 0, up to {MAX_SECONDS} are taken.")
    content = read_file(firmware, "Firmware")
    emulated = read_elf(content)
    machine = _unicorn(chip, emulated, data, timing) if not chip.core.machine else _qemu(chip, content, data, timing)
    code: int | None = None
    stopped, dumped = "", tuple[bytes, ...]()
    try:
        code, dumped = machine.run(seconds, spans)
        if code is None:
            stopped = f"the firmware has not ended in {float(seconds):g} s of {'its own' if not chip.core.machine else 'real'} time"
    except StoppedError as error:
        stopped = str(error)
    runs = tuple(NpuRun(number, run.start, run.cycles, run.ending) for number, npu in enumerate(machine.npus) for run in npu.finished)
    return FirmwareRun(chip.name, bytes(machine.output), code, stopped, machine.core_cycles, runs, dumped)


def _unicorn(chip: FirmwareChip, firmware: Firmware, data: Sequence[tuple[int, bytes]], timing: TimingParameters) -> FirmwareMachine:
    machine = FirmwareMachine(chip, firmware, timing)
    for address, content in data:
        machine.load(address, content)
    return machine


def _qemu(chip: FirmwareChip, firmware: bytes, data: Sequence[tuple[int, bytes]], timing: TimingParameters) -> QemuMachine:
    for _ in range(_TRIES - 1):
        # On a busy machine QEMU 7.2 now and then fails to load a file that it loads the next time.
        with suppress(NotStartedError):
            return QemuMachine(chip, firmware, data, timing)
    return QemuMachine(chip, firmware, data, timing)


def run_text(result: FirmwareRun) -> str:
    """The text that the firmware sent, without control codes, and below it a line for each run of an NPU and one for the end."""
    sent = "".join(char for char in result.text if char.isprintable() or char in "\n\t").rstrip("\n")
    lines = [sent] if sent else []
    lines += [f"NPU {one.npu}: {one.cycles:,} cycles from cycle {one.start:,} on, {one.ending}" for one in result.npu_runs]
    ended = f"exit code {result.exit_code}" if result.exit_code is not None else result.stopped
    after = "" if result.core_cycles is None else f" after {result.core_cycles:,} core cycles"
    return "\n".join([*lines, f"{result.chip}: {ended}{after}"])
