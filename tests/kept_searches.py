"""Answers of the calls of a search, kept in a folder: a repeated call, by any process of the run, is answered at once.

A call is known by its function and the values of its arguments: another budget, network or memory asks anew. Tests of what is made of a
schedule share searches by this (``tests/conftest.py``). A test that compares two equal searches, or replaces a function of the search,
would see the first one twice: it asks for ``every_search_runs``.
"""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from cascader.ethosu.search import exhaustive, remote_calls
from cascader.ethosu.search.form import Form
from cascader.search import workers

KEPT = frozenset({
    remote_calls.outline, remote_calls.least_of_plans, remote_calls.least_bytes, remote_calls.unbounded, remote_calls.promise,
    remote_calls.at_limit, remote_calls.without_blocks, remote_calls.in_blocks, remote_calls.smallest, remote_calls.other_starts,
    remote_calls.less_room, remote_calls.change, remote_calls.replay, remote_calls.check, exhaustive.search_whole,
})  # fmt: skip
"""The calls of a search whose answers are kept: all but the making of forms."""

_MOST_FORMS = 64
"""Forms whose digests this process remembers, with the forms: a search has some twenty."""

_digests: OrderedDict[int, tuple[Form, bytes]] = OrderedDict()
_answers: dict[Path, Any] = {}


def _form_digest(form: Form) -> bytes:
    """The digest of all that decides what a form answers: the provenance but for its timing, and the name, are only said."""
    if id(form) not in _digests:
        facts = form.rank, form.network, form.accelerator, form.system, form.options, form.provenance.timing
        _digests[id(form)] = form, sha256(pickle.dumps(facts)).digest()
        if len(_digests) > _MOST_FORMS:
            _digests.popitem(last=False)
    return _digests[id(form)][1]


class _Kept(Struct, frozen=True):
    """A function whose answers are kept in a folder."""

    folder: Path
    function: Callable[..., Any]

    def __call__(self, *args: Any) -> Any:
        """The kept answer, or a new one; what is raised is not kept."""
        values = [_form_digest(one) if isinstance(one, Form) else one for one in args]
        try:
            place = self.folder / sha256(pickle.dumps((self.function.__name__, values))).hexdigest()
        except (pickle.PicklingError, AttributeError, TypeError):  # a test's own replay, such as one that counts
            return self.function(*args)
        if place not in _answers:
            try:
                _answers[place] = pickle.loads(place.read_bytes())
            except FileNotFoundError:
                _answers[place] = self.function(*args)
                own = place.with_suffix(f".{os.getpid()}")
                own.write_bytes(pickle.dumps(_answers[place]))
                own.replace(place)
        return _answers[place]


@contextmanager
def kept_searches(folder: Path) -> Iterator[None]:
    """Keep the answers of all searches meanwhile in a folder."""

    def kept(function: Callable[..., Any]) -> Callable[..., Any]:
        if isinstance(function, workers.Directed):
            return workers.Directed(kept(function.function), function.takers)
        return _Kept(folder, function) if function in KEPT else function

    def keeping(submit: Callable[..., Any]) -> Callable[..., Any]:
        return lambda executor, fn, *args: submit(executor, kept(fn), *args)

    with pytest.MonkeyPatch.context() as patch:
        for kind in (workers._Here, workers._Processes):
            patch.setattr(kind, "submit", keeping(kind.submit))
        yield
    _answers.clear()
    _digests.clear()
