"""Names cut to a width so that a reader can still tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise, takewhile

from npu_model.printable import printable

_BEFORE = 4
"""Characters that are kept before the place where names begin to differ."""

_AROUND = 28
"""Characters that are kept around it at most: more would take the place of a table's other columns."""


def name_end(name: str, size: int) -> str:
    """A name in at most ``size`` characters: what a path of names ends in tells more than what it begins with.

    >>> name_end("functional_1/pointwise_1_1/Relu", 24), name_end("functional_1/pointwise_1_1/Relu", 12)
    ('.../pointwise_1_1/Relu', '.../Relu')
    """
    if len(name) > size:
        for place, character in enumerate(name):
            if character == "/" and len(name) - place + 3 <= size and 2 * (len(name) - place + 3) >= size:
                return printable(f"...{name[place:]}", size)
    return printable(name, size)


def _shared(one: str, other: str) -> int:
    """Characters that two names begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _around(name: str, place: int, size: int) -> str:
    """A name in ``size`` characters, those from ``place`` on among them."""
    start = max(0, min(place - _BEFORE, len(name) - size + 3))
    head = "..." if start else ""
    room = size - len(head)
    rest = name[start:]
    return head + rest if len(rest) <= room else f"{head}{rest[: room - 3]}..."


def short_names(names: Sequence[str], size: int) -> list[str]:
    """Each of the names in at most ``size`` characters, as :func:`name_end` cuts it, unless two different ones looked the same then.

    Those are cut around the place where they begin to differ.

    >>> short_names(["model/batch_norm_2/FusedBatchNorm", "model/batch_norm_4/FusedBatchNorm", "model/add"], 20)
    ['...orm_2/FusedBat...', '...orm_4/FusedBat...', 'model/add']
    """
    whole = [printable(name, max(len(name), size)) for name in names]
    short = [name_end(name, size) for name in names]
    alike: dict[str, set[str]] = {}
    for name, cut in zip(whole, short, strict=True):
        alike.setdefault(cut, set()).add(name)
    # Where each begins to differ from the most similar of the others, which stand beside it in the order of the alphabet.
    places: dict[str, int] = {}
    for one, other in chain.from_iterable(pairwise(sorted(names_alike)) for names_alike in alike.values()):
        shared = _shared(one, other)
        for name in (one, other):
            places[name] = max(places.get(name, 0), shared)
    most = min(size, _AROUND)
    return [_around(name, places[name], most) if name in places else cut for name, cut in zip(whole, short, strict=True)]
