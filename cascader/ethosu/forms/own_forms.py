"""Forms of other distributions: an entry point names a pass, and the search tries it after ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from msgspec import Struct

from cascader.ethosu.forms.passes import AGAIN, PASSES, Pass, PassTerms
from cascader.ethosu.forms.table import END, FORMS, Recipe
from cascader.ethosu.network.network import Network
from npu_model import registered as points
from npu_model.errors import InputError
from npu_model.registered import Registered, failed


class OwnForm(Struct, frozen=True):
    """A form that another distribution registers: the object of an entry point in :data:`npu_model.registered.FORMS`.

    - ``run`` returns the network in other kernels, or the network itself if it finds nothing to do. All output bytes stay the same.
    - ``tests`` are sources of networks, such as ``zoo:tiny_residual``, in which it finds something to do. The test of the form,
      :func:`npu_testbed.proofs.form_test.require_same_outputs`, runs each of them.
    - ``smaller``: the form is there for its bytes, and is searched only if it holds fewer than the others.
    """

    run: Callable[[Network, PassTerms], Network]
    tests: tuple[str, ...]
    smaller: bool = False


def load_form(one: Registered) -> OwnForm:
    """The form of an entry point; InputError if the object is not a form, or has the name of one of ours."""
    found = one.load()
    if not isinstance(found, OwnForm) or not callable(found.run):
        raise InputError(f"The {one.description} is {type(found).__name__}: make it an OwnForm with the function of the pass.")
    if not found.tests:
        raise InputError(f"The {one.description} has no tests: name a network in which it finds something to do.")
    if one.name in PASSES or one.name.startswith(AGAIN) or one.name in {form.name for form in FORMS}:
        raise InputError(f"The {one.description} has the name of a form of npu-testbed: give it another name.")
    return found


def _guarded(one: Registered, form: OwnForm) -> Pass:
    """The pass of a form. Any exception in it becomes one sentence."""

    def run(network: Network, terms: PassTerms) -> Network:
        try:
            made = form.run(network, terms)
        except Exception as error:  # noqa: BLE001  # the code is another's
            raise failed(one, error) from None
        if not isinstance(made, Network):
            raise InputError(f"The {one.description} returned {type(made).__name__}: a pass returns a Network.")
        return made

    return Pass(run, ("own_forms",))


@cache
def own_passes() -> dict[str, Pass]:
    """The passes of registered forms by their names."""
    return {name: _guarded(one, load_form(one)) for name, one in points.registered(points.FORMS).items()}


@cache
def own_recipes() -> tuple[Recipe, ...]:
    """The registered forms: the pass after those that all forms begin with, then the densest layout and coarse slices.

    A quick search has them too, because a user who registers a form wants it.
    """
    return tuple(
        Recipe(name, (name, *END), needs=name, smaller=load_form(one).smaller, common=True)
        for name, one in points.registered(points.FORMS).items()
    )


def pass_of(name: str) -> Pass:
    """The pass with a name, ours or another distribution's."""
    return PASSES[name] if name in PASSES else own_passes()[name]
