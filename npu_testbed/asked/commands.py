"""The commands: the module of each Ask, and the line that lists the command. A module is imported when its command is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from npu_testbed.asked.ask import Ask


class Command(NamedTuple):
    """A command: its words on the command line, its module below ``npu_testbed.commands``, and its purpose."""

    words: str
    module: str
    ask: str
    summary: str

    @property
    def name(self) -> str:
        """The name of its function in Python."""
        return self.words.replace(" ", "_").replace("-", "_")

    def load(self) -> type[Ask[Any]]:
        """Import the Ask."""
        found: type[Ask[Any]] = getattr(import_module(f"npu_testbed.commands.{self.module}"), self.ask)
        return found


class Family(NamedTuple):
    """A word that several commands begin with: its purpose, and the heading of its commands."""

    summary: str
    description: str
    title: str
    metavar: str
    examples: tuple[str, ...]


COMMANDS = (
    Command("schedule", "schedule", "Schedule", "schedule a network and write the schedule file"),
    Command("compile", "compilation", "Compile", "compile a network to a *_vela.tflite, in the place of `vela`"),
    Command("frontier", "frontier", "Frontier", "find all schedules that no other one beats in SRAM and cycles"),
    Command("compare", "compare", "Compare", "compare the frontier of a network with Vela's schedules"),
    Command("diff", "diff", "Diff", "say what moved between two schedules or configurations, layer by layer"),
    Command("check", "check", "Check", "hold a schedule to a budget or a baseline, with exit status 1 if it is missed"),
    Command("sweep", "sweep", "Sweep", "schedule networks on every combination of MACs, memories, budgets and parameters"),
    Command("simulate schedule", "simulate", "SimulateSchedule", "replay a schedule file"),
    Command("simulate vela", "simulate", "SimulateVela", "replay Vela's own schedule"),
    Command("inspect", "inspect", "Inspect", "print the NPU programs of a file as text"),
    Command("verify", "verify", "Verify", "run a schedule bit by bit and compare its outputs"),
    Command("export", "export", "Export", "write a schedule for stock Ethos-U software"),
    Command("device run", "device", "DeviceRun", "run an ELF file on a chip"),
    Command("device files", "device", "DeviceFiles", "write the C library for programs on the host"),
    Command("device serve", "device", "DeviceServe", "serve a device to another process through standard input and output"),
    Command("validate fvp", "validate_fvp", "ValidateFvp", "counters of the Corstone FVPs"),
    Command("validate vela", "validate_networks", "ValidateVela", "SRAM and cycles of Vela's schedules next to ours"),
    Command("validate litert", "validate_networks", "ValidateLitert", "outputs of Vela's schedules, bit by bit"),
    Command("validate portfolio", "validate_portfolio", "ValidatePortfolio", "our schedules next to Vela's on typical networks"),
    Command("validate all", "validate", "ValidateAll", "the scorecard of all peers"),
    Command("calibrate fit", "calibrate", "CalibrateFit", "fit timing parameters"),
    Command("calibrate check", "calibrate", "CalibrateCheck", "replay measurements under a profile"),
)
"""All commands in the order of the help text."""


def command_of(ask: type[Ask[Any]]) -> Command:
    """The command of an Ask."""
    return next(one for one in COMMANDS if one.ask == ask.__name__)


FAMILIES = {
    "simulate": Family(
        "replay a schedule on the simulated NPU",
        "Replay a schedule operation by operation: cycles, peak SRAM, traffic per port, and the layers that take them.\n\n"
        "Values are not checked: use `npu-testbed verify`.",
        "schedules",
        "SCHEDULE",
        ("npu-testbed simulate schedule mobilenet_v1.json", "npu-testbed simulate vela zoo:mobilenet_v1"),
    ),
    "device": Family(
        "run firmware on the NPU behind its registers",
        "The NPU with its registers, interrupt and PMU: for firmware on an emulated Cortex-M, and for drivers on the host.",
        "ways",
        "WAY",
        ("npu-testbed device run firmware.elf --chip corstone-300", "npu-testbed device files -o host"),
    ),
    "validate": Family(
        "compare the simulator with its peers",
        "Compare the simulator with a peer and report every error.",
        "peers",
        "PEER",
        ("npu-testbed validate all", "npu-testbed validate fvp", "npu-testbed validate vela zoo:ds_cnn"),
    ),
    "calibrate": Family(
        "fit the timing model to measurements",
        "Fit the timing parameters to measurements, such as those of a chip of your own, or check a fit.",
        "tasks",
        "TASK",
        ("npu-testbed calibrate fit chip.csv -o chip.toml", "npu-testbed calibrate check chip.toml chip.csv"),
    ),
}
"""The words that several commands begin with."""
