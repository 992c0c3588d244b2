"""The region of tensors that a search moves out of the arena: behind all that an operator hands on, or with the homes of its memory."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from scheduling import network

from cascader.ethosu.network.homes import FIRST_HOME, Home, spill_home, with_homes
from cascader.ethosu.network.network import Segment
from cascader.ethosu.network.wanted_homes import Wanted
from cascader.graph.cascader_graph import TensorKind
from npu_model.errors import InputError

NET = network("tiny_residual")
(SEGMENT,) = NET.segments
HANDED_ON = len(SEGMENT.inputs) + len(SEGMENT.outputs)


def handing_on(inputs: int, outputs: int) -> Segment:
    """The job of the network with so many inputs and outputs, all like its own."""
    return replace(SEGMENT, inputs=SEGMENT.inputs[:1] * inputs, outputs=SEGMENT.outputs[:1] * outputs)


def test_spilled_tensors_lie_behind_all_inputs_and_outputs() -> None:
    assert spill_home(NET, "ext", 1) == Home("", FIRST_HOME + HANDED_ON, "ext", 1)
    wider = replace(NET, segments=(handing_on(1, 1), handing_on(2, 2)))
    assert spill_home(wider, "ext", 1).region == FIRST_HOME + 4


def test_spilled_tensors_share_the_region_of_a_home_in_their_memory_and_else_take_the_next() -> None:
    following = FIRST_HOME + HANDED_ON
    net = replace(NET, homes=(Home("a", following, "flash", 1), Home("b", FIRST_HOME, "ext", 1)))
    assert spill_home(net, "flash", 1).region == following
    assert spill_home(net, "ext", 1).region == following + 1


def test_a_spill_that_has_no_base_pointer_left_shares_the_region_of_homes_in_its_memory_and_is_refused_beside_others() -> None:
    net = replace(NET, segments=(handing_on(3, 2),))
    assert spill_home(net, "ext", 1) == Home("", FIRST_HOME, "ext", 1)
    with pytest.raises(InputError, match="--spill ext needs base pointer 8: the NPU has 0 to 7"):
        spill_home(replace(net, homes=(Home("a", FIRST_HOME, "flash", 1),)), "ext", 1)


def test_homes_without_base_pointers_of_their_own_lie_one_behind_the_other_in_one_region() -> None:
    outputs = tuple(tensor.name for tensor in NET.graph.tensors if tensor.kind is TensorKind.INTERMEDIATE)[:2]
    crowded = (*SEGMENT.inputs * 6, *(replace(SEGMENT.outputs[0], tensor=name) for name in outputs))
    net = replace(NET, segments=(replace(SEGMENT, inputs=crowded),))
    found = with_homes(net, [Wanted(what, "ext", 1) for what in (NET.inputs[0].tensor, *outputs)]).homes
    sizes = [NET.graph.tensor(home.tensor).size for home in found]
    assert {home.region for home in found} == {FIRST_HOME}
    assert [home.address for home in found] == [0, sizes[0], sizes[0] + sizes[1]]
    with pytest.raises(InputError, match="The homes need base pointer 10"):
        with_homes(net, [Wanted(NET.inputs[0].tensor, "flash", 1), *(Wanted(what, "ext", 1) for what in outputs)])
