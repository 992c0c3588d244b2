"""Options of the cascading search for the Ethos-U: every choice is a switch."""

from __future__ import annotations

from fractions import Fraction

from msgspec import Struct, field

from cascader.draft.drafter import DraftOptions
from cascader.plan.plans import PlanOptions


class CascadeOptions(Struct, frozen=True):
    """The search, each choice a switch of its own."""

    dense: int = 64
    """The most channels of densely stored tensors in one of two layouts; in the other one all tensors are in bricks of 16 (0: in both)."""
    rungs: int = 12
    """Memory limits that a frontier tries."""
    choose_blocks: bool = True
    """Choose block configs by cycles for every stripe; off: use the network's."""
    reblock: bool = True
    """Encode weights for the block depths that are fastest."""
    recode: bool = True
    """Encode weights again if that takes fewer bytes."""
    fold: bool = True
    """Read images of few channels in pairs of columns."""
    row_shapes: bool = True
    """Give elementwise kernels on dense tensors the rows of the kernels around them."""
    spare_copies: bool = True
    """Leave out kernels that copy a tensor if the tensor can replace its copy."""
    transfers: bool = True
    """Copy within the arena by transfers in parallel with the kernels, if that is faster."""
    long_steps: bool = True
    """Run pools and convolutions that step over more than 3 elements as few kernels; off: one for each position, like the compiler."""
    wide_copies: bool = True
    """Copy bytes as elements of 16 or 32 bits where a compiler copies them as pixels of 8."""
    table_slots: bool = True
    """Spread look-up tables over the slots of SHRAM."""
    trim: bool = True
    """Leave out rows that other kernels write again."""
    phases: bool = True
    """Split transposed convolutions into kernels without zeros; off: they keep their upscaler."""
    turn: bool = True
    """Exchange height and width if the kernels are faster then."""
    streamed_pools: bool = True
    """Sum (or compare) a few rows at a time for a global pool, if that holds fewer bytes."""
    quick_means: bool = True
    """Sum a few rows at a time for a mean over a whole map, if that takes fewer cycles."""
    recompute: Fraction = Fraction(11, 10)
    """Limit of multiply-accumulates, recomputed ones included, as a multiple of the network's (1: nothing is recomputed; 0: no result
    lies over dead rows either)."""
    slices: bool = True
    """Cut layers with very many weights into channel slices."""
    fine_slices: bool = True
    """Search smaller slices, too."""
    constant_places: bool = True
    """For a network that is one row high, try the positions in a burst at which its constants begin."""
    columns: bool = True
    """Cut parts that are one row high along the width, in ``column_counts`` columns instead of ``stripe_rows``, without ``inner_rows``."""
    small_forms: bool = True
    """Search forms that only save bytes, if they hold fewer than all others."""
    own_forms: bool = True
    """Search the forms that other distributions register, too."""
    few_forms: bool = False
    """Search only the forms that most answers come from, but all forms if these would hardly fit."""
    change_by_replays: bool = True
    """Change copies of the best schedules by replays."""
    change_blocks: bool = True
    """Change their blocks, too, in far more replays."""
    overlap: bool = True
    """Expect a job to begin before the previous one is done; off: when the previous one is done."""
    other_costs: bool = True
    """Make schedules for a faster and a slower decoder of weights, too, as other starts for changes by replays."""
    fine_rows: tuple[int, ...] = (3, 5, 6, 10, 12, 20, 24)
    """Numbers of rows that small networks try in addition to ``plans.stripe_rows``."""
    plans: PlanOptions = field(default_factory=PlanOptions)
    drafts: DraftOptions = field(default_factory=DraftOptions)


DEFAULT_OPTIONS = CascadeOptions()
