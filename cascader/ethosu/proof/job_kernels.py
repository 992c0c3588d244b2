"""Kernels of the jobs of a form, in each block that they may be made in, and what of two in a row is known before anything has run."""

from __future__ import annotations

from array import array
from itertools import chain

from cascader.ethosu.cascade import Cascader
from cascader.ethosu.cost.blockdep import MAX_BLOCKDEP, Dependency, shares_tables
from cascader.ethosu.job.constants import constant_ranges
from cascader.ethosu.job.stripes import BufferPlace, stripe
from cascader.ethosu.network.network import ARENA, CONSTANTS, EthosuPart, ethosu_part
from cascader.ethosu.proof.chosen_blocks import KernelJob
from cascader.ethosu.proof.command_words import least_words
from cascader.ethosu.proof.home_reads import HomeReads
from cascader.ethosu.proof.least_flow import LeastFlow
from cascader.ethosu.proof.least_work import WorkModel
from cascader.ethosu.proof.state import BlockKernel, Kernels
from cascader.plan.depth_first import StripeJob
from npu_model.accelerator import Accelerator
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.cost.flat_operation import flat_operation
from npu_model.cost.shram import BlockQuery, shram_partition
from npu_model.memory.system import MemorySystem
from npu_model.program import KernelOperation
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import Shape3D
from npu_model.timing import BlockdepRule

_APART = 1 << 48
"""Bytes from one tensor to the next, in an arena where each has room for all of its rows."""

NEVER = (1 << 40, 0)
"""No block waits for the kernel before."""


