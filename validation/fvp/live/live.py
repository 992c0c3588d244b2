"""The live comparison: compile a network, run it on an FVP and in our replay, and compare the counters."""

from __future__ import annotations

import hashlib

from msgspec import Struct

from cascader.frontends.vela import CompilerOptions, compile_network, named_network
from cascader.frontends.vela.compiler_options import DEFAULT_MEMORY_MODE
from npu_model.accelerator import DEFAULT_ACCELERATOR, accelerator
from npu_model.brief import Brief
from npu_model.compiled.network import CompiledNetwork, is_compiled, read_compiled
from npu_model.errors import InputError
from npu_model.memory.system import MemorySystem
from npu_model.memory.timing_adapter import profile
from npu_model.tflite.model import read_tflite
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from sim import replay_network
from validation.fvp.live.counters import ACTIVE, AXI0_READ, AXI0_WRITE, AXI1_READ, parse_log
from validation.fvp.live.operations import OperationRow, compare_operations
from validation.fvp.live.pmu_trace import read_pmu_trace
from validation.fvp.live.runner import FvpOptions, find_binary, find_firmware, run_fvp
from validation.fvp.scores import CLAIM, relative
from validation.reading import read_file
from validation.tables import Table, percent

READY_FIRMWARE_ADAPTER = "off"
"""Timing-adapter profile of the ready runners: they program no adapter."""


class CounterRow(Struct, frozen=True):
    """One counter by its PMU event name, the FVP's and ours."""

    name: str
    fvp: int
    ours: int

    @property
    def error(self) -> float | None:
        """Relative error; None where the FVP counted nothing."""
        return relative(self.ours, self.fvp) if self.fvp else None


class LiveResult(Brief, frozen=True):
    """A live comparison: the network and its hardware, the counters, and the operations (none without a PMU trace)."""

    unshown = ("operations",)

    accelerator: str
    compiled_sha256: str
    vela: str
    fvp: str
    firmware_sha256: str
    memory_system: str
    counters: tuple[CounterRow, ...]
    operations: tuple[OperationRow, ...]


def _compile(model: bytes, device: str, optimise: str, system_config: str, memory_mode: str) -> tuple[bytes, CompiledNetwork, str]:
    """The compiled file, its network with layer names, and Vela's version. A compiled file is used unchanged."""
    if is_compiled(read_tflite(model)):
        return model, read_compiled(model), ""
    result = compile_network(model, CompilerOptions(device, optimise=optimise, system_config=system_config, memory_mode=memory_mode))
    return result.compiled, named_network(result), result.version


def validate_live(  # noqa: PLR0913  # the options of validate fvp
    model: bytes,
    accelerator_config: str = DEFAULT_ACCELERATOR,
    options: FvpOptions | None = None,
    *,
    optimise: str = "Performance",
    system_config: str = "",
    memory_mode: str = DEFAULT_MEMORY_MODE,
    system: MemorySystem | None = None,
    timing: TimingParameters = DEFAULT_TIMING,
) -> LiveResult:
    """Compile ``model`` (a .tflite; a compiled one is run as it is), run it on an FVP and replay it.

    ``system`` is the memory system that the firmware programs into the timing adapters: none, as in the ready runners, if not given.
    InputError if the FVP or the firmware is missing, the model or a name is wrong, or the run does not give its counters.
    """
    chosen = options or FvpOptions()
    # Missing things are reported before anything takes time.
    binary, firmware = find_binary(chosen.binary), find_firmware(chosen.firmware)
    compiled, network, version = _compile(model, accelerator(accelerator_config).name, optimise, system_config, memory_mode)
    devices = {program.accelerator for program in network.programs}
    if devices != {accelerator_config}:
        raise InputError(f"The network is compiled for {' and '.join(sorted(devices))}, not for {accelerator_config}: name that one.")
    run = run_fvp(compiled, accelerator(accelerator_config).macs, chosen)
    counters = parse_log(run.log, chosen.events)
    memory = system or profile(READY_FIRMWARE_ADAPTER).memory_system()
    ours = replay_network(network, memory, timing=timing)
    counts = {
        ACTIVE: ours.cycles,
        AXI0_READ: ours.beats.axi0_read,
        AXI0_WRITE: ours.beats.axi0_write,
        AXI1_READ: ours.beats.axi1_read,
    }
    if chosen.trace and run.trace is None:
        raise InputError("The FVP wrote no PMU trace: it is too old for --pmu-trace; update it, or run without the trace.")
    streams = read_pmu_trace(run.trace) if run.trace is not None else ()
    return LiveResult(
        accelerator=accelerator_config,
        compiled_sha256=hashlib.sha256(compiled).hexdigest(),
        vela=version,
        fvp=binary.name,
        firmware_sha256=hashlib.sha256(read_file(firmware, "Firmware")).hexdigest(),
        memory_system=memory.name,
        counters=tuple(CounterRow(name, value, counts[name]) for name in counts if (value := counters.get(name)) is not None),
        operations=compare_operations(ours, streams, counters.active) if streams else (),
    )


def render(result: LiveResult) -> list[Table]:
    """The counters, and the operations if there was a trace."""
    counters = tuple((row.name, str(row.fvp), str(row.ours), percent(row.error)) for row in result.counters)
    tables = [Table(f"{result.fvp}, {result.accelerator}, {result.memory_system}", ("counter", "FVP", "ours", "error"), counters, (CLAIM,))]
    if result.operations:
        rows = tuple(
            (f"{row.program}:{row.index}", row.layer or "-", row.operator, str(row.offset), str(row.fvp), str(row.ours), percent(row.error))
            for row in result.operations
        )
        headers = ("operation", "layer", "operator", "offset", "FVP cycles", "ours", "error")
        note = "A row is the time from the issue of a kernel's command to the issue of the next one's, in the PMU trace and in the replay."
        tables.append(Table("Operations", headers, rows, (note,)))
    return tables
