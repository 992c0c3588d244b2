"""Options of the cascading search for the Ethos-U: every choice is a switch."""

from __future__ import annotations

from fractions import Fraction

from msgspec import Struct, field

from cascader.draft.drafter import DraftOptions
from cascader.plan.plans import PlanOptions


class CascadeOptions(Struct, frozen=True):
    """The search, each choice a switch of its own."""

    dense: int = 64
    """Channels up to which tensors are stored densely in one of two layouts; in the other one all are in bricks of 16 (0: in both)."""
    rungs: int = 12
    """Memory limits that a frontier tries."""
    choose_blocks: bool = True
    """Choose block configs by cycles for every stripe; off: those of the network."""
    reblock: bool = True
    """Encode weights anew for the depths of blocks that are fastest."""
    recode: bool = True
    """Encode weights anew where that takes fewer bytes."""
    fold: bool = True
    """Read images of few channels in pairs of columns."""
    row_shapes: bool = True
    """Give elementwise kernels on dense tensors the rows of the kernels around them."""
    spare_copies: bool = True
    """Leave out kernels that copy a tensor where it can do for its copy."""
    transfers: bool = True
    """Copy within the arena by transfers beside the kernels, where that is faster."""
    long_steps: bool = True
    """Run pools and convolutions that step over more than 3 elements as few kernels; off: as the compiler's, one for each position."""
    wide_copies: bool = True
    """Copy bytes as elements of 16 or 32 bits where a compiler copies them as pixels of 8."""
    table_slots: bool = True
    """Spread look-up tables over the slots of SHRAM."""
    trim: bool = True
    """Leave out rows that kernels write for others to write again."""
    phases: bool = True
    """Take transposed convolutions apart into kernels without zeros; off: they stay behind their upscaler."""
    turn: bool = True
    """Exchange height and width where the kernels are faster so."""
    streamed_pools: bool = True
    """Sum (or compare) a few rows at a time for a global pool, where that holds fewer bytes."""
    quick_means: bool = True
    """Sum a few rows at a time for a mean over a whole map, where that takes fewer cycles."""
    recompute: Fraction = Fraction(11, 10)
    """Limit of multiply-accumulates, recomputed ones included, as a multiple of the network's (1: nothing is recomputed)."""
    slices: bool = True
    """Cut layers with very many weights into channel slices."""
    fine_slices: bool = True
    """Search smaller slices, too."""
    quick_layouts: bool = True
    """Keep tensors between small slices in bricks where that takes fewer cycles; off: such tensors are dense."""
    constant_places: bool = True
    """Try where in a burst the constants of a network that is one row high begin."""
    columns: bool = True
    """Cut parts that are one row high along the width, in ``column_counts`` columns in place of ``stripe_rows``, without ``inner_rows``."""
    small_forms: bool = True
    """Search forms that are there for their bytes, where they hold fewer than all others."""
    own_forms: bool = True
    """Search the forms that other distributions register, too."""
    few_forms: bool = False
    """Search only the forms of a network that most answers are of; all of them still where these would hardly fit."""
    change_by_replays: bool = True
    """Change blocks and copies of the best schedules as replays say."""
    overlap: bool = True
    """Expect a job to begin before the one before it is done; off: when that is done."""
    other_costs: bool = True
    """Make schedules for a faster and a slower decoder of weights, too: other starts for what replays change."""
    fine_rows: tuple[int, ...] = (3, 5, 6, 10, 12, 20, 24)
    """Rows that small networks are asked for beside ``plans.stripe_rows``."""
    plans: PlanOptions = field(default_factory=PlanOptions)
    drafts: DraftOptions = field(default_factory=DraftOptions)


DEFAULT_OPTIONS = CascadeOptions()