class ProofKernels:
    """Makes the kernels of one form's jobs, each once: those of a job in its blocks are known by their identity, and so are links.

    The constants of the parts ``uncopied`` are never copied. ``home`` is the port that reads constants; ``places`` say where tensors lie.
    """

    def __init__(self, plans: Cascader, system: MemorySystem, uncopied: frozenset[int]) -> None:
        self._plans = plans
        self._uncopied = uncopied
        self._device = find_accelerator(plans.accelerator)
        self._timing = plans.cost.timing
        self._payloads = [ethosu_part(part) for part in plans.network.graph.parts]
        self._model = WorkModel(self._device, system, self._timing, self._even(system))
        self.home = self._model.home
        self.places = {t.name: BufferPlace(index * _APART, 1, _APART) for index, t in enumerate(plans.graph.tensors)}
        self._response = system.ports[system.port_of(ARENA)].write_latency
        self._kernels: dict[tuple[StripeJob, bool], tuple[BlockKernel, ...]] = {}
        self._both: dict[StripeJob, Kernels] = {}
        self._jobs: dict[tuple[StripeJob, bool], KernelJob] = {}
        self._flows: dict[tuple[object, ...], LeastFlow] = {}
        self._distances: dict[tuple[int, int], int | None] = {}
        self._words: dict[tuple[int, int], int] = {}
        self._reads_of: dict[int, tuple[int, int]] = {}
        self._links: dict[tuple[int, int], array[int]] = {}
        self._at_home: dict[tuple[int, int, bytes], HomeReads] = {}

    def job(self, job: StripeJob, *, staged: bool) -> KernelJob:
        """A job whose kernels were asked for, with its constants copied or not."""
        return self._jobs[job, staged and self._plans.cost.constant_bytes(job.part) > 0]

    def _even(self, system: MemorySystem) -> int:
        """Words of which all transfers at the port of the constants are multiples, but those of streams: copies, tables and commands."""
        parts = [payload for payload in self._payloads if payload is not None]
        apart = system.port_of(CONSTANTS) != system.port_of(ARENA)
        if not apart or any(feature_map.region == CONSTANTS for payload in parts for _, feature_map in payload.maps):
            return 1
        spans = [span for payload in parts for span in constant_ranges(payload)]
        is_aligned = all(span.start % ALIGNMENT == span.end % ALIGNMENT == 0 for span in spans)
        return max(1, ALIGNMENT // self._device.port_bytes_per_cycle) if is_aligned else 1

    def either(self, job: StripeJob) -> Kernels:
        """The job in each block, its constants copied and not."""
        if job.part in self._uncopied:
            return self.options(job, staged=False)
        if job not in self._both:
            home, copied = (self.options(job, staged=staged) for staged in (False, True))
            self._both[job] = home if home is copied else home + copied
        return self._both[job]

    def options(self, job: StripeJob, *, staged: bool) -> tuple[BlockKernel, ...]:
        """The job in each block that it may be made in; none for a transfer or a part on the CPU."""
        key = job, staged and self._plans.cost.constant_bytes(job.part) > 0
        if key not in self._kernels:
            payload = self._payloads[job.part]
            found = () if payload is None or payload.transfer else self._made(payload, job, staged=key[1])
            self._kernels[key] = found
        return self._kernels[key]

    def _made(self, payload: EthosuPart, job: StripeJob, *, staged: bool) -> tuple[BlockKernel, ...]:
        operation, options = stripe(payload, job.start, job.end, self.places), self._plans.cost.options(*job, staged=staged)
        self._jobs[job, staged] = KernelJob(job, options, operation)
        blocks = [option.block for option in options]
        return tuple(self._kernel(_in_block(operation, block, self._device), job.part, staged=staged) for block in blocks)

    def _kernel(self, operation: KernelOperation, part: int, *, staged: bool) -> BlockKernel:
        decoding = self._plans.cost.decoder_work(part)
        row = flat_operation(operation, self._device, self._timing, is_known=bool(decoding), modulus=256)
        key = row.tobytes(), part, staged
        if key not in self._flows:
            work = self._model.of(operation, decoding, ARENA if staged else CONSTANTS)
            self._flows[key] = LeastFlow(work, self._timing)
        return BlockKernel(operation, self._flows[key])

    def link(self, before: Kernels, kernels: Kernels) -> array[int]:
        """Link from a kernel to another one, as a step needs it."""
        key = id(before), id(kernels)
        if key not in self._links:
            released = (self._released(one, kernel) for kernel in kernels for one in before or (None,))
            self._links[key] = array("q", [*chain.from_iterable(kernel.flow.flat for kernel in kernels), *chain.from_iterable(released)])
        return self._links[key]

    def _released(self, before: BlockKernel | None, kernel: BlockKernel) -> tuple[int, ...]:
        """Cycles from the end of the kernel before, which may be waited for, until a kernel's units are done."""
        if before is None:
            return kernel.flow.released(None)
        distance, drained = self._hold(before, kernel)
        return kernel.flow.released(None if distance == NEVER[0] else distance, drained)

    def reads(self, before: Kernels, kernels: Kernels, origins: array[int]) -> HomeReads:
        """The reads at home of a kernel behind another one, each block of it behind that of ``origins`` (none: any)."""
        key = id(before), id(kernels), origins.tobytes()
        if key not in self._at_home:
            # A later block waits less, whichever the kernel before was made in.
            behind = [before[at : at + 1] for at in origins] or [before] * len(kernels)
            waits = ([self._hold(one, kernel) for one in ones] for ones, kernel in zip(behind, kernels, strict=True))
            held = [max(ways, key=lambda hold: (hold[0], -hold[1]), default=NEVER) for ways in waits]
            self._at_home[key] = HomeReads([kernel.flow for kernel in kernels], held, self.home)
        return self._at_home[key]

    def _hold(self, before: BlockKernel, kernel: BlockKernel) -> tuple[int, int]:
        repartitions = self._timing.shram_drains and before.operation.shram != kernel.operation.shram
        distance = self._distance(before.operation, kernel.operation)
        if distance is None:
            return (0, 0) if repartitions else NEVER
        return 0 if repartitions else distance, 0 if distance else self._timing.drain_responses * self._response

    def words_read(self, kernels: Kernels) -> tuple[int, int]:
        """Words of the constants of a job that reads them at home, at least, and those by which odd transactions count less, at most."""
        key = id(kernels)
        if key not in self._reads_of:
            works = [kernel.flow.work for kernel in kernels]
            self._reads_of[key] = min(work.words for work in works), max(work.spared for work in works)
        return self._reads_of[key]

    def commands(self, before: KernelOperation | None, after: KernelOperation) -> int:
        """Words of commands of a kernel behind another one, at least."""
        key = id(before), id(after)
        if key not in self._words:
            self._words[key] = least_words(before, after)
        return self._words[key]

    def _distance(self, before: KernelOperation, after: KernelOperation) -> int | None:
        """Blocks of a kernel before another one that may be unfinished when that begins, at most (None: it does not wait)."""
        key = id(before), id(after)
        if key not in self._distances:
            self._distances[key] = self._blockdep(before, after)
        return self._distances[key]

    def _blockdep(self, before: KernelOperation, after: KernelOperation) -> int | None:
        rule = self._timing.blockdep
        if rule is not BlockdepRule.HONOURED:
            return None if rule is BlockdepRule.IGNORED else 0
        if shares_tables(before, after, self._device):
            return 0
        return min(MAX_BLOCKDEP, Dependency(before, after).blocks(before.block, after.block))


def _in_block(operation: KernelOperation, block: Shape3D, device: Accelerator) -> KernelOperation:
    if block == operation.block:
        return operation
    return operation.having(block=block, shram=shram_partition(BlockQuery.of(operation), block, device))
