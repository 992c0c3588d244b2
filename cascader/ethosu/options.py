"""Options of the cascading search for the Ethos-U: every choice is a switch."""

from __future__ import annotations

from dataclasses import dataclass, field

from cascader.plan.plans import PlanOptions
from cascader.search.candidates import DraftOptions


@dataclass(frozen=True, slots=True)
class CascadeOptions:
    """The search, each choice a switch of its own.

    ``layouts`` are the channel counts up to which tensors are stored densely (0: all in bricks of 16); each is a
    search of its own. ``rungs`` are the memory limits that a frontier tries. ``choose_blocks`` off keeps the network's
    block configs instead of choosing them by cycles for every stripe, ``reblock`` off their depths, ``recode`` off the codes of their
    weights. ``fold`` off keeps the images' columns, ``row_shapes`` off the shapes of elementwise kernels, ``table_slots`` off the slots
    of look-up tables, ``turn`` off the axis that is the height, ``order`` off the order of parts. ``trim`` off keeps rows that
    kernels write for others to write again. ``phases`` off keeps transposed convolutions behind their upscaler. ``slices`` off keeps
    layers with many weights in one piece, ``fine_slices`` off cuts only those that are very large. ``quick_layouts`` off stores tensors
    between finer pieces densely even where that takes more cycles. ``columns`` off keeps parts that are one row high whole, instead of
    cutting them along the width too; there equal pieces of the width (``column_counts``) are asked for in place of ``stripe_rows``,
    without bounds for inner rows. ``fine_rows`` are asked for beside ``plans.stripe_rows`` in small networks. ``overlap`` off expects each
    job to begin when the one before is done.
    """

    layouts: tuple[int, ...] = (0, 64)
    rungs: int = 12
    choose_blocks: bool = True
    reblock: bool = True
    recode: bool = True
    fold: bool = True
    row_shapes: bool = True
    table_slots: bool = True
    trim: bool = True
    phases: bool = True
    order: bool = True
    turn: bool = True
    slices: bool = True
    fine_slices: bool = True
    quick_layouts: bool = True
    columns: bool = True
    overlap: bool = True
    fine_rows: tuple[int, ...] = (3, 5, 6, 10, 12, 20, 24)
    plans: PlanOptions = field(default_factory=PlanOptions)
    drafts: DraftOptions = field(default_factory=DraftOptions)


DEFAULT_OPTIONS = CascadeOptions()
