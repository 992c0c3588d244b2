"""The compiled twin: a Program as rows of integers for the core that runs the fast recurrence without Python."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain

from npu_model.accelerator import Accelerator
from npu_model.brief import Brief
from npu_model.cost.block_jobs import PHASES
from npu_model.cost.deep_jobs import TimedProgram
from npu_model.cost.flat_operation import flat_decoding, flat_operation
from npu_model.cost.flat_work import flat_jobs
from npu_model.cost.timed import copied_words, own_jobs
from npu_model.memory.system import Memory, MemorySystem
from npu_model.native import native
from npu_model.program import DmaOperation, DmaWait, KernelOperation, KernelWait, Operation, Program, Shram
from npu_model.timing import DMA_CHUNK_BEATS, BlockdepRule, TimingParameters
from npu_model.weight_stream.mlw_work import DecoderWork
from npu_model.weight_stream.work import StreamWork
from sim.engine.terms import (
    DMA_CHUNKS_AHEAD,
    Channel,
    Times,
    burst_beats,
    command_buffer_words,
    fetch_words,
    most_weight_bursts,
)
from sim.events import Cause, Unit
from sim.replay import Beats

_WORK, _CORE = native("npu_model"), native("sim")
"""Compiled cores: the work of an operation's blocks, and the replay; None under the conditions of :func:`npu_model.native.native`."""

_NO_CAP = 1 << 62
"""A number of words that no replay reaches."""

_MOST_BYTES = 64 << 20
"""Bytes of block work that the cache holds before it is emptied."""

_MOST_OPERATIONS = 1 << 12
"""Operations of Programs whose works are kept beside them before all are dropped."""

_NONE = array("q")
SURE = 4
"""Operations in a row that end no sooner than in another replay, after which the core takes a Program to be no faster."""

_LARGEST_TERM = 1 << 20
"""Largest numerator and denominator of a word's cycles with which no replay leaves 64 bits."""

_KERNEL, _DMA, _KERNEL_WAIT, _DMA_WAIT, _OTHER = range(5)
_ROW = 7
"""Integers of an operation."""

_RULES = {BlockdepRule.HONOURED: 0, BlockdepRule.IGNORED: 1, BlockdepRule.DRAINED: 2}


def _memory(memory: Memory, device: Accelerator, timing: TimingParameters) -> tuple[int, ...]:
    pulse = memory.pulse
    on, length, cap = (pulse.on, pulse.on + pulse.off, pulse.cap_words or _NO_CAP) if pulse else (1, 1, _NO_CAP)
    return (
        *(burst_beats(memory, channel, device, timing) for channel in (Channel.WEIGHTS, Channel.IFM)),
        *(memory.read_latency, memory.write_latency, memory.max_reads, memory.max_writes),
        *(*memory.cycles_per_word.as_integer_ratio(), memory.shared, pulse is not None, on, length, cap),
    )


_BUSY = (Unit.CC, Unit.DMA, Unit.IFM, Unit.WD, Unit.MAC, Unit.AO, Unit.OFM)
_WAITS = (
    *((Unit.CC, cause) for cause in (Cause.COMMANDS, Cause.KERNEL_QUEUE, Cause.DMA_QUEUE, Cause.KERNEL_WAIT, Cause.DMA_WAIT, Cause.DRAIN)),
    *((Unit.IFM, cause) for cause in (Cause.START, Cause.BLOCKDEP, Cause.SHRAM, Cause.IB)),
    *((Unit.MAC, cause) for cause in (Cause.IB, Cause.WEIGHTS, Cause.ACC)),
    *((Unit.AO, cause) for cause in (Cause.ACC, Cause.OB, Cause.SCALES)),
    (Unit.WD, Cause.DW),
)
"""Waits that the core counts for every operation, in its order. Busy cycles of the units come first, and data beats last."""

_COUNTS = len(_BUSY) + len(_WAITS)


