from __future__ import annotations

from enum import Enum
from fractions import Fraction
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from cascader.graph.stripe_config import Rational
from npu_model.documents import plain, typed
from npu_model.errors import InputError
from npu_model.program.operations import PoolKind


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Leaf(Struct, frozen=True, tag="leaf"):
    size: int
    colour: Colour = Colour.RED


class Branch(Struct, frozen=True, tag="branch"):
    parts: tuple[Leaf | Branch, ...]
    ratio: Fraction = Fraction(1)
    exact: Rational = 1
    share: float = 0.5
    data: bytes = b""
    pair: tuple[int, str] = (1, "a")
    pool: PoolKind | None = None
    on: bool = False


POOLS = ", ".join(kind.value for kind in PoolKind)
TREES = st.recursive(
    st.builds(Leaf, st.integers(-(1 << 47), 1 << 47), st.sampled_from(Colour)),
    lambda inner: st.builds(
        Branch,
        st.lists(inner, max_size=3).map(tuple),
        st.fractions(min_value=0, max_denominator=1000),
        st.one_of(st.integers(0, 9), st.fractions(min_value=Fraction(1, 3), max_value=9, max_denominator=7)),
        st.floats(allow_nan=False, allow_infinity=False),
        st.binary(max_size=9),
        st.tuples(st.integers(0, 9), st.text(st.characters(codec="utf-8"), max_size=3)),
        st.none() | st.sampled_from(PoolKind),
        st.booleans(),
    ),
    max_leaves=8,
)


@given(TREES)
def test_a_value_is_the_same_after_its_json(tree: Leaf | Branch) -> None:
    kind: Any = Leaf | Branch
    assert typed(kind, plain(tree)) == tree


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"share": "x"}, "The file has 'x' at share where a number is needed: write the file again."),
        ({"ratio": "1/0"}, "The file has '1/0' at ratio where the text of a ratio such as 8 or 8/3 is needed: write the file again."),
        (
            {"exact": 1.5},
            "The file has 1.5 at exact where a whole number or the text of a ratio such as 8/3 is needed: write the file again.",
        ),
        ({"pool": "LEAST"}, f"The file has 'LEAST' at pool where one of {POOLS} or null is needed: write the file again."),
        ({"pair": [1]}, "The file has [1] at pair where a list of 2 items is needed: write the file again."),
        ({"pair": [1, 2]}, "The file has 2 at pair[1] where a text is needed: write the file again."),
        ({"data": "!"}, "The file has '!' at data where base64 text is needed: write the file again."),
        ({"on": 1}, "The file has 1 at on where true or false is needed: write the file again."),
        ({"parts": {}}, "The file has [] at parts where a list is needed: write the file again."),
        ({"parts": [{"type": "root"}]}, "The file has 'root' at parts[0].type where one of leaf, branch is needed: write the file again."),
        ({"parts": [{"type": "leaf"}]}, "The file has ['type'] at parts[0] where the key 'size' is needed: write the file again."),
        (
            {"parts": [{"type": "leaf", "size": 1, "colour": "green"}]},
            "The file has 'green' at parts[0].colour where one of red, blue is needed: write the file again.",
        ),
    ],
    ids=str,
)
def test_a_wrong_value_is_named_with_its_place_and_what_is_wanted(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        typed(Branch, plain(Branch(())) | change, "The file")
    assert str(caught.value) == sentence


class Leaves(Struct, forbid_unknown_fields=True):
    """A file with tables by name, and figures with bounds."""

    sizes: dict[str, Annotated[int, Meta(ge=1, le=9)]] = {}
    share: Annotated[float, Meta(gt=0)] = 1.0
    kind: Literal["oak", "elm"] = "oak"
    steps: Annotated[tuple[int, ...], Meta(min_length=1)] = (1,)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"sizes": {"a": 3, "b\x1b": 0}}, r"has 0 at sizes.b\x1b where an integer from 1 to 9 is needed"),
        ({"sizes": 3}, "has 3 at sizes where a table is needed"),
        ({"share": 0}, "has 0 at share where a number above 0 is needed"),
        ({"kind": "ash"}, "has 'ash' at kind where one of oak, elm is needed"),
        ({"steps": []}, "has [] at steps where a list of 1 or more is needed"),
        ({"size": {}}, "has 'size' (did you mean sizes?) at its top where one of the keys sizes, share, kind, steps is needed"),
    ],
    ids=str,
)
def test_bounds_tables_of_any_keys_and_unknown_keys_are_named(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        typed(Leaves, given, "The file", remedy="see the page")
    assert str(caught.value) == f"The file {sentence}: see the page."


def test_the_top_and_a_place_further_up_are_named() -> None:
    with pytest.raises(InputError, match=r"has 3 at its top where an object .Leaf. is needed"):
        typed(Leaf, 3)
    with pytest.raises(InputError, match=r"has 'x' at trees\[2\].size where an integer between"):
        typed(Leaf, {"type": "leaf", "size": "x"}, "The file", "trees[2]")


def test_a_value_without_json_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError, match="complex has no JSON form"):
        plain(1j)


def test_a_code_of_the_registers_is_that_of_one_member() -> None:
    assert [PoolKind.of(kind.code) for kind in PoolKind] == list(PoolKind)
    with pytest.raises(ValueError, match="PoolKind has no code 9"):
        PoolKind.of(9)
