"""Moves of a draft that a replay judges: jobs in another block, copies left out, and one copy or all of them issued later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from cascader.draft.climb import from_place
from cascader.draft.draft import COPY, JOB, WHOLE, Draft, Lines, lines, table

Block = tuple[int, int, int]
"""Height, width and depth of a block."""


def alike(draft: Draft) -> list[tuple[int, ...]]:
    """The numbers of each part's jobs with equal height and block, in the order of their first jobs."""
    found: dict[tuple[int, ...], list[int]] = {}
    for step, (part, start, end, *block) in enumerate(lines(draft.jobs, JOB).tolist()):
        found.setdefault((part, end - start, *block), []).append(step)
    return [tuple(steps) for steps in found.values()]


def block_of(draft: Draft, step: int) -> Block:
    """The block of a job."""
    height, width, depth = lines(draft.jobs, JOB)[step, 3:].tolist()
    return height, width, depth


def in_block(draft: Draft, steps: Sequence[int], block: Block) -> Draft:
    """The draft with some of its jobs in another block."""
    jobs = lines(draft.jobs, JOB).copy()
    jobs[list(steps), 3:] = block
    return replace(draft, jobs=jobs.tobytes())


def copy_count(draft: Draft) -> int:
    """The number of copies, each of which may have several readers."""
    return len(_numbers(lines(draft.copies, COPY)))


def _numbers(copies: Lines) -> Lines:
    """The lines at which copies begin."""
    return np.flatnonzero(copies[:, 2] == copies[:, 3])


def _latest(draft: Draft, copies: Lines) -> Lines:
    """For each copy the last job that reads it."""
    parts = lines(draft.jobs, JOB)[:, 0]
    last = np.full(int(parts.max()) + 1, WHOLE, dtype=np.int64)
    np.maximum.at(last, parts, np.arange(len(parts)))
    return np.maximum.reduceat(last[copies[:, 3]], _numbers(copies))


def with_later_copies(draft: Draft, first: int = 0) -> Iterator[tuple[int, Draft]]:
    """``draft`` with one copy issued one job later, each in turn; later copies at the same job stay after it.

    It begins with copy ``first`` and wraps around; each draft comes with its copy's number. A copy is issued at its last reader at the
    latest; earlier readers then read at home. It holds its bytes for a shorter time, so a schedule that passes
    :func:`~cascader.ethosu.verify.check.check_schedule` still passes; the caller checks the one that it takes.
    """
    copies = lines(draft.copies, COPY)
    begins = _numbers(copies)
    if not len(begins):
        return
    latest, steps = _latest(draft, copies), copies[begins, 0]
    number_of = np.cumsum(copies[:, 2] == copies[:, 3]) - 1
    for number in from_place(len(begins), first):
        moved = steps.copy()
        moved[number:] = np.maximum(moved[number:], steps[number] + 1)
        if (moved <= latest).all():
            changed = copies.copy()
            changed[:, 0] = moved[number_of]
            yield number, replace(draft, copies=changed.tobytes())


def with_copies_ahead(draft: Draft, ahead: int) -> Draft:
    """``draft`` with every copy issued at most ``ahead`` jobs before its first reader, and in the order of before.

    No copy is issued earlier than before, so the draft still passes the checks that :func:`with_later_copies` names.
    """
    copies, parts = lines(draft.copies, COPY), lines(draft.jobs, JOB)[:, 0]
    begins = _numbers(copies)
    if not len(begins):
        return draft
    first = np.full(int(parts.max()) + 1, len(parts), dtype=np.int64)
    np.minimum.at(first, parts, np.arange(len(parts)))
    wanted = np.minimum.reduceat(first[copies[:, 3]], begins) - ahead
    steps = copies[begins, 0]
    # A copy is issued no later than those behind it.
    moved = np.maximum(steps, np.minimum.accumulate(np.maximum(steps, wanted)[::-1])[::-1])
    changed = copies.copy()
    changed[:, 0] = moved[np.cumsum(copies[:, 2] == copies[:, 3]) - 1]
    return replace(draft, copies=changed.tobytes())


def changed_copies(draft: Draft, first: int = 0) -> Iterator[tuple[int, Draft]]:
    """``draft`` with one copy left out, each in turn from copy ``first`` on, then with one copy issued later, each with its number."""
    copies = lines(draft.copies, COPY)
    number_of = np.cumsum(copies[:, 2] == copies[:, 3]) - 1
    for number in from_place(copy_count(draft), first):
        yield number, replace(draft, copies=table(copies[number_of != number], COPY))
    yield from with_later_copies(draft, first)
