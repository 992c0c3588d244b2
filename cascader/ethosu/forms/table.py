"""The table of forms: each form of a network is a sequence of passes."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from cascader.ethosu.forms.columns import is_along_columns
from cascader.ethosu.forms.passes import AGAIN, PassTerms
from cascader.ethosu.forms.sizes import MOST_PARTS, is_flat, is_large, waits_for_weights
from cascader.ethosu.network.network import Network

BEGIN = ("spared shifted copies", "spared copies")
PLAIN = ("long steps", "recoded", "trimmed", "table slots", "row shapes", "transfers", "wide copies", "phases", "folded", "quick means")
"""The passes at the beginning of every form: fewer copies, then kernels and tables that are better for any budget."""


class FormFacts(Struct, frozen=True):
    """Facts that decide which forms a network has."""

    has_one_layout: bool
    """Whether the search has time for only one layout, and finer slices."""
    waits: bool
    """Whether the network's units mostly wait for weights, and layers may be cut."""
    along_columns: bool
    """Whether at least half of the network's kernels are one row high."""
    copies_turn: bool
    """Whether some of the spared copies change the order of elements."""
    recomputes: bool
    """Whether the search has time to look for work that is worth recomputing, and for results over dead rows."""
    bytes_count: bool
    """Whether anything but cycles counts."""
    sizes: int
    """Number of finer sizes of slices."""

    @classmethod
    def of(cls, network: Network, plain: Network, terms: PassTerms, *, copies_turn: bool) -> FormFacts:
        """The facts of a network without copies, and of its ``plain`` form."""
        options, flat = terms.options, is_flat(plain)
        return cls(
            has_one_layout=is_large(network) and bool(terms.fine),
            waits=options.slices and (flat or waits_for_weights(plain, terms.direct, terms.device)),
            along_columns=options.columns and is_along_columns(plain),
            copies_turn=copies_turn,
            recomputes=options.recompute >= 1 and not flat and len(plain.graph.parts) <= MOST_PARTS,
            bytes_count=options.small_forms,
            sizes=len(terms.fine),
        )


def _always(_: FormFacts) -> bool:
    return True


class Recipe(Struct, frozen=True):
    """A form: the ``passes`` that make it, one after the other, after the passes that it ``begins`` with.

    The form is left out if ``when`` says no, or if the pass that it ``needs`` finds nothing to do, here or in the plain network. A
    ``smaller`` form only saves bytes: it is searched if it holds fewer than all others. A form made ``beside`` the others takes long, and
    no other form waits for it. If few forms are wanted, only ``common`` ones are made.
    """

    name: str
    passes: tuple[str, ...]
    when: Callable[[FormFacts], bool] = _always
    needs: str = ""
    begins: tuple[str, ...] = (*BEGIN, *PLAIN)
    smaller: bool = False
    beside: bool = False
    common: bool = False

    @property
    def works_again(self) -> bool:
        """Whether the form recomputes some work, so that only the bytes that it saves count."""
        return self.needs.startswith(AGAIN)


END = ("depths for both", "dense", "coarse slices")  # Tensors that slices write are dense, too: tensors become dense before they are cut.


def _is_along_columns(facts: FormFacts) -> bool:
    return facts.along_columns


def _slices(number: int) -> tuple[str, ...]:
    return (f"fine slices {number}", "depths for staged", "quick")


def _has(number: int) -> Callable[[FormFacts], bool]:
    return lambda facts: facts.sizes >= number


FORMS: tuple[Recipe, ...] = (
    Recipe("bricks", ("depths for both", "bricks", "coarse slices"), lambda facts: not facts.has_one_layout),
    Recipe("dense", END, common=True),
    # If small slices and layouts each gain anything, they hardly gain more together.
    *(Recipe(f"slices {n}", _slices(n), _has(n), beside=True, common=n == 1) for n in (1, 2)),
    Recipe("transposed", ("transposed", *END), needs="transposed"),
    Recipe("transposed in place", ("transposed in place", *END), needs="transposed"),
    Recipe("transposed slices", ("transposed", *_slices(1)), _has(1), needs="transposed"),
    # For such networks, first slices of 16 channels and shallow blocks hardly gain anything.
    Recipe("compiler's blocks", ("half slices", "dense"), lambda facts: facts.waits),
    # A stripe of columns reads the weights of its kernels again, and a slice needs all columns of its input. So either all layers are cut
    # along the columns, or only layers with few weights, while the others are cut into small slices.
    Recipe("columns in bricks", ("depths for both", "columns in bricks"), _is_along_columns, common=True),
    Recipe("columns in bricks, small slices", ("depths for both", "columns in bricks", "small slices"), _is_along_columns),
    Recipe("dense columns", ("depths for both", "dense columns"), _is_along_columns, common=True),
    # The sums of a mean exist at the same time as the map that it reads: they may be too many if bytes are scarce.
    Recipe("whole means", END, lambda facts: facts.bytes_count, PLAIN[-1], (*BEGIN, *PLAIN[:-1])),
    # Copies that transpose a tensor save only memory: the densest layout and coarse slices suffice for them.
    Recipe("copies", END, lambda facts: facts.copies_turn, begins=(*BEGIN[:1], *PLAIN)),
    Recipe("streamed", ("streamed pools", *END), lambda facts: not facts.along_columns, "streamed pools", smaller=True),
    Recipe(
        "streamed slices", ("streamed pools", *_slices(1)), lambda f: f.sizes > 0 and not f.along_columns, "streamed pools", smaller=True
    ),
    Recipe(
        "streamed columns",
        ("streamed pools", "depths for both", "columns in bricks"),
        _is_along_columns,
        "streamed pools",
        smaller=True,
    ),
    *(Recipe(f"{AGAIN}{n}", (f"{AGAIN}{n}", *END), lambda f: f.recomputes, f"{AGAIN}{n}", smaller=True) for n in (1, 2, 3)),
    # Bricks round the columns that tiles write up to 16 channels. Pixels take fewer bytes, but small kernels may be slower on them.
    *(
        Recipe(
            f"{AGAIN}{n} denser",
            (f"{AGAIN}{n}", "depths for both", "denser", "coarse slices"),
            lambda f: f.recomputes,
            f"{AGAIN}{n}",
            smaller=True,
        )
        for n in (1, 2, 3)
    ),
    Recipe("recomputed slices", (f"{AGAIN}1", *_slices(1)), lambda f: f.sizes > 0 and f.recomputes, f"{AGAIN}1", smaller=True),
)
"""All forms, in the order in which they are searched."""
