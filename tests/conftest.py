"""Settings of all tests: generated examples (the same in every run of CI), and work that most tests need not repeat.

Vela compiles the same network once in a run; a test of Vela's runs asks for the fixture ``every_vela_runs``. A refused budget is not
tried with other options, which takes longer than all else of such a test; a test of these asks for ``other_ways_are_tried``. Tests whose
subject is not the search ask for ``searches_are_kept``; all of tests/npu_testbed do, but for those that ask for ``every_search_runs``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import kept_searches
import pytest
from hypothesis import settings

from benchmarks.kept_vela import kept_child
from cascader.frontends.children import run_child
from cascader.frontends.vela import compiler
from npu_model.native import PACKAGES, SWITCH, native
from npu_testbed.searches import other_ways

# Tables are as wide as without a terminal, whatever runs the tests; whoever asks for a width sets it.
os.environ.pop("COLUMNS", None)

# The examples are the same in every run, so that a change fails for what it did; other ones are asked for by hand:
# `--hypothesis-profile home` tries new ones, what failed once first, and `thorough` a thousand of each test that names no number.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("home", deadline=None)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile("ci")


def pytest_sessionstart() -> None:
    """End the run in CI if a core is missing that nobody switched off: tests of the cores would be skipped, and a failed build not seen."""
    missing = [package for package in PACKAGES if native(package) is None]
    if os.environ.get("CI") and not os.environ.get(SWITCH) and missing:
        raise pytest.UsageError(
            f"CI is set, and the compiled cores of {', '.join(missing)} are missing: "
            f"run `python setup.py build_ext --inplace`, or set {SWITCH}=1 to test without them."
        )


def _folder_of_the_run(tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder that all processes of this run share: each has one of its own in that of the run."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / name
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session", autouse=True)
def kept_compilations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Vela is not asked again for what it has written, neither by this process nor by another one of the run."""
    folder = _folder_of_the_run(tmp_path_factory, "kept_compilations")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "run_child", partial(kept_child, folder))
        yield


@pytest.fixture(scope="module")
def searches_are_kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A search takes the answers of earlier ones of the run, call by call. It is for tests of what is made of a schedule."""
    with kept_searches.kept_searches(_folder_of_the_run(tmp_path_factory, "kept_searches")):
        yield


@pytest.fixture
def every_search_runs() -> Iterator[None]:
    """A search makes every call itself, for tests that compare two searches or look into one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_searches, "KEPT", frozenset())
        yield


TRIED = ("_ways", "smallest_reached")
"""Functions of :mod:`npu_testbed.searches.other_ways` on which a refusal's quick searches depend."""


@pytest.fixture(scope="session", autouse=True)
def no_other_ways() -> Iterator[dict[str, Callable[..., Any]]]:
    """A refusal names the bytes that were known before, without quick searches for the smallest arena or with other options."""
    whole = {name: getattr(other_ways, name) for name in TRIED}  # findings import the function that calls them
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(other_ways, "_ways", lambda *_, **__: iter(()))
        patch.setattr(other_ways, "smallest_reached", lambda *_: None)
        yield whole


@pytest.fixture
def other_ways_are_tried(no_other_ways: dict[str, Callable[..., Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal names the smallest arena and the options that meet the budget, as a user sees it."""
    for name, whole in no_other_ways.items():
        monkeypatch.setattr(other_ways, name, whole)


@pytest.fixture
def every_vela_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vela runs whenever it is asked, also for what it has compiled before."""
    monkeypatch.setattr(compiler, "run_child", run_child)