class CompiledReplay(Brief, frozen=True):
    """The core's replay of a Program: cycles, data beats of the kernels, times in the order in which operations end, and counts."""

    unshown = ("counts",)

    cycles: int
    beats: Beats
    times: dict[int, Times]
    counts: array[int]

    def _rows(self) -> Iterator[tuple[int, array[int]]]:
        return ((index, self.counts[begin : begin + _COUNTS]) for index, begin in enumerate(range(0, len(self.counts), _COUNTS + 4)))

    @property
    def busy(self) -> dict[tuple[int, Unit], int]:
        """Busy cycles by operation and unit, without zeros."""
        return {(index, unit): cycles for index, row in self._rows() for unit, cycles in zip(_BUSY, row, strict=False) if cycles}

    @property
    def waits(self) -> dict[tuple[int, Unit, Cause], int]:
        """Waiting cycles by operation, unit and cause, without zeros."""
        rows = ((index, row[len(_BUSY) :]) for index, row in self._rows())
        return {(index, *wait): cycles for index, row in rows for wait, cycles in zip(_WAITS, row, strict=True) if cycles}

    def kernel_beats(self, index: int) -> Beats:
        """Data beats of the kernel at an index."""
        begin = index * (_COUNTS + 4) + _COUNTS
        return Beats(*self.counts[begin : begin + 4])


