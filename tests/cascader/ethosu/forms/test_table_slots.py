"""Tables in turn in the slots of SHRAM: nobody waits for the kernel before, and the mathematics stay the same."""

from __future__ import annotations

import numpy as np
import pytest
from cascades import outputs
from msgspec.structs import replace
from scheduling import DEFAULT, network

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.forms.table_slots import with_table_slots
from cascader.ethosu.network.network import CONSTANTS, LUT_SLOT, LutLoad, Network, ethosu_part
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.graph.cascader_graph import CascaderGraph
from npu_model.accelerator import accelerator
from npu_model.program import ActivationKind, ByteRange, DmaOperation, KernelWait

pytestmark = pytest.mark.law

DEVICE = accelerator(DEFAULT)


def with_tables(of: dict[int, int], device: str = DEFAULT, length: int = LUT_SLOT) -> Network:
    """The residual network with part ``index`` using table ``of[index]``, of ``length`` bytes, all of them in the first slot."""
    net, lut_address = network("tiny_residual", device), accelerator(device).lut_address
    rng = np.random.default_rng(5)
    start = -(-len(net.constants) // 16) * 16
    tables = b"".join(rng.integers(0, 256, length, dtype=np.uint8).tobytes() for _ in range(max(of.values()) + 1))
    parts = list(net.graph.parts)
    for index, table in of.items():
        payload = ethosu_part(parts[index])
        assert payload is not None
        at = start + table * length
        activation = replace(payload.operation.activation, kind=ActivationKind.LUT, lut=0)
        lut = LutLoad(ByteRange(CONSTANTS, at, at + length), lut_address)
        parts[index] = replace(parts[index], payload=replace(payload, lut=lut, operation=replace(payload.operation, activation=activation)))
    constants = net.constants.ljust(start, b"\0") + tables
    return replace(net, graph=CascaderGraph(tuple(parts), net.graph.tensors), constants=constants)


def slots(net: Network) -> list[int | None]:
    payloads = [ethosu_part(part) for part in net.graph.parts]
    return [p.operation.activation.lut if p is not None and p.lut is not None else None for p in payloads]


def test_tables_lie_in_the_slots_in_turn_and_one_that_is_there_still_where_it_is() -> None:
    assert slots(with_table_slots(with_tables({0: 0, 1: 1, 2: 0, 4: 2}), DEVICE)) == [0, 1, 0, None, 2]


@pytest.mark.parametrize(("device", "length"), [("ethos-u55-32", LUT_SLOT), (DEFAULT, 8 * LUT_SLOT)])
def test_tables_stay_where_other_kernels_use_their_banks_or_there_is_no_other_slot(device: str, length: int) -> None:
    net = with_tables({0: 0, 1: 1}, device, length)
    assert with_table_slots(net, accelerator(device)) == net


def test_no_table_waits_for_a_kernel_and_the_network_computes_the_same() -> None:
    before = with_tables({0: 0, 1: 1, 2: 2, 4: 3})
    after = with_table_slots(before, DEVICE)
    programs = [lower(schedule_layer_by_layer(net, DEFAULT), early_tables=False) for net in (before, after)]
    waits = [sum(isinstance(op, KernelWait) for op in made.programs[0].operations) for made in programs]
    loads = [sum(isinstance(op, DmaOperation) for op in made.programs[0].operations) for made in programs]
    assert waits == [3, 0]
    assert loads == [4, 4]
    assert outputs(programs[0]) == outputs(programs[1])
    assert outputs(lower(schedule_layer_by_layer(after, DEFAULT))) == outputs(programs[0])
