"""The solver: first fit in several orders, a local search over orders, and branch and bound where few buffers remain.

First fit takes the buffers in an order and puts each at the lowest address that its gaps to those already placed leave free.
The search is for the order. It ends as soon as the lower bound is reached, which on the tensors of a network is nearly
always at once. Local search over orders is the idea of Vela 5.2.0's hill-climb allocator.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from cascader.allocate.exact import branch_and_bound
from cascader.allocate.geometry import Geometry
from cascader.allocate.problem import Buffer, Problem, Solution, lower_bound
from npu_model.errors import InputError


@dataclass(frozen=True, slots=True)
class SolverParams:
    """The tricks of the solver, each of which can be left out, and its limits.

    ``partition`` solves stretches of time that no buffer spans separately. ``many_orders`` tries first fit in all orders of
    ``ORDERS``, not in the first alone. ``local_search`` changes the best order where it hurts, ``max_moves`` times at most, at
    random but seeded by ``seed``. ``exact`` proves or improves the result by branch and bound where at most
    ``exact_buffers`` are left, within ``max_nodes`` nodes. ``skip_same`` lets it try buffers that are alike in one order only.
    """

    partition: bool = True
    many_orders: bool = True
    local_search: bool = True
    exact: bool = True
    skip_same: bool = True
    seed: int = 1
    max_moves: int = 400
    exact_buffers: int = 12
    max_nodes: int = 20_000


ORDERS: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
    lambda b: (-b.size, b.start, -b.end),
    lambda b: (-b.end, -b.size, b.start),
    lambda b: (b.start, -b.end, -b.size),
    lambda b: (-b.size * (b.end - b.start), b.start),
    lambda b: (b.start - b.end, -b.size, b.start),
    lambda b: (-b.start, -b.size, -b.end),
)
"""Sort keys: largest first, latest death first, earliest birth first, largest area first, longest life first, latest birth first."""


def first_fit(geometry: Geometry, order: Sequence[int]) -> list[int]:
    """Addresses by buffer when each, in this order, takes the lowest address that is free."""
    addresses = [-1] * len(geometry.buffers)
    for index in order:
        # Open intervals of addresses that the placed buffers keep this one from.
        taken = sorted(
            (addresses[other] - under, addresses[other] + over) for other, under, over in geometry.gaps[index] if addresses[other] >= 0
        )
        address = 0
        for low, high in taken:
            if address <= low:
                break
            if address < high:
                address = geometry.align(index, high)
        addresses[index] = address
    return addresses


def _climb(geometry: Geometry, order: list[int], addresses: list[int], target: int, params: SolverParams) -> list[int]:
    """Addresses after moving, again and again, what stands at the peak to an earlier place in the order.

    One time in two it is the buffer at the peak, else one in conflict with it. A move stays if the peak is no higher: the
    many orders of equal peak are the way from one hill to the next.
    """
    rng = random.Random(params.seed)  # noqa: S311  # a search needs no secrecy
    best = geometry.peak(addresses)
    for _ in range(params.max_moves):
        if best <= target:
            break
        top = rng.choice([i for i, b in enumerate(geometry.buffers) if addresses[i] + b.size == best])
        chosen = top if rng.random() < 0.5 else rng.choice([top, *(other for other, _, _ in geometry.gaps[top])])
        place = order.index(chosen)
        candidate = order[:place] + order[place + 1 :]
        candidate.insert(rng.randrange(place + 1), chosen)
        trial = first_fit(geometry, candidate)
        peak = geometry.peak(trial)
        if peak <= best:
            order, addresses, best = candidate, trial, peak
    return addresses


def _solve_part(buffers: tuple[Buffer, ...], target: int, params: SolverParams) -> list[int]:
    """Addresses of buffers that hang together; a peak of ``target`` bytes is good enough."""
    geometry = Geometry(buffers)
    orders = [sorted(range(len(buffers)), key=lambda index, key=key: key(buffers[index])) for key in ORDERS]  # type: ignore[misc]  # mypy cannot type a default in a lambda
    best_order, best = orders[0], first_fit(geometry, orders[0])
    for order in orders[1:] if params.many_orders else ():
        if geometry.peak(best) <= target:
            return best
        addresses = first_fit(geometry, order)
        if geometry.peak(addresses) < geometry.peak(best):
            best_order, best = order, addresses
    if params.local_search:
        best = _climb(geometry, best_order, best, target, params)
    if params.exact and len(buffers) <= params.exact_buffers and geometry.peak(best) > target:
        best = branch_and_bound(geometry, best, target, params.max_nodes, skip_same=params.skip_same)
    return best


def _parts(buffers: tuple[Buffer, ...], params: SolverParams) -> list[list[int]]:
    """Indices of the buffers, by stretches of time that no buffer spans; one part if partitioning is off."""
    if not params.partition:
        return [list(range(len(buffers)))] if buffers else []
    part, end, label = 0, None, {}
    for index in sorted(range(len(buffers)), key=lambda i: buffers[i].start):
        if end is not None and buffers[index].start >= end:
            part += 1
        label[index] = part
        end = buffers[index].end if end is None else max(end, buffers[index].end)
    return [sorted(group) for _, group in groupby(sorted(label, key=lambda i: label[i]), key=lambda i: label[i])]


def solve(problem: Problem, params: SolverParams | None = None) -> Solution:
    """Addresses for all buffers, of the lowest peak that the solver finds; the same for the same problem and parameters.

    InputError if the problem has a capacity and the peak exceeds it: the message names the smallest peak reached and,
    where that is certain, that none is smaller.
    """
    params = params or SolverParams()
    bound = lower_bound(problem)
    addresses = [0] * len(problem.buffers)
    for part in _parts(problem.buffers, params):
        found = _solve_part(tuple(problem.buffers[index] for index in part), bound, params)
        for index, address in zip(part, found, strict=True):
            addresses[index] = address
    peak = max((address + buffer.size for address, buffer in zip(addresses, problem.buffers, strict=True)), default=0)
    if problem.capacity is not None and peak > problem.capacity:
        certain = "no placement needs less" if peak == bound else f"every placement needs {bound}"
        raise InputError(f"The buffers reach {peak} bytes but the capacity is {problem.capacity} ({certain}): allow {peak} bytes.")
    return Solution(tuple(addresses), peak)
