"""The layers of two replays side by side: which layers correspond, and how they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from npu_model.program import DmaOperation, KernelOperation
from sim import NetworkReplay
from sim.views.layers import Layer, LayerRow, layer_rows, layers

UNNAMED = "#"
"""First words of the label of an unnamed layer."""


class LayerFigures(Struct, frozen=True):
    """Figures of a layer that are compared: cycles, what binds it, its kernels, bytes copied to SRAM and bytes of traffic."""

    label: str
    cycles: int
    binding: str
    kernels: tuple[KernelOperation, ...]
    copied: int
    moved: int

    @property
    def blocks(self) -> tuple[str, ...]:
        """The block configs, each once."""
        return tuple(dict.fromkeys(str(op.block) for op in self.kernels))

    @property
    def layouts(self) -> tuple[str, ...]:
        """The layouts of its outputs, each once."""
        return tuple(dict.fromkeys(op.ofm.layout.value for op in self.kernels))

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators, each once."""
        return tuple(dict.fromkeys(op.mnemonic for op in self.kernels))


class Moved(Struct, frozen=True):
    """One layer on both sides; None on a side without the layer. ``changes`` say what is different, in words."""

    label: str
    before: LayerFigures | None
    after: LayerFigures | None
    changes: tuple[str, ...]

    @property
    def difference(self) -> int:
        """Cycles more after than before."""
        return (self.after.cycles if self.after else 0) - (self.before.cycles if self.before else 0)

    @property
    def is_moved(self) -> bool:
        """Whether anything is different."""
        return bool(self.difference or self.changes)


def _figures(layer: Layer, binding: str, moved: int) -> LayerFigures:
    kernels = tuple(one.op for one in layer.operations if isinstance(one.op, KernelOperation))
    copies = (one.op for one in layer.operations if isinstance(one.op, DmaOperation))
    return LayerFigures(layer.label, layer.cycles, binding, kernels, sum(op.length for op in copies if not op.to_shram), moved)


def _moved(row: LayerRow) -> int:
    """Bytes that pass both ports."""
    return row.axi0_read_bytes + row.axi0_write_bytes + row.axi1_read_bytes + row.axi1_write_bytes


def figures(replay: NetworkReplay) -> list[LayerFigures]:
    """The layers of a replay, in the order in which they first run."""
    pairs = zip(layers(replay), layer_rows(replay), strict=True)
    return [_figures(layer, row.binding, _moved(row)) for layer, row in pairs]


def _shapes(one: LayerFigures) -> object:
    """Key of an unnamed layer: its operators, and the window, channels and width of its first kernel.

    Rows are left out, because stripes have fewer.
    """
    return one.operators, tuple((op.kernel, op.ifm.shape.depth, op.ofm.shape.depth, op.ofm.shape.width) for op in one.kernels[:1])


def _elements(one: LayerFigures) -> object:
    """Key of an unnamed layer that is cut or transposed differently on one side: its operators, windows and number of written elements."""
    windows = {tuple(sorted((op.kernel.height, op.kernel.width))) for op in one.kernels}
    return one.operators, sorted(windows), sum(op.ofm.shape.elements for op in one.kernels)


def _label(one: LayerFigures) -> object:
    return one.label


Key = Callable[[LayerFigures], object]


def _in_order(
    before: Sequence[LayerFigures], after: Sequence[LayerFigures], keys: Sequence[Key]
) -> Iterator[tuple[LayerFigures | None, LayerFigures | None]]:
    """Yield the layers of both sides in one order. Layers with the same first key are paired; the rest is paired by the other keys."""
    if not keys or not before or not after:
        yield from ((one, None) for one in before)
        yield from ((None, one) for one in after)
        return
    ours, theirs = ([repr(keys[0](one)) for one in side] for side in (before, after))
    for kind, first, last, start, end in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from zip(before[first:last], after[start:end], strict=True)
        else:
            yield from _in_order(before[first:last], after[start:end], keys[1:])


def _aligned(before: Sequence[LayerFigures], after: Sequence[LayerFigures]) -> Iterator[tuple[LayerFigures | None, LayerFigures | None]]:
    """Yield the layers of both sides in one order, with the same layer paired: by name, or by shape without a name."""
    if any(one.label.startswith(UNNAMED) for one in (*before, *after)):
        yield from _in_order(before, after, (_shapes, _elements))
    elif any(len({one.label for one in side}) < len(side) for side in (before, after)):
        yield from _in_order(before, after, (_label,))
    else:
        # Equal names are the same layer, in any order of the layers.
        found = {one.label: one for one in after}
        yield from ((one, found.pop(one.label, None)) for one in before)
        yield from ((None, one) for one in found.values())


def _words(before: Sequence[str], after: Sequence[str]) -> str:
    return f"{', '.join(before) or 'none'} -> {', '.join(after) or 'none'}"


def _changes(before: LayerFigures | None, after: LayerFigures | None) -> Iterator[str]:
    if before is None or after is None:
        yield "only after" if before is None else "only before"
        return
    if set(before.operators) != set(after.operators):
        yield f"operators {_words(before.operators, after.operators)}"
    if len(before.kernels) != len(after.kernels):
        yield f"kernels {len(before.kernels)} -> {len(after.kernels)}"
    if set(before.blocks) != set(after.blocks):
        yield f"blocks {_words(before.blocks, after.blocks)}"
    if set(before.layouts) != set(after.layouts):
        yield f"layout {_words(before.layouts, after.layouts)}"
    if before.copied != after.copied:
        yield f"copied to SRAM {before.copied:,} -> {after.copied:,} bytes"
    if before.moved != after.moved:
        yield f"traffic {before.moved:,} -> {after.moved:,} bytes"
    if before.binding != after.binding:
        yield f"bound by {before.binding} -> {after.binding}"


def beside(before: NetworkReplay, after: NetworkReplay) -> tuple[Moved, ...]:
    """The layers of both replays, those of ``before`` in their order."""
    return tuple(
        Moved((first or last).label, first, last, tuple(_changes(first, last)))  # type: ignore[union-attr]  # one of them is there
        for first, last in _aligned(figures(before), figures(after))
    )
