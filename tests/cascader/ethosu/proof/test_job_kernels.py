"""Links from a kernel to the next one: what its units wait for of the kernel before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cascader.ethosu.proof.job_kernels import NEVER, ProofKernels
from cascader.ethosu.proof.least_flow import LeastFlow
from cascader.ethosu.proof.least_work import Block, LeastWork
from npu_model.timing import DEFAULT_TIMING

FLOW = LeastFlow(LeastWork((Block(((10, 5, 100, False),), 20, 8),) * 4, 0, 32), DEFAULT_TIMING)


@pytest.mark.parametrize(
    ("held", "distance"),
    [((0, 0), 0), ((0, 32), 0), ((1, 0), 1), ((3, 0), 3), (NEVER, None)],
    ids=["drained", "responses", "1", "3", "never"],
)
def test_a_kernel_s_units_are_done_so_long_after_the_kernel_before_as_it_waits_for_it(
    held: tuple[int, int], distance: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProofKernels, "_hold", lambda *_: held)
    kernels, before, kernel = object.__new__(ProofKernels), SimpleNamespace(), SimpleNamespace(flow=FLOW)
    found = kernels._released(before, kernel)  # type: ignore[arg-type]  # the numbers of a link
    assert found == FLOW.released(distance, held[1])
    waits: Any = [FLOW.released(one, 0) for one in (0, 1, 3, None)]
    assert sorted(waits, reverse=True) == waits, "the more blocks may be unfinished, the earlier all units are done"
