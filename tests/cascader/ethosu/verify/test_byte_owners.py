"""The map of the arena's owners, against a dictionary of single bytes."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from cascader.ethosu.verify.byte_owners import ByteAccess, ByteOwners
from cascader.ethosu.verify.windows import Span

SIZE = 64


def addresses(span: Span) -> list[int]:
    """Every byte of a span, gaps left out; where pieces lie over each other all bytes from start to end."""
    pieces = [span.start + sum(i * s for i, s in zip(at, span.strides, strict=True)) for at in product(*map(range, span.counts))]
    found = sorted({piece + byte for piece in pieces for byte in range(span.width)})
    return list(range(span.start, found[-1] + 1)) if len(pieces) * span.width > len(found) else found


@st.composite
def spans(draw: st.DrawFn) -> Span:
    counts = draw(st.tuples(st.integers(1, 3), st.integers(1, 2)))
    width = draw(st.integers(1, 4))
    inner = draw(st.integers(width, 6))
    outer = draw(st.integers(counts[1] * inner, 16))
    reach = (counts[0] - 1) * outer + (counts[1] - 1) * inner + width
    return Span(draw(st.integers(0, SIZE - reach)), counts, (outer, inner), width, 0)


ACCESSES = st.builds(ByteAccess, st.sampled_from("ab"), st.sampled_from([None, 0, 1]), spans())
STEPS = st.lists(st.tuples(st.booleans(), ACCESSES, st.integers(0, 1)), max_size=12)


@given(STEPS)
def test_bytes_are_there_as_long_as_nobody_else_has_taken_one(steps: list[tuple[bool, ByteAccess, int]]) -> None:
    owners, held = ByteOwners(SIZE), dict[int, tuple[str, int | None, int]]()
    for takes, access, version in steps:
        key = access.tensor, access.turn, version
        if takes:
            owners.take(access, version)
            held |= dict.fromkeys(addresses(access.span), key)
            continue
        strange = [address for address in addresses(access.span) if held.get(address) != key]
        missing = owners.missing(access, version)
        assert (missing is None) == (not strange)
        if missing is not None:
            row, address, what = missing
            assert address in strange
            assert 0 <= row < access.span.counts[0]
            assert ("nothing was written" in what) == (address not in held)


def test_the_first_row_that_somebody_else_has_taken_is_named_with_its_address() -> None:
    """Rows 5 to 7 of a tensor lie 16 bytes apart; another one takes two bytes of row 6, and then of row 5."""
    owners, mine = ByteOwners(SIZE), ByteAccess("a", None, Span(8, (3, 1), (16, 4), 4, 5))
    owners.take(mine)
    for taken, found in ((26, (6, 26)), (9, (5, 9))):
        owners.take(ByteAccess("b", None, Span(taken, (1, 1), (2, 2), 2, 0)))
        missing = owners.missing(mine)
        assert missing is not None
        assert missing[:2] == found
