"""The NPU's front: cycles in which a job's commands are fetched, and its table is loaded into SHRAM."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property

from cascader.ethosu.cost.estimate_terms import TRANSFER_WORDS, Terms
from cascader.ethosu.job.staging import staged_bytes, weight_ranges
from cascader.ethosu.job.stripes import BufferPlace, whole
from cascader.ethosu.network.network import Network, ethosu_part
from cascader.plan.group_costs import FrontTimes
from npu_model.command_stream.encode import encode_operations
from npu_model.program import WORD_BYTES, KernelOperation
from npu_model.program.alignment import ALIGNMENT

_HIDDEN = FrontTimes()


class FrontCycles:
    """Cycles of the front for the parts of a network on some terms.

    A kernel writes only the registers whose values earlier kernels did not set. A job of a part counts as if all other parts had run, in
    the network's order, since its last one.
    """

    def __init__(self, network: Network, terms: Terms) -> None:
        self._payloads = [ethosu_part(part) for part in network.graph.parts]
        self._tensors = network.graph.tensors
        self._terms = terms
        self.of = cache(self._of)

    @cached_property
    def _kernels(self) -> dict[int, KernelOperation]:
        """The kernel of each part that is no transfer, with every tensor at another address."""
        places = {one.name: BufferPlace(number * ALIGNMENT, 1, 1 << 40) for number, one in enumerate(self._tensors)}
        return {part: whole(one, places) for part, one in enumerate(self._payloads) if one is not None and not one.transfer}

    def _encoded(self, kernels: Sequence[KernelOperation]) -> tuple[int, ...]:
        return encode_operations(kernels, self._terms.accelerator.commands)[1]

    @cached_property
    def _words(self) -> dict[int, int]:
        """Words of a kernel of each part, after the kernels of all parts."""
        kernels = list(self._kernels.values())
        return dict(zip(self._kernels, self._encoded(kernels * 2)[len(kernels) :], strict=True))

    def _table(self, part: int) -> tuple[int, bool]:
        """Cycles to load a part's table, 0 if it is there already, and whether an earlier part's table has its place."""
        payload, source = self._payloads[part], self._terms.direct.constants
        lut = None if payload is None else payload.lut
        if lut is None:
            return 0, False
        earlier = (one.lut for one in reversed(self._payloads[:part]) if one is not None and one.lut is not None and one.lut.overlaps(lut))
        before = next(earlier, None)
        return 0 if before == lut else source.latency + source.moving(lut.source.length), before is not None

    def _of(self, part: int) -> FrontTimes:
        payload, fetch, is_hidden = self._payloads[part], self._terms.fetch_cycles, self._terms.hides_fetches
        # A U55's costs allow for the start of its stream, as its replays confirm.
        if payload is None or (is_hidden and not self._terms.accelerator.access.ifm_ahead):
            return _HIDDEN
        kernel, most = self._kernels.get(part), self._terms.accelerator.fetch_bytes // WORD_BYTES
        first = (TRANSFER_WORDS if kernel is None else self._encoded([kernel])[0]) * fetch // most
        if is_hidden:
            return FrontTimes(first_commands=first, ahead=fetch)
        words = TRANSFER_WORDS if kernel is None else self._words[part]
        table, is_late = self._table(part)
        words += TRANSFER_WORDS if table else 0
        contended = fetch + self._terms.direct.held_cycles
        copies, size, queues = (
            len(weight_ranges(payload.operation)),
            staged_bytes(payload.operation),
            self._terms.accelerator.max_outstanding_dma > 1,
        )
        copying = self._terms.copy_cycles(size, copies)
        return FrontTimes(
            commands=words * fetch // most,
            commands_contended=words * contended // most,
            first_commands=first,
            ahead=fetch,
            table=0 if is_late else table,
            late_table=table if is_late else 0,
            copy_commands=TRANSFER_WORDS * copies * fetch // most,
            last_transfer=copying // max(1, copies) if queues else 0,
            copy_wait=copying - self._terms.direct.constants.moving(size),
        )
