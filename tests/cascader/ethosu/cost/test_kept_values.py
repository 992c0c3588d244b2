"""Values that are kept for kernels that differ only in what does not matter: they are those of each kernel by itself."""

from __future__ import annotations

import pytest
from few_examples import few
from hypothesis import given, settings
from hypothesis import strategies as st
from operation_strategies import elementwise_operations, windowed_operations

from cascader.ethosu.cost.block_steps import Steps
from npu_model.accelerator import accelerator
from npu_model.cost import flat_operation
from npu_model.program import KernelOperation
from npu_model.timing import DEFAULT_TIMING

OPERATIONS = st.one_of(windowed_operations(), elementwise_operations())
FIELDS = ("accumulator", "block", "decompose", "ifm", "kernel", "ofm", "part_kernel", "shram", "weights")


@st.composite
def pairs(draw: st.DrawFn) -> tuple[KernelOperation, KernelOperation]:
    """Two operations that differ in one field."""
    one, two, field = draw(OPERATIONS), draw(OPERATIONS), draw(st.sampled_from(FIELDS))
    return one, one.having(**{field: getattr(two, field)})


@pytest.mark.parametrize("device", ["ethos-u55-128", "ethos-u65-512"])
@settings(max_examples=few(300), deadline=None)
@given(both=pairs(), is_known=st.booleans())
def test_kept_steps_are_those_of_each_operation(device: str, both: tuple[KernelOperation, ...], *, is_known: bool) -> None:
    terms = accelerator(device), DEFAULT_TIMING
    for one in both:
        assert vars(Steps.known(one, *terms, is_known=is_known)) == vars(Steps(one, *terms, is_known=is_known))


@pytest.mark.parametrize("device", ["ethos-u55-128", "ethos-u65-512"])
@settings(max_examples=few(300), deadline=None)
@given(both=pairs(), is_known=st.booleans())
def test_kept_rows_are_those_of_each_operation_in_its_own_block(device: str, both: tuple[KernelOperation, ...], *, is_known: bool) -> None:
    terms = accelerator(device), DEFAULT_TIMING
    for one in both:
        alone = flat_operation._in_any_block.__wrapped__(one, *terms, is_known, flat_operation.LARGEST_WORD)
        assert flat_operation.flat_operation(one, *terms, is_known=is_known) == alone
