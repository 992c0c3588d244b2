"""Passes: rewrites of a network by name, and the terms that they take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.columns import column_stripes
from cascader.ethosu.forms.fold import folded
from cascader.ethosu.forms.layouts import dense_layouts, denser_layouts, quick_layouts
from cascader.ethosu.forms.long_steps import with_long_steps
from cascader.ethosu.forms.phases import in_phases
from cascader.ethosu.forms.planned import planned_bytes, planned_peak
from cascader.ethosu.forms.reblock import reblocked, recoded
from cascader.ethosu.forms.row_shapes import in_row_shapes
from cascader.ethosu.forms.sizes import is_flat
from cascader.ethosu.forms.slices import LARGEST, sliced
from cascader.ethosu.forms.spared_copies import with_transfers, without_copies
from cascader.ethosu.forms.streamed_pools import with_quick_means, with_streamed_pools
from cascader.ethosu.forms.table_slots import with_table_slots
from cascader.ethosu.forms.transposed import transposed, transposed_in_place
from cascader.ethosu.forms.trimmed import trimmed
from cascader.ethosu.forms.wide_copies import with_wide_copies
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.wanted_homes import Wanted
from cascader.ethosu.options import CascadeOptions
from npu_model.accelerator import Accelerator
from npu_model.front import later

with later():
    from cascader.ethosu.forms import recomputed  # only forms that recompute some work need it


class PassTerms(Struct, frozen=True):
    """Terms for passes in addition to the network: the device, its constants read in the arena or at home, and the homes of tensors.

    ``fine`` holds sizes of channel slices (bytes of weights). Each is finer than the slices of the largest layers. With ``copied``
    the arena is a fast scratch, and an outer arena holds the rest. Constants are copied to the scratch, as their home is far away.
    """

    device: Accelerator
    staged: Sources
    direct: Sources
    options: CascadeOptions
    homes: tuple[Wanted, ...] = ()
    fine: tuple[int, ...] = ()
    copied: bool = False
    below: int | None = None
    """Bytes below which the plans of a form that recomputes have to stay, so that it is searched (None: any number)."""

    @property
    def places(self) -> tuple[Sources, ...]:
        """The places of constants for which a block depth has to be good."""
        return (self.staged,) if self.copied else (self.direct, self.staged)


class Pass(Struct, frozen=True):
    """A rewrite of a network, which runs if all options named in ``switches`` are on."""

    run: Callable[[Network, PassTerms], Network]
    switches: tuple[str, ...] = ()

    def __call__(self, network: Network, terms: PassTerms) -> Network:
        """The rewritten network; it is unchanged if the pass is off or finds nothing."""
        return self.run(network, terms) if all(getattr(terms.options, name) for name in self.switches) else network


_FLAT_SLICE, _FLAT_SLICES = LARGEST // 4, 16
"""Weight bytes of a channel slice, and the most slices of a layer, in networks that are cut along the columns."""


def _recoded(network: Network, terms: PassTerms) -> Network:
    return recoded(network, terms.device, LARGEST if terms.options.slices and not is_flat(network) else None)


def _in_fine_slices(number: int) -> Pass:
    return Pass(lambda network, terms: sliced(network, terms.device, terms.fine[number], early=True), ("slices",))


def with_recomputed(network: Network, terms: PassTerms) -> list[Network]:
    """The forms in tiles and with recomputed skips, the form with the fewest bytes first. Their pools stream if that holds fewer bytes."""
    streamed, homes = PASSES["streamed pools"](network, terms), terms.homes
    # If two are equal, the streamed form wins: after tiles the pool may hold the most bytes. Until a skip is recomputed, the streamed form
    # may hold more.
    bases = (network,) if streamed is network else (streamed, network)
    pools = {part.name for part in streamed.graph.parts}.difference(part.name for part in network.graph.parts)
    found: list[list[Network]] = []
    for base in bases:
        if found and not _peaks_at(next(iter(found[0]), streamed), pools, homes):
            break  # Whole pools hold no fewer bytes there.
        found.append(recomputed.recomputed(base, terms.options.recompute, terms.device, terms.staged, homes, terms.below))
    least = min(planned_bytes(base, homes) for base in bases)
    return min(
        (some for some in found if some and planned_bytes(some[0], homes) < least),
        key=lambda some: planned_bytes(some[0], homes),
        default=[],
    )


def _peaks_at(form: Network, names: Iterable[str], homes: Sequence[Wanted]) -> bool:
    """Whether the plans of a form hold the most bytes near some parts, or near tiles or stripes of these."""
    found = planned_peak(form, homes).parts
    return any(one == name or one.startswith(f"{name}/") for one in found for name in names)


PASSES: dict[str, Pass] = {
    "spared copies": Pass(lambda network, _: without_copies(network), ("spare_copies",)),
    "spared shifted copies": Pass(lambda network, _: without_copies(network, shifted=True), ("spare_copies",)),
    "long steps": Pass(lambda network, terms: with_long_steps(network, terms.device, terms.staged), ("long_steps",)),
    "recoded": Pass(_recoded, ("recode",)),
    "trimmed": Pass(lambda network, _: trimmed(network), ("trim",)),
    "table slots": Pass(lambda network, terms: with_table_slots(network, terms.device), ("table_slots",)),
    "row shapes": Pass(lambda network, terms: in_row_shapes(network, terms.device), ("row_shapes",)),
    "transfers": Pass(lambda network, terms: with_transfers(network, terms.device, terms.staged), ("transfers",)),
    "wide copies": Pass(lambda network, terms: with_wide_copies(network, terms.device, terms.staged), ("wide_copies",)),
    "phases": Pass(lambda network, terms: in_phases(network, terms.device, terms.staged), ("phases",)),
    "folded": Pass(lambda network, terms: folded(network, terms.device, terms.staged), ("fold",)),
    "quick means": Pass(lambda network, terms: with_quick_means(network, terms.device, terms.staged), ("quick_means",)),
    "streamed pools": Pass(lambda network, terms: with_streamed_pools(network, terms.device, terms.staged), ("streamed_pools",)),
    "transposed": Pass(lambda network, terms: transposed(network, terms.device, terms.staged), ("turn",)),
    "transposed in place": Pass(lambda network, terms: transposed_in_place(network, terms.device, terms.staged), ("turn",)),
    "depths for both": Pass(lambda network, terms: reblocked(network, terms.device, terms.places, followed=terms.copied), ("reblock",)),
    "depths for staged": Pass(lambda network, terms: reblocked(network, terms.device, (terms.staged,)), ("reblock",)),
    "bricks": Pass(lambda network, _: dense_layouts(network, 0)),
    "dense": Pass(lambda network, terms: dense_layouts(network, terms.options.dense)),
    "denser": Pass(lambda network, _: denser_layouts(network), ("dense",)),
    "quick": Pass(lambda network, terms: quick_layouts(network, terms.options.dense, terms.device, terms.staged)),
    "columns in bricks": Pass(lambda network, _: column_stripes(network, 0), ("columns",)),
    "dense columns": Pass(lambda network, terms: column_stripes(network, terms.options.dense), ("columns",)),
    "coarse slices": Pass(lambda network, terms: sliced(network, terms.device, LARGEST, early=True), ("slices",)),
    "half slices": Pass(lambda network, terms: sliced(network, terms.device, LARGEST // 2), ("slices",)),
    "small slices": Pass(lambda network, terms: sliced(network, terms.device, _FLAT_SLICE, _FLAT_SLICES), ("slices", "fine_slices")),
    **{f"fine slices {number}": _in_fine_slices(number - 1) for number in (1, 2)},
}
"""The passes that turn one network into another."""

AGAIN = "recomputed "
"""First letters of the pass names that stand for the networks of :func:`with_recomputed`; a number follows."""
