"""The work that is left from each part of a form on: what all later parts ask of the units, of the constants' port and of the gate."""

from __future__ import annotations

from fractions import Fraction
from math import floor

from cascader.ethosu.cascade import Cascader
from cascader.ethosu.network.network import CONSTANTS, EthosuPart, ethosu_part
from cascader.ethosu.proof.arena_gate import ArenaGate
from cascader.ethosu.proof.transfer_times import TransferTimes
from cascader.ethosu.search.bound import demand
from cascader.plan.depth_first import StripeJob
from npu_model.accelerator import accelerator
from npu_model.cost.traffic import BEAT_BYTES


def cycles_left(plans: Cascader) -> list[tuple[int, int]]:
    """Cycles of MACs and of the output unit that the parts from each one on ask for at least."""
    left, rest, device = (Fraction(0), Fraction(0)), [(0, 0)], accelerator(plans.accelerator)
    for number in range(len(plans.graph.parts) - 1, -1, -1):
        payload, rows = ethosu_part(plans.network.graph.parts[number]), plans.graph.parts[number].rows
        if payload is not None:
            asked = demand(payload, Fraction(plans.scheduler.needed[number], rows), device, plans.cost.timing)
            left = left[0] + asked.macs, left[1] + asked.output
        rest.append((floor(left[0]), floor(left[1])))
    return rest[::-1]


def _words_left(plans: Cascader, words: list[int]) -> list[int]:
    """Sum of some words of each part, from each part on until its Program ends."""
    parts, left = plans.graph.parts, [0]
    for number in range(len(parts) - 1, -1, -1):
        ends = number + 1 == len(parts) or parts[number + 1].segment != parts[number].segment
        left.append((0 if ends else left[-1]) + words[number])
    return left[::-1]


def constants_left(plans: Cascader) -> list[int]:
    """Words of constants that the parts from each one on read at least, copied or not, until their Program ends."""
    payloads = map(ethosu_part, plans.network.graph.parts)
    is_first = (plans.cost.same_constants(number) == number for number in range(len(plans.graph.parts)))
    return _words_left(plans, [_once(payload) if first else 0 for payload, first in zip(payloads, is_first, strict=True)])


def _once(payload: EthosuPart | None) -> int:
    """Words of a part's constants that one of its jobs reads at least: all streams once."""
    spans = () if payload is None or payload.transfer else (*payload.operation.weights, *payload.operation.scales)
    return sum(span.length // BEAT_BYTES for span in spans if span.region == CONSTANTS)


def transfers_left(plans: Cascader, transfers: TransferTimes, gate: ArenaGate) -> list[int]:
    """Words that pass the gate of the arena in transfers of the parts from each one on until their Program ends, at least."""
    asked = enumerate(plans.scheduler.needed)
    sizes = [transfers.size(StripeJob(number, 0, rows)) if rows and number in transfers.moved else 0 for number, rows in asked]
    return _words_left(plans, [gate.each * (size // BEAT_BYTES) for size in sizes])
