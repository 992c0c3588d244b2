"""Costs: a user's function that gives a schedule's cost, which replaces its cycles."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from cascader.ethosu.job.schedule import Schedule
from npu_model.errors import InputError
from npu_model.front import later
from npu_model.registered import COSTS, failed, find_registered

with later():
    import sim
    from cascader.ethosu.codegen import lowering  # a verb that is not called loads nothing
    from cascader.ethosu.job import staging
    from cascader.ethosu.network import network
    from npu_model import accelerator as accelerators

if TYPE_CHECKING:
    from cascader.ethosu.search.task import Point, Price, Task


class Figures(Struct, frozen=True):
    """Figures of a replayed schedule, for a cost function.

    ``arena_bytes`` is the arena to set aside, and ``cycles`` counts NPU cycles. Traffic is in bytes by port and direction, including the
    command stream. ``copied_bytes`` are the weights that DMA copies into the arena, each copy counted. ``macs`` counts all kernels,
    including recomputed work; ``clock_hz`` is the NPU's clock. ``schedule`` has the rest: jobs, buffers, copies, blocks.
    """

    arena_bytes: int
    cycles: int
    axi0_read_bytes: int
    axi0_write_bytes: int
    axi1_read_bytes: int
    axi1_write_bytes: int
    copied_bytes: int
    macs: int
    clock_hz: int
    schedule: Schedule

    @property
    def traffic(self) -> int:
        """Bytes over all ports."""
        return self.axi0_read_bytes + self.axi0_write_bytes + self.axi1_read_bytes + self.axi1_write_bytes


Cost = Callable[[Figures], float]
"""The cost of a schedule, which the search minimises: a finite number in any unit."""


def figures_of(point: Point, task: Task) -> Figures:
    """The figures of a schedule that the search of a task has replayed."""
    plan = point.schedule
    beats = sim.counted_network(lowering.lower(plan), task.system, task.provenance.timing).beats
    size = accelerators.accelerator(task.accelerator).port_bytes_per_cycle
    parts = {part.name: network.ethosu_part(part) for part in plan.network.graph.parts}
    copied = (parts[copy.part] for copy in plan.copies)
    return Figures(
        arena_bytes=point.memory,
        cycles=point.cycles,
        axi0_read_bytes=beats.axi0_read * size,
        axi0_write_bytes=beats.axi0_write * size,
        axi1_read_bytes=beats.axi1_read * size,
        axi1_write_bytes=beats.axi1_write * size,
        copied_bytes=sum(staging.staged_bytes(part.operation) for part in copied if part is not None),
        macs=plan.network.macs,
        clock_hz=task.system.clock_hz,
        schedule=plan,
    )


def cost_of(cost: Cost | str | None) -> Cost | None:
    """The function of a cost, or the registered one of that name; InputError if there is none, or if it is not a function."""
    if not isinstance(cost, str):
        return cost
    one = find_registered(COSTS, cost)
    found = one.load()
    if not callable(found):
        raise InputError(f"The {one.description} is {type(found).__name__}: make it a function of npu_testbed.Figures.")

    def registered(figures: Figures) -> float:
        try:
            return float(found(figures))
        except Exception as error:  # noqa: BLE001  # the code is another's
            raise failed(one, error) from None

    return registered


def price_of(cost: Cost | None, task: Task) -> Price | None:
    """The cost in the form of a task's search; None for None."""
    return None if cost is None else lambda point: cost(figures_of(point, task))
