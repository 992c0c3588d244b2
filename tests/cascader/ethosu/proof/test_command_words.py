"""The words of commands that a proof counts with are never more than those that the schedule's command stream has."""

from __future__ import annotations

import pytest
from scheduling import DEFAULT, network

from cascader.ethosu.cascade import Cascader
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.proof.command_words import COPY_WORDS, least_words
from npu_model.compiled.network import CompiledNetwork
from npu_model.program import DmaOperation, KernelOperation
from npu_testbed.memory_options import MemoryOptions
from validation.portfolio import build

SYSTEM = MemoryOptions().memory_system()


def lowered(name: str) -> list[CompiledNetwork]:
    """The schedules of a network at the least, a middle and the largest limit."""
    from cascader.frontends.vela import import_network  # noqa: PLC0415  # only networks of the portfolio are compiled

    plans = Cascader(import_network(build(name), DEFAULT) if name == "mnist" else network(name), DEFAULT, SYSTEM)
    limits = plans.limits()
    made = [draft for limit in (limits[0], limits[len(limits) // 2], limits[-1]) for draft in plans.drafts_at(limit)[:3]]
    return [lower(plans.schedule(draft)) for draft in made]


@pytest.mark.parametrize("name", ["tiny_conv", "tiny_residual", "ds_cnn", "mnist"])
def test_a_kernel_and_the_copies_before_it_take_at_least_the_words_that_are_counted(name: str) -> None:
    """A kernel's registers are SET before waits and copies, so that all words since the kernel before count together."""
    firsts: list[tuple[int, int]] = []
    for program in (program for made in lowered(name) for program in made.programs):
        before, words, copies = None, 0, 0
        for operation, own in zip(program.operations, program.words, strict=True):
            words += own
            copies += isinstance(operation, DmaOperation)
            if isinstance(operation, KernelOperation):
                least = least_words(before, operation) + copies * COPY_WORDS
                assert least <= words
                firsts += [(least, words)] if before is None else []
                before, words, copies = operation, 0, 0
    # Of a Program's first kernel, which sets all registers, nine of ten words are counted at least.
    assert firsts
    assert all(least >= 0.9 * words for least, words in firsts)