class CompiledCache:
    """Numbers and block works that compiled replays on one device and memory system share."""

    def __init__(self, accelerator: Accelerator, system: MemorySystem, timing: TimingParameters) -> None:
        self._accelerator = accelerator
        self._system = system
        self._timing = timing
        self._word = accelerator.port_bytes_per_cycle
        self._memories = array("q", chain.from_iterable(_memory(memory, accelerator, timing) for memory in system.ports))
        self._ports = array("q", system.region_ports)
        self._works: dict[object, bytes] = {}
        self._of_operations: dict[object, memoryview] = {}
        self._bytes = 0
        access = accelerator.access
        numbers = (
            *(self._word, system.command_port, accelerator.max_outstanding_kernels, accelerator.max_outstanding_dma),
            *(timing.command_cycles_per_word, timing.buffer_slots, timing.kernel_start_cycles + access.kernel_start_cycles),
            _RULES[timing.blockdep],
            *(timing.shram_drains, timing.weights_ahead, timing.grant, timing.lookahead, timing.shared_cap),
            *(
                timing.aligned_bursts,
                timing.drain_responses,
                timing.posted_writes,
                fetch_words(accelerator),
                command_buffer_words(accelerator),
                DMA_CHUNK_BEATS,
                DMA_CHUNKS_AHEAD,
                access.weight_bursts * accelerator.cores,
                timing.buffer_slots + access.weight_steps_ahead,
                access.ifm_ahead,
                accelerator.ifm_cycles_per_word(),
                accelerator.ifm_cycles_per_word(own_channels=True),
                timing.sliding_cap,
                access.scale_words,
                SURE,
            ),
        )
        self._numbers = array("q", numbers)

    @property
    def is_usable(self) -> bool:
        """Whether the core is built, and this system's numbers fit into it."""
        return _WORK is not None and _CORE is not None and self._fits

    @cached_property
    def _fits(self) -> bool:
        terms = [term for memory in self._system.ports for term in memory.cycles_per_word.as_integer_ratio()]
        bursts = [memory.burst_bytes // self._word for memory in self._system.ports]
        return max(terms) <= _LARGEST_TERM and min(bursts) > 0

    def work(self, op: KernelOperation, decoding: tuple[DecoderWork, ...]) -> memoryview:
        """The work of the operation's blocks. Kernels that differ only by addresses share it."""
        row = flat_operation(op, self._accelerator, self._timing, is_known=bool(decoding), modulus=PHASES * self._word)
        key = row.tobytes(), decoding
        found = self._works.get(key)
        if found is None:
            assert _WORK is not None  # noqa: S101  # is_usable
            found = _WORK.block_work(row, flat_decoding(decoding))
            assert isinstance(found, bytes)  # noqa: S101  # as it is made there
            self._bytes += len(found)
            if self._bytes > _MOST_BYTES:
                self._works.clear()
                self._of_operations.clear()
                self._bytes = len(found)
            self._works[key] = found
        return memoryview(found).cast("q")

    def _known_work(self, op: KernelOperation, decoding: tuple[DecoderWork, ...]) -> memoryview:
        """Like :meth:`work`, for Programs: those that are replayed one after the other mostly have the same operations."""
        key = op, decoding
        found = self._of_operations.get(key)
        if found is None:
            found = self.work(op, decoding)
            if len(self._of_operations) >= _MOST_OPERATIONS:
                self._of_operations.clear()
            self._of_operations[key] = found
        return found

    def run(self, rows: Sequence[int], works: list[memoryview], counts: int = 0) -> tuple[int, array[int], array[int], array[int]]:
        """The core's cycles, times, beats and counts, with a number of counts for each operation."""
        flat = rows if isinstance(rows, array) else array("q", rows)
        beats, counted = (array("q", bytes(8 * size)) for size in (4, counts * len(rows) // _ROW))
        cycles, times = self.timed(flat, works, None, beats, counted)
        return cycles, times, beats, counted

    def timed(  # arrays that the core reads, and two that it writes where they have room
        self, rows: array[int], works: list[memoryview], known: object = None, beats: array[int] = _NONE, counted: array[int] = _NONE
    ) -> tuple[int, array[int]]:
        """The core's cycles, and a line for each operation that ends, in order: its index, its issue and its end; the rest is 0.

        Beside a ``known`` replay of :meth:`known` it begins where the two first differ. The cycles are -1 if the operations after the last
        difference end no sooner here: neither the last :data:`SURE` of them, nor all of them by mean.
        """
        assert _CORE is not None  # noqa: S101  # is_usable
        times = array("q", bytes(8 * 3 * (len(rows) // _ROW)))
        cycles: int = _CORE.replay(self._numbers, self._memories, self._ports, rows, works, times, beats, counted, known)
        return cycles, times

    def known(self) -> object:
        """A known replay that is still empty: the next replay with it fills it, and all later ones run beside that one."""
        assert _CORE is not None  # noqa: S101  # is_usable
        return _CORE.known()

    def rows(self, program: Program) -> list[int]:
        """Kind and words of each operation, and the parameters of its unit."""
        rows: list[int] = []
        shram: Shram | None = None
        for op, words in zip(program.operations, program.words, strict=True):
            if isinstance(op, KernelOperation):
                changes = shram is not None and shram is not op.shram and shram != op.shram
                shram = op.shram
                most = most_weight_bursts(op, self._accelerator)
                rows += (_KERNEL, words, op.blockdep, changes, self._system.region_ports[op.ofm.region], most, 0)
            else:
                rows += self._row(op, words)
        return rows

    def _row(self, op: Operation, words: int) -> tuple[int, ...]:
        """The row of an operation that is not a kernel."""
        system, aligned = self._system, self._timing.aligned_bursts
        if isinstance(op, DmaOperation):
            source, target = (op.source.start // self._word, op.destination // self._word) if aligned else (0, 0)
            port = -1 if op.to_shram else system.port_of(op.destination_region)
            return _DMA, words, system.port_of(op.source.region), source, port, target, copied_words(op, self._word)
        if isinstance(op, KernelWait | DmaWait):
            return _KERNEL_WAIT if isinstance(op, KernelWait) else _DMA_WAIT, words, op.outstanding, 0, 0, 0, 0
        return _OTHER, words, 0, 0, 0, 0, 0

    def replay(self, program: Program, known: StreamWork, *, counted: bool = False, timed: TimedProgram | None = None) -> CompiledReplay:
        """The replay of one Program; it has counts only if ``counted``."""
        timed = timed or own_jobs(program, self._accelerator, self._timing)
        if timed is None:
            kernels = ((index, op) for index, op in enumerate(program.operations) if isinstance(op, KernelOperation))
            works = {index: self._known_work(op, known.get(index, ())) for index, op in kernels}
            timed = TimedProgram(program, {}, {})
        else:
            program, works = timed.program, {index: flat_jobs(jobs) for index, jobs in timed.jobs.items()}
        cycles, times, beats, counts = self.run(self.rows(program), list(works.values()), _COUNTS + 4 if counted else 0)
        # Index, issue and end of each operation, in the order of the ends; the rest is empty.
        ended = iter(times[: 3 * (len(works) + len(program.transfers))])
        found = {index: Times(issued, end) for index, issued, end in zip(ended, ended, ended, strict=True)}
        found |= {index: found[head] for index, head in timed.heads.items()}
        return CompiledReplay(cycles, Beats(*beats), found, counts)


@lru_cache(maxsize=8)
def compiled_cache(accelerator: Accelerator, system: MemorySystem, timing: TimingParameters) -> CompiledCache:
    """The cache for all compiled replays on a device and memory system."""
    return CompiledCache(accelerator, system, timing)
