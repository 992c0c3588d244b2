"""``npu-testbed device``: an NPU with its registers, for firmware on an emulated core and for programs in C."""

# No `from __future__ import annotations`: fields of Asks are read as values.
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from npu_testbed.asked import kinds
from npu_testbed.asked.ask import Ask
from npu_testbed.asked.option import Option
from npu_testbed.asked.readers import seconds

if TYPE_CHECKING:
    from npu_testbed.ground.progress import Progress
    from npu_testbed.outcomes import Outcome
    from npu_testbed.outcomes.device_plan import DeviceRunOutcome


class DeviceRunOptions(Ask["DeviceRunOutcome"], frozen=True, kw_only=True):
    """The options of ``device run``."""

    chip: Annotated[str, Option("core, memories, NPU and UART (default: corstone-300)", "NAME|FILE.toml")] = "corstone-300"
    data: Annotated[
        str | Sequence[str],
        Option("a file that lies in memory from the start; may be given several times", "FILE@ADDRESS", many=True),
    ] = ()
    dump: Annotated[
        str | Sequence[str],
        Option("write memory to a file once the firmware has ended; may be given several times", "FILE@ADDRESS,SIZE", many=True),
    ] = ()
    time_limit: Annotated[float | str, Option("limit of the time of the chip's own clock (default: 10)", "SECONDS", seconds)] = 10.0
    timing: kinds.Timing = None


class DeviceRun(DeviceRunOptions, frozen=True):
    """Run firmware on an emulated Cortex-M core with the NPU in its address space.

    The output of the firmware, through its UART or semihosting, is printed. Status 1 unless it ends by itself with exit code 0.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "npu-testbed device run firmware.elf --chip corstone-300",
        "npu-testbed device run firmware.elf --chip board.toml --data model.tflite@0x62000000 --time-limit 2",
    )

    firmware: Annotated[kinds.PathText, Option("the ELF file of a Cortex-M program (.elf, .axf)", "FIRMWARE.elf", source=True)]

    def answer(self, show: "Progress") -> "DeviceRunOutcome":
        """Run the firmware; status 1 unless it ends with exit code 0."""
        from fractions import Fraction

        from npu_testbed.devices.timing import load_timing
        from npu_testbed.firmware import load_chip, run_firmware
        from npu_testbed.ground.files import require_writable, write_files
        from npu_testbed.outcomes.device_plan import DeviceRunOutcome

        data = [_placed(text) for text in self.data]
        spans = dict(_span(text) for text in self.dump)
        for path in spans:
            require_writable(path, self.firmware, *(text.rpartition("@")[0] for text in self.data))
        chip, timing = load_chip(self.chip), load_timing(None if self.timing is None else str(self.timing))
        show(f"Running {self.firmware} on {chip.name}")
        result = run_firmware(str(self.firmware), chip, Fraction(self.time_limit), data, timing, list(spans.values()))
        write_files(dict(zip(spans, result.dumped, strict=False)))
        return DeviceRunOutcome(result)


class DeviceFiles(Ask["Outcome"], frozen=True, kw_only=True):
    """Write npu_device.h and npu_device.c, through which a driver built for the host reaches the NPU."""

    examples: ClassVar[tuple[str, ...]] = ("npu-testbed device files -o host",)
    has_document: ClassVar[bool] = False

    output: Annotated[Path | None, Option("an existing folder", "FOLDER", Path, named=("-o",), needed=True)] = None

    def answer(self, show: "Progress") -> "Outcome":
        """Write the library."""
        from npu_model.printable import printable
        from npu_testbed.firmware.serve import host_files
        from npu_testbed.outcomes import TextOutcome
        from npu_testbed.replays.program_files import write_files

        folder = Path() if self.output is None else Path(self.output)
        files = {folder / name: content for name, content in host_files().items()}
        write_files(files)
        show(f"Wrote {folder}")
        return TextOutcome("".join(f"{printable(str(path))}: {len(content):,} bytes\n" for path, content in files.items()))


class DeviceServe(Ask["Outcome"], frozen=True, kw_only=True):
    """Serve a device over standard input and output: the C library starts this command. docs/firmware.md has the protocol."""

    examples: ClassVar[tuple[str, ...]] = ("npu-testbed device serve --accelerator-config ethos-u55-256 --timing-adapter off",)
    has_document: ClassVar[bool] = False

    accelerator_config: kinds.Accelerator = "ethos-u55-128"
    timing_adapter: Annotated[kinds.PathText, Option("memories behind the AXI ports (default: u55_high_end)", "NAME|FILE")] = "u55_high_end"
    timing: kinds.Timing = None

    def answer(self, show: "Progress") -> "Outcome":
        """Serve until the other side closes the connection."""
        from npu_testbed.devices.configs import load_timing_adapter
        from npu_testbed.devices.timing import load_timing
        from npu_testbed.firmware.serve import serve
        from npu_testbed.outcomes import TextOutcome

        timing = load_timing(None if self.timing is None else str(self.timing))
        show("Serving")
        serve(str(self.accelerator_config), load_timing_adapter(str(self.timing_adapter)), timing)
        return TextOutcome("")


def _span(text: str) -> tuple[Path, tuple[int, int]]:
    """FILE@ADDRESS,SIZE as a path, and an address with a number of bytes."""
    from npu_model.errors import InputError

    path, _, span = text.rpartition("@")
    try:
        address, size = (int(one, 0) for one in span.split(","))
    except ValueError:
        address = size = -1
    if not path or not 0 <= address < 1 << 32 or not 0 < size <= 1 << 28:
        raise InputError(f"--dump {text[:60]!r} names no memory: give FILE@ADDRESS,SIZE, such as output.bin@0x93000000,16.")
    return Path(path), (address, size)


def _placed(text: str) -> tuple[int, bytes]:
    """FILE@ADDRESS as an address and the file's bytes."""
    from npu_model.errors import InputError
    from validation.reading import read_file

    path, _, address = text.rpartition("@")
    try:
        number = int(address, 0)
    except ValueError:
        number = -1
    if not path or not 0 <= number < 1 << 32:
        raise InputError(f"--data {text[:60]!r} has no address: give FILE@ADDRESS, such as model.tflite@0x62000000.")
    return number, read_file(path, "Data")
