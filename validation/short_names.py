"""Names cut to a width so that a reader can still tell them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, pairwise, takewhile

from npu_model.printable import printable

_BEFORE = 4
"""Characters that are kept before the place where names begin to differ."""

_AROUND = 28
"""Characters that are kept around it at most: more would take the place of a table's other columns."""

_COMMON = 0.75
"""Part of the paths that begin with a segment from which on the segment tells nothing."""


def name_end(name: str, size: int) -> str:
    """A name in at most ``size`` characters. The end of a path of names tells more than its beginning.

    >>> name_end("functional_1/pointwise_1_1/Relu", 24), name_end("functional_1/pointwise_1_1/Relu", 12)
    ('.../pointwise_1_1/Relu', '.../Relu')
    """
    if len(name) > size:
        for place, character in enumerate(name):
            if character == "/" and len(name) - place + 3 <= size and 2 * (len(name) - place + 3) >= size:
                return printable(f"...{name[place:]}", size)
    return printable(name, size)


def _shared(one: str, other: str) -> int:
    """The number of characters with which both names begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _around(name: str, place: int, size: int) -> str:
    """A name in ``size`` characters, those from ``place`` on among them."""
    start = max(0, min(place - _BEFORE, len(name) - size + 3))
    head = "..." if start else ""
    room = size - len(head)
    rest = name[start:]
    return head + rest if len(rest) <= room else f"{head}{rest[: room - 3]}..."


def _joined(segments: Iterable[str]) -> list[str]:
    """The paths that a name's segments begin with, the shortest first."""
    return list(accumulate(segments, lambda path, segment: f"{path}/{segment}"))


def _without_head(names: set[str]) -> dict[str, str]:
    """The names without the segment that nearly all paths begin with, as often as there is one and no two names become the same."""
    found = {name: name for name in names}
    while True:
        heads = Counter(path.partition("/")[0] for path in found.values() if "/" in path)
        head, count = max(heads.items(), key=lambda entry: (entry[1], entry[0]), default=("", 0))
        if count < _COMMON * sum(heads.values()) or count < 2:
            return found
        shorter = {name: path.removeprefix(f"{head}/") or path for name, path in found.items()}
        if len(set(shorter.values())) < len(shorter):
            return found
        found = shorter


def told_apart(names: Sequence[str]) -> list[str]:
    """Paths without useless segments: the beginning of nearly all paths, and segments that always follow one name.

    >>> told_apart(["net/conv_1/expand/Relu", "net/conv_1/project/Fused", "net/conv_2/Relu", "total"])
    ['conv_1/expand', 'conv_1/project', 'conv_2', 'total']
    """
    tails = _without_head(set(names))
    begun = Counter(chain.from_iterable(_joined(path.split("/")) for path in tails.values()))
    return [next((path for path in _joined(tails[name].split("/")) if path and begun[path] == 1), tails[name]) for name in names]


def short_names(names: Sequence[str], size: int) -> list[str]:
    """Each of the names in at most ``size`` characters, and two that differ differ then, too.

    If one is longer, paths lose what tells nothing (:func:`told_apart`). A name that is still longer is cut as :func:`name_end` does, or
    around the place where it begins to differ from others.

    >>> short_names(["model/batch_norm_2/FusedBatchNorm", "model/batch_norm_4/FusedBatchNorm", "model/add"], 20)
    ['batch_norm_2', 'batch_norm_4', 'add']
    >>> short_names(["batch_normalization_2_fused_of_block", "batch_normalization_4_fused_of_block", "add"], 20)
    ['...ion_2_fused_of...', '...ion_4_fused_of...', 'add']
    """
    if any(len(name) > size for name in names):
        names = told_apart(names)
    whole = [printable(name, max(len(name), size)) for name in names]
    short = [name_end(name, size) for name in names]
    alike: dict[str, set[str]] = {}
    for name, cut in zip(whole, short, strict=True):
        alike.setdefault(cut, set()).add(name)
    # The place at which each name begins to differ from the most similar other name, its neighbour in alphabetical order.
    places: dict[str, int] = {}
    for one, other in chain.from_iterable(pairwise(sorted(names_alike)) for names_alike in alike.values()):
        shared = _shared(one, other)
        for name in (one, other):
            places[name] = max(places.get(name, 0), shared)
    most = min(size, _AROUND)
    return [_around(name, places[name], most) if name in places else cut for name, cut in zip(whole, short, strict=True)]
