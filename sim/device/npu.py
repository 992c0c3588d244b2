"""The NPU as a core sees it: registers, an interrupt line, and memory that changes with time."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from npu_model.accelerator import accelerator
from npu_model.errors import InputError
from npu_model.memory.system import AXI0, AXI1, Memory, MemorySystem
from npu_model.program import Control, ControlKind, DmaOperation, KernelOperation
from npu_model.programmer_registers import Register
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from sim.device.bus import Bus
from sim.device.commands import REGIONS, Commands, commands
from sim.device.operands import COMMANDS, BusAbortError, Operands, OperandWindow
from sim.device.pmu import PmuRegisters
from sim.device.register_file import Words
from sim.device.run import DeviceEnding, DevicePlanner, DeviceStep, Run
from sim.functional import FilterCache, Store

_SHRAM_BANK = 1024
_BASE_ALIGNMENT = 16
_BURST_BYTES = {0: 64, 1: 128, 2: 256, 3: 256}
"""AXI_LIMIT.max_beats (core driver); 3 is reserved."""


class FinishedRun(Struct, frozen=True):
    """A finished run: the device's cycle at its start, its length in cycles, and its end ("reset" if a reset stopped it)."""

    start: int
    cycles: int
    ending: str


class Device:
    """One NPU. ``read`` and ``write`` take byte offsets of words; ``advance`` lets its clock run.

    ``memory_system`` gives the memories behind the two AXI ports. REGIONCFG and QCONFIG map regions to ports; AXI_LIMIT bounds bursts and
    outstanding transactions. ``cycle`` counts the NPU's clock since the device was made. ``complaint`` is the sentence for the last parse
    error or bus abort since the last reset; "" without one. ``finished`` are its runs.
    """

    def __init__(self, accelerator_name: str, memory_system: MemorySystem, bus: Bus, timing: TimingParameters = DEFAULT_TIMING) -> None:
        self.accelerator = accelerator(accelerator_name)
        self.cycle = 0
        self.complaint = ""
        self.finished: list[FinishedRun] = []
        self._system, self._bus = memory_system, bus
        self._words = Words(accelerator_name)
        self._planner = DevicePlanner(self.accelerator, timing)
        self._operands = Operands(self.accelerator, bus, Store(self.accelerator.shram_banks * _SHRAM_BANK), FilterCache())
        self._pmu = PmuRegisters(self._words)
        self._run: Run | None = None
        self._steps: list[DeviceStep] = []
        self._started = 0
        self._resume = 0
        self._past: dict[str, int] = {}
        self._active = 0
        self._since_active: int | None = None
        self._level = False

    # -- the bus side: registers and time

    def read(self, offset: int) -> int:
        """The word at a byte offset; 0 without a register. InputError if the offset is not a word's."""
        register = self._words.at(offset)
        if register is None:
            return 0
        if register.name == "QREAD" and self._run is not None:
            return self._run.offset(self.cycle - self._started)
        found = self._pmu.read(register)
        return self._words.values[register.name] if found is None else found

    def write(self, offset: int, value: int) -> None:
        """Write the low 32 bits at a byte offset.

        Without a register, or with a read-only one, nothing happens. InputError if the offset is not a word's.
        """
        register = self._words.at(offset)
        if register is None:
            return
        value &= (1 << 32) - 1
        if self._pmu.owns(register):
            self._count()
            self._pmu.write(register, value)
            self._count()
        else:
            self._words.store(register, value)
            self._react(register, value)
        self._drive()

    def advance(self, cycles: int) -> None:
        """Let the clock run for ``cycles``: operations end, memory changes, counters count, the interrupt is raised."""
        if cycles < 0:
            raise InputError(f"The clock is asked to run for {cycles} cycles: 0 or more are needed.")
        target = self.cycle + cycles
        while (event := self._next_event()) is not None and event <= target:
            self.cycle = event
            self._happen()
        self.cycle = target
        self._count()
        self._drive()

    @property
    def is_running(self) -> bool:
        """STATUS.state."""
        return self._run is not None

    @property
    def idle_for(self) -> int | None:
        """Cycles until the interrupt line may change by itself; None if it changes only after a write to a register."""
        if self._run is None:
            return None
        irqs = [step.cycle for step in self._steps if isinstance(self._run.commands.operations[step.index], Control)]
        return max(0, self._started + min([*irqs, self._run.end]) - self.cycle)

    def wait(self, most: int = 1 << 40) -> int:
        """Run until the interrupt is raised or the NPU stops, for at most ``most`` cycles; return the cycles."""
        start = self.cycle
        while not self._level and (left := self.idle_for) is not None and self.cycle - start < most:
            self.advance(min(left, most - (self.cycle - start)))
        return self.cycle - start

    # -- commands

    def _react(self, register: Register, value: int) -> None:
        if register.name == "RESET":
            self._reset(value)
        elif register.name == "CMD":
            self._command(value)
        elif register.name in ("QBASE0", "QBASE1", "QSIZE") and self._run is None:
            self._words.set_field("STATUS", "cmd_end_reached", 0)
            self._words.values["QREAD"] = 0
            self._resume = 0

    def _reset(self, request: int) -> None:
        """A soft reset: stop a run, and set every register to its reset value, in the requested security state and privilege."""
        self._count()
        self._leave_run(0, "reset")
        self._words.reset()
        self._words.values["RESET"] = self._words.values["PROT"] = request & 3
        self._resume = 0
        self._since_active = None
        self.complaint = ""
        self._pmu.reset()
        self._count()

    def _command(self, value: int) -> None:
        if value & 2:
            self._words.set_field("STATUS", "irq_raised", 0)
            self._words.set_field("STATUS", "pmu_irq_raised", 0)
            self._drive()
        history = self._words.field("STATUS", "irq_history_mask")
        self._words.set_field("STATUS", "irq_history_mask", history & ~(value >> 16))
        if self._run is not None:
            if value >> 4 & 1:
                self._run = self._run.stopped_at(self.cycle - self._started)
                self._steps = [step for step in self._steps if step in self._run.steps]
        elif value & 1 and not self._is_faulty and not value >> 4 & 1:
            self._start()

    @property
    def _is_faulty(self) -> bool:
        """Whether only a reset can restart the NPU."""
        return bool(self._words.field("STATUS", "bus_status") or self._words.field("STATUS", "cmd_parse_error"))

    # -- a run

    def _address(self, low: str, high: str) -> int:
        return self._words.values[low] | self._words.values[high] << 32

    def _port_system(self) -> MemorySystem:
        """The memory system with the settings of REGIONCFG, QCONFIG and the AXI_LIMIT registers."""
        choices = [self._words.field("REGIONCFG", f"region{region}") for region in range(REGIONS)]
        command = self._words.field("QCONFIG", "cmd_region0")
        ports = [self._limited(self._system.ports[port], {c for c in (*choices, command) if c >> 1 == port}) for port in (AXI0, AXI1)]
        return replace(
            self._system,
            ports=(ports[0], ports[1]),
            region_ports=tuple(choice >> 1 for choice in choices),
            command_port=command >> 1,
        )

    def _limited(self, memory: Memory, used: set[int]) -> Memory:
        """A memory under the tightest AXI_LIMIT register that its port uses."""
        for number in sorted(used):
            name = f"AXI_LIMIT{number}"
            reads, writes = (self._words.field(name, f"max_outstanding_{way}_m1") + 1 for way in ("read", "write"))
            burst = _BURST_BYTES[self._words.field(name, "max_beats")]
            memory = replace(
                memory,
                max_reads=min(memory.max_reads or reads, reads),
                max_writes=min(memory.max_writes or writes, writes),
                burst_bytes=min(memory.burst_bytes, burst),
            )
        return memory

    def _misplaced(self) -> str:
        """A sentence on an address that the core driver refuses to start with; "" if there is none."""
        names = {"QBASE": self._address("QBASE0", "QBASE1")} | {f"BASEP of region {i}": base for i, base in enumerate(self._operands.bases)}
        wrong = next((name for name, address in names.items() if address % _BASE_ALIGNMENT), None)
        return f"{wrong} is {names[wrong]:#x}: the core driver takes multiples of {_BASE_ALIGNMENT} alone." if wrong else ""

    def _constants(self, region: int, start: int, length: int) -> bytes | None:
        """Bytes of a region; None if memory lacks some of them, which the run reports later."""
        try:
            return self._operands.fetch(OperandWindow(region, start, length, COMMANDS)) if length else None
        except BusAbortError:
            return None

    def _start(self) -> None:
        operands, system = self._operands, self._port_system()
        operands.system = system
        operands.bases = tuple(self._address(f"BASEP{2 * region}", f"BASEP{2 * region + 1}") for region in range(REGIONS))
        self._count()
        self._started, self._since_active = self.cycle, self.cycle if self._since_active is None else self._since_active
        size = self._words.values["QSIZE"]
        is_at_end = self._words.field("STATUS", "cmd_end_reached")
        found = Commands((), (), "" if is_at_end else self._misplaced())
        if not found.complaint and not is_at_end:
            found = operands.within_memory(commands(self._bus.read, self._address("QBASE0", "QBASE1"), size, self.accelerator))
        try:
            self._run = self._planner.plan(found, min(self._resume, len(found.operations)), system, self._constants)
        except InputError as error:
            self._run = self._planner.plan(Commands((), (), str(error)), 0, system, self._constants)
        self._steps = list(self._run.steps)
        self._words.set_field("STATUS", "state", 1)
        if not self._run.end:
            self._happen()

    def _next_event(self) -> int | None:
        if self._run is None:
            return None
        return self._started + (self._steps[0].cycle if self._steps else self._run.end)

    def _happen(self) -> None:
        """Process the next event, which is due now: an operation takes effect, or the run ends."""
        run = self._run
        if run is None:
            return
        if not self._steps:
            self._end(run)
            return
        step = self._steps.pop(0)
        op = run.commands.operations[step.index]
        if isinstance(op, Control):
            self._count()
            self._raise(op.parameter)
        elif isinstance(op, (KernelOperation, DmaOperation)):
            self._execute(op, step.index)

    def _execute(self, op: KernelOperation | DmaOperation, index: int) -> None:
        try:
            self._operands.run(op, f"Operation {index}")
        except BusAbortError as abort:
            self._abort(abort)
        except InputError as error:
            self._fail(str(error))

    def _end(self, run: Run) -> None:
        if run.ending is DeviceEnding.PARSE_ERROR:
            self._fail(run.commands.complaint)
        elif run.ending is DeviceEnding.ABORTED:
            region, channel = run.commands.region, run.commands.channel or COMMANDS
            self._abort(BusAbortError(self._operands.port(region), channel, run.commands.complaint))
        else:
            done = run.ending is DeviceEnding.DONE
            last = run.commands.operations[-1] if run.commands.operations and done else None
            is_stop = isinstance(last, Control) and last.kind is ControlKind.STOP
            self._stop(run.resume, run.ending.value)
            self._words.set_field("STATUS", "cmd_end_reached", int(done))
            self._raise(last.parameter if isinstance(last, Control) and is_stop else 0)

    def _fail(self, sentence: str) -> None:
        self.complaint = sentence
        self._stop(0, f"{DeviceEnding.PARSE_ERROR.value}: {sentence}")
        self._words.set_field("STATUS", "cmd_parse_error", 1)
        self._raise(0)

    def _abort(self, abort: BusAbortError) -> None:
        self.complaint = f"Bus abort on AXI{abort.port}: {abort}."
        self._stop(0, self.complaint)
        self._words.set_field("STATUS", "bus_status", 1)
        self._words.set_field("STATUS", "faulting_interface", abort.port)
        self._words.set_field("STATUS", "faulting_channel", abort.channel)
        self._raise(0)

    def _stop(self, resume: int, ending: str) -> None:
        self._count()
        if self._run is not None:
            self._words.values["QREAD"] = self._run.offset(self.cycle - self._started)
        self._leave_run(resume, ending)
        self._words.set_field("STATUS", "state", 0)

    def _leave_run(self, resume: int, ending: str) -> None:
        if self._run is not None:
            elapsed = self.cycle - self._started
            self.finished.append(FinishedRun(self._started, elapsed, ending))
            if self._run.counts is not None:
                for name in self._run.counts.names:
                    self._past[name] = self._past.get(name, 0) + self._run.events(name, elapsed)
            self._active += elapsed
        self._run, self._steps, self._resume = None, [], resume

    # -- the interrupt and the PMU

    def _raise(self, mask: int) -> None:
        history = self._words.field("STATUS", "irq_history_mask")
        self._words.set_field("STATUS", "irq_history_mask", history | mask)
        self._words.set_field("STATUS", "irq_raised", 1)
        self._drive()

    def _drive(self) -> None:
        """Set the interrupt line to the state in STATUS."""
        level = bool(self._words.field("STATUS", "irq_raised") or self._words.field("STATUS", "pmu_irq_raised"))
        if level != self._level:
            self._level = level
            self._bus.interrupt(level)

    def _happened(self, name: str) -> int:
        """The number of times that an event has happened since the device was made."""
        elapsed = self.cycle - self._started if self._run is not None else 0
        if name == "CYCLE":
            return self.cycle
        if name == "NPU_ACTIVE":
            return self._active + elapsed
        if name == "NPU_IDLE":
            return self.cycle - self._active - elapsed
        if name == "CYCLE_SINCE_ACTIVE":
            return 0 if self._since_active is None else self.cycle - self._since_active
        now = self._run.events(name, elapsed) if self._run is not None else 0
        return self._past.get(name, 0) + now

    def _count(self) -> None:
        if self._pmu.count(self._happened):
            self._words.set_field("STATUS", "pmu_irq_raised", 1)
