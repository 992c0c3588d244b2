"""Forms and costs of other distributions: an entry point registers them, the search uses them, and a bad one is one sentence."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from asked_for import load_task
from command_line import call, refusal

import npu_testbed
from cascader.ethosu.forms import FormTerms, forms, own_forms
from cascader.ethosu.options import CascadeOptions
from npu_model import registered
from npu_model.errors import InputError
from npu_testbed.proofs.form_test import require_same_outputs

MODEL = "zoo:tiny_residual"
MODULE = "another_distribution"
CODE = """
from msgspec.structs import replace
from cascader.graph.cascader_graph import CascaderGraph
from cascader.ethosu.forms.own_forms import OwnForm
from cascader.ethosu.forms.transposed import transposed_in_place

def upright(network, terms):
    return transposed_in_place(network, terms.device, terms.staged)

def wrong(network, terms):
    made = upright(network, terms)
    last = made.graph.parts[-1]
    kernel = last.payload.operation
    kernel = replace(kernel, activation=replace(kernel.activation, maximum=kernel.activation.minimum))
    parts = (*made.graph.parts[:-1], replace(last, payload=replace(last.payload, operation=kernel)))
    return replace(made, graph=CascaderGraph(parts, made.graph.tensors))

def fails(network, terms):
    raise KeyError("no such tensor")

form = OwnForm(upright, ("zoo:tiny_residual",))
idle = OwnForm(lambda network, terms: network, ("zoo:tiny_residual",))
untested = OwnForm(upright, ())
spoiling = OwnForm(wrong, ("zoo:tiny_residual",))
failing = OwnForm(fails, ("zoo:tiny_residual",))
nothing = OwnForm(lambda network, terms: None, ("zoo:tiny_residual",))

def held(figures):
    return figures.arena_bytes * figures.cycles

def broken(figures):
    return figures.joules

number = 3
"""
Install = Callable[..., None]


def _forget() -> None:
    for cached in (registered.registered, own_forms.own_passes, own_forms.own_recipes):
        cached.cache_clear()
    sys.modules.pop(MODULE, None)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put a distribution with entry points on the path: GROUP="name=object"."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name: str = "other", **groups: str) -> None:
        folder = tmp_path / f"{name}-1.2.dist-info"
        folder.mkdir()
        (tmp_path / f"{MODULE}.py").write_text(CODE)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        lines = [f"[npu_testbed.{group}]\n{one.replace('=', f' = {MODULE}:')}\n" for group, one in groups.items()]
        (folder / "entry_points.txt").write_text("\n".join(lines))
        _forget()

    yield install
    _forget()


def _forms(**options: bool) -> list[str]:
    task = load_task(MODEL)
    return [one.name for one in forms(task.network, FormTerms(task.accelerator, task.system, CascadeOptions(**options)))]  # type: ignore[arg-type]


def test_a_registered_form_is_searched_and_named_in_the_schedule(install: Install) -> None:
    before = _forms()
    install(forms="upright=form")
    assert set(_forms()) - set(before) == {"upright"}
    assert _forms(own_forms=False) == before
    assert "upright" in _forms(few_forms=True)
    said: list[str] = []
    made = npu_testbed.schedule(MODEL, progress=said.append, jobs=1, no_advice=True)
    assert any("form upright" in sentence for sentence in said)
    assert ("other", "1.2") in made.schedule.provenance.tools
    assert npu_testbed.verify(made, model=MODEL).status == 0


def test_the_test_of_a_form_runs_its_networks(install: Install) -> None:
    install(forms="upright=form")
    require_same_outputs("upright")


@pytest.mark.parametrize(
    ("form", "sentence"),
    [("spoiling", f"changes the outputs of {MODEL}: a form keeps every output byte"), ("idle", f"finds nothing to do in {MODEL}: name a")],
)
def test_the_test_of_a_form_fails_if_it_changes_a_byte_or_finds_nothing_to_do(form: str, sentence: str, install: Install) -> None:
    install(forms=f"mine={form}")
    with pytest.raises(InputError, match=sentence):
        require_same_outputs("mine")


@pytest.mark.parametrize(
    ("point", "sentence"),
    [
        ("mine=missing", "cannot be loaded: AttributeError: "),
        ("mine=number", "is int: make it an OwnForm with the function of the pass."),
        ("mine=untested", "has no tests: name a network in which it finds something to do."),
        ("dense=form", "has the name of a form of npu-testbed: give it another name."),
        ("mine=failing", "failed: KeyError: "),
        ("mine=nothing", "returned NoneType: a pass returns a Network."),
    ],
)
def test_a_bad_form_is_one_sentence_that_names_its_distribution(point: str, sentence: str, install: Install, tmp_path: Path) -> None:
    install(forms=point)
    said = refusal("schedule", MODEL, "--jobs", "1", "-o", tmp_path / "s.json")
    name, _, target = point.partition("=")
    assert f"The form '{name}' of other 1.2 (entry point {MODULE}:{target})" in said
    assert sentence in said
    assert not (tmp_path / "s.json").exists()


def test_two_distributions_with_one_name_are_refused(install: Install, tmp_path: Path) -> None:
    install(forms="mine=form")
    install("third", forms="mine=form")
    assert "has the name of the form 'mine' of " in refusal("schedule", MODEL, "--jobs", "1", "-o", tmp_path / "s.json")


def test_a_registered_cost_is_an_option_and_chooses_as_the_function_does(install: Install, tmp_path: Path) -> None:
    install(costs="held=held")
    words = ("schedule", MODEL, "--arena-cache-size", "12000", "--jobs", "1", "--no-advice", "-o", tmp_path / "s.json", "--json")
    by_name = json.loads(call(*words, "--cost", "held").output)
    said = {"arena_cache_size": 12000, "jobs": 1, "no_advice": True}
    by_function = npu_testbed.schedule(MODEL, cost=lambda one: one.arena_bytes * one.cycles, **said)
    fastest = npu_testbed.schedule(MODEL, **said)
    assert (by_name["arena_bytes"], by_name["cycles"]) == (by_function.arena_bytes, by_function.cycles)
    assert by_name["cycles"] > fastest.cycles
    assert npu_testbed.schedule(MODEL, cost="held", **said).cycles == by_name["cycles"]


@pytest.mark.parametrize(
    ("point", "asked", "sentence"),
    [
        ("held=held", "heldd", "The cost 'heldd' is not registered (did you mean held?): choose held."),
        ("held=number", "held", "is int: make it a function of npu_testbed.Figures."),
        ("held=broken", "held", "failed: AttributeError: "),
    ],
)
def test_a_bad_cost_is_one_sentence(point: str, asked: str, sentence: str, install: Install, tmp_path: Path) -> None:
    install(costs=point)
    assert sentence in refusal("schedule", MODEL, "--cost", asked, "--jobs", "1", "-o", tmp_path / "s.json")


def test_without_a_registration_there_is_none(tmp_path: Path) -> None:
    _forget()
    assert "install a distribution with an entry point in npu_testbed.costs." in refusal(
        "schedule", MODEL, "--cost", "held", "-o", tmp_path / "s.json"
    )
