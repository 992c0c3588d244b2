"""Block depths of the forms of a network: those for constants from anywhere, and those for staged ones, where they differ."""

from __future__ import annotations

from asked_for import system_said
from form_variants import variants

from cascader.ethosu.network.network import ethosu_part
from cascader.ethosu.options import DEFAULT_OPTIONS
from cascader.frontends.vela import import_network
from validation.portfolio import build

DEVICE = "ethos-u55-256"


def depths(name: str, layer: str) -> list[int]:
    """The depths of the blocks of a layer in the forms that have it in one piece."""
    forms = variants(import_network(build(name), DEVICE), DEVICE, system_said(), DEFAULT_OPTIONS)
    found = [ethosu_part(part) for form in forms for part in form.graph.parts if part.name == layer]
    return [payload.operation.block.depth for payload in found if payload is not None]


def test_a_small_network_is_searched_in_the_depths_that_are_best_for_staged_constants_too() -> None:
    """On 256 MACs a block of 32 channels reads its weights twice, which costs only what is staged little."""
    assert set(depths("middle_outputs", "conv2d_3")) == {16, 32}


def test_a_network_whose_depths_do_for_both_has_one_form_for_each_layout_and_one_in_the_blocks_that_it_came_with() -> None:
    """It reads its weights longer than it computes, so that it is searched in no pieces and no other blocks, too."""
    assert len(depths("channels_17", "conv2d_2")) == 3
