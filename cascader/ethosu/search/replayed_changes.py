"""Changes by replays: other blocks of a draft, and copies left out or issued later, if a replay says that this helps.

A search knows the cycles of a kernel in a block to some per cent, and the cycles that neighbours share no better. It takes copies to be
nearly free if a kernel reads elsewhere, but on their way into the arena they hold up the kernels' feature maps. Addresses and the order of
the jobs stay.

Of two drafts that take equally many cycles, the one whose operations end earlier is the better start for further changes
(:data:`~cascader.ethosu.judge.contest.Score`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from cascader.draft.climb import climbed, from_place
from cascader.draft.draft import ADDRESS, BUFFER, COPY, JOB, OUTSIDE, PLACE, SIZE, Draft, lines
from cascader.draft.replayed_moves import Block, alike, block_of, changed_copies, copy_count, in_block
from cascader.ethosu.judge.replay import Replay
from cascader.ethosu.search.form import Form
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up

BLOCKS = 8
"""Number of blocks that are tried for each part: those that are estimated to be fastest."""


def block_changes(form: Form, draft: Draft) -> Iterator[tuple[tuple[int, ...], Block]]:
    """Similar jobs of a draft, each with the blocks to try.

    Jobs with the most expected cycles come first, because another block may save more there.
    """
    cost, graph, kernels = form.cascader.cost, form.cascader.graph, form.cascader.kernels
    served, jobs = draft.served, lines(draft.jobs, JOB).tolist()

    def cycles_of(steps: tuple[int, ...]) -> int:
        part, start, end, *_ = jobs[steps[0]]
        return len(steps) * cost.times(part, *((start, end) if end >= 0 else (0, graph.parts[part].rows))).direct

    for steps in sorted(alike(draft), key=cycles_of, reverse=True):
        part, kernel = jobs[steps[0]][0], kernels.kernel(draft, steps[0])
        for block in () if kernel is None else cost.blocks(part, kernel, BLOCKS, staged=part in served):
            yield steps, (block.height, block.width, block.depth)


def with_replayed_blocks(form: Form, draft: Draft, cycles: int, judge: Replay, effort: int, before: int = 0) -> tuple[Draft, int]:
    """A draft of ``cycles`` cycles with other blocks where replays say that they save some, and its new cycles.

    The replays take at most ``effort`` cycles together. Parts with the most expected cycles come first. The changes continue after those
    that replays of ``before`` cycles have tried.
    """
    replays = effort // max(cycles, 1)
    if not replays:
        return draft, cycles
    pairs = list(block_changes(form, draft))
    others = [number for number, (steps, block) in enumerate(pairs) if block_of(draft, steps[0]) != block]
    begin = others[before // max(cycles, 1) % len(others)] if others else 0

    def moves(best: Draft, judged: Sequence[int]) -> Iterator[tuple[int, Draft]]:
        for number in from_place(len(pairs), judged[-1] + 1 if judged else begin):
            steps, block = pairs[number]
            if block_of(best, steps[0]) != block:
                yield number, in_block(best, steps, block)

    contest = form.judge(judge).contest(draft, cycles)
    made, (fewer, _) = climbed(draft, contest.best.score, moves, contest.scores, replays)
    return made, fewer


def with_replayed_copies(form: Form, draft: Draft, cycles: int, judge: Replay, effort: int) -> tuple[Draft, int]:
    """A draft of ``cycles`` cycles with other copies where replays say that they save some, and its new cycles.

    The replays take at most ``effort`` cycles together. If that does not suffice to leave out each copy once, nothing is tried. After a
    gain the same copy is tried next.
    """

    def moves(best: Draft, judged: Sequence[int]) -> Iterator[tuple[int, Draft]]:
        return changed_copies(best, judged[-1] if judged else 0)

    most = effort // max(cycles, 1)
    if most < copy_count(draft):
        return draft, cycles
    contest = form.judge(judge).contest(draft, cycles)
    found, (fewest, _) = climbed(draft, contest.best.score, moves, contest.scores, most)
    return replace(found, memory=used_bytes(form, found)), fewest


def used_bytes(form: Form, draft: Draft) -> int:
    """Bytes of the arena that a draft's buffers and copies reach: fewer than before if a copy was left out."""
    places, copies = lines(draft.places, PLACE), lines(draft.copies, COPY).tolist()
    inside = places[places[:, BUFFER] != OUTSIDE]
    ends = [address + form.cascader.cost.constant_bytes(part) for _, address, part, _ in copies]
    return round_up(max([int((inside[:, ADDRESS] + inside[:, SIZE]).max(initial=0)), *ends]), ALIGNMENT)
