"""The table of forms: what is made of some networks, by its golden listing, and that every form of the table is made of one of them."""

from __future__ import annotations

import sys
from collections import Counter
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
from asked_for import system_said
from msgspec.structs import fields

from cascader.ethosu.forms.making import FormTerms, MadeForm, forms
from cascader.ethosu.forms.passes import AGAIN, PASSES
from cascader.ethosu.forms.table import FORMS
from cascader.ethosu.options import CascadeOptions
from cascader.frontends.vela import import_network
from npu_testbed.models.sources import load_model

GOLDEN = Path(__file__).parents[3] / "golden" / "forms.txt"
DEVICE = "ethos-u55-128"
NETWORKS = ("zoo:tiny_residual", "zoo:ds_cnn", "zoo:unet", *(f"portfolio:{name}" for name in ("mnist", "siamese_batch", "wavenet")))
NETWORKS += tuple(f"portfolio:{name}" for name in ("conv_mean_rows_conv", "mean_of_rows", "mean_at_ends", "odd_sizes", "drawn_1004"))


@cache
def forms_of(name: str) -> tuple[MadeForm, ...]:
    return forms(import_network(load_model(name).data, DEVICE), FormTerms(DEVICE, system_said()))


def listed(name: str) -> str:
    """A line a form: its parts, and the bytes of its tensors and of its constants."""
    lines = [name]
    for form in forms_of(name):
        size = sum(tensor.size for tensor in form.network.graph.tensors)
        parts, constants = len(form.network.graph.parts), len(form.network.constants)
        lines.append(f"  {form.name:<40}{parts:4} parts{size:9} {constants:7} bytes{' if smaller' if form.smaller else ''}")
    return "\n".join(lines) + "\n"


def test_the_forms_of_some_networks_are_those_of_the_golden_listing() -> None:
    # After a change of the forms: python tests/cascader/ethosu/forms/test_table.py > tests/golden/forms.txt, and read what changed.
    assert "".join(map(listed, NETWORKS)) == GOLDEN.read_text(encoding="utf-8")


def test_every_name_in_the_table_is_that_of_a_pass_and_no_form_has_the_name_of_another() -> None:
    for form in FORMS:
        assert all(name in PASSES or name.startswith(AGAIN) for name in (*form.begins, *form.passes, *([form.needs] if form.needs else [])))
    assert max(Counter(form.name for form in FORMS).values()) == 1


def test_every_pass_is_used_and_every_switch_of_a_pass_is_an_option() -> None:
    assert set(PASSES) <= set(chain.from_iterable((*form.begins, *form.passes) for form in FORMS))
    assert {name for one in PASSES.values() for name in one.switches} <= {option.name for option in fields(CascadeOptions)}


def test_with_every_switch_off_a_network_has_one_form_the_one_that_it_came_in() -> None:
    off = {name: False for one in PASSES.values() for name in one.switches} | {"dense": 0}
    network = import_network(load_model("zoo:ds_cnn").data, DEVICE)
    (only,) = forms(network, FormTerms(DEVICE, system_said(), CascadeOptions(**off, recompute=1)))  # type: ignore[arg-type]
    assert (only.name, only.network) == ("bricks", network)


RARE = {"recomputed 3", "columns in bricks, small slices", "dense columns"}
RARE |= {f"recomputed {number} denser" for number in (1, 2, 3)}
# of networks that take some seconds


def test_the_listed_networks_have_every_form_but_the_rare_ones() -> None:
    assert {form.name for form in FORMS} - {form.name for name in NETWORKS for form in forms_of(name)} <= RARE


@pytest.mark.parametrize("name", NETWORKS)
def test_no_two_forms_of_a_network_are_equal(name: str) -> None:
    found = [form.network for form in forms_of(name)]
    assert all(one not in found[:number] for number, one in enumerate(found))


if __name__ == "__main__":
    sys.stdout.write("".join(map(listed, NETWORKS)))
