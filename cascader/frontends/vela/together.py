"""Several compilations of one model by Vela's C++ core, in one process that runs while the caller does something else."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from cascader.frontends.children import nothing
from cascader.frontends.folders import own_folder
from cascader.frontends.vela import direct
from cascader.frontends.vela.compiler import (
    COMPILED,
    child,
    for_vela,
    limits_of,
    read_model,
    read_result,
    said_in,
    vela_version,
    write_terms,
)
from cascader.frontends.vela.compiler_options import CompilerOptions
from cascader.frontends.vela.direct import DirectCall, direct_call
from cascader.frontends.vela.result import CORES, Known, VelaResult
from cascader.frontends.vela_timeout import time_limit
from npu_model.errors import InputError, UnfinishedError
from npu_model.tflite.identifiers import is_tosa

if TYPE_CHECKING:
    from npu_model.tflite.model import TfliteModel


def _unused(known: Known) -> None:
    """The default of ``first``."""


def compile_together(
    model: bytes,
    options: Sequence[CompilerOptions],
    meanwhile: Callable[[], object] = nothing,
    first: Callable[[Known], object] = _unused,
) -> Known:
    """Compile a .tflite ``model`` with each of the options, in one process. ``meanwhile`` is called once the process runs.

    ``first`` gets the first compilation if it is there before one of the others, which go on. Compilations that the process cannot make
    are left out: :func:`cascader.frontends.vela.compile_network` makes them by Vela's command line, or says why it cannot.
    """
    calls = {} if is_tosa(model) else {one: call for one in options if (call := direct_call(one)) is not None}
    if not calls:
        meanwhile()
        return {}
    with own_folder() as folder:
        return _Calls(model, calls, folder).results(meanwhile, first)


class _Calls:
    """Compilations of a model by some calls, each in a folder of its own in ``folder``."""

    def __init__(self, model: bytes, calls: Mapping[CompilerOptions, DirectCall], folder: Path) -> None:
        self._model, self._folder = model, folder
        self._folders = {one: folder / str(number) for number, one in enumerate(calls)}
        (folder / "network.tflite").write_bytes(for_vela(model))
        for one, own in self._folders.items():
            own.mkdir()
            write_terms(own, calls[one])
        self._timeout = time_limit()
        words = {own.name: calls[one] for one, own in self._folders.items()}
        self._command = direct.command(words, limits_of(self._timeout * len(calls)))

    @cached_property
    def _parsed(self) -> TfliteModel:
        return read_model(self._model)

    def _is_done(self, one: CompilerOptions) -> bool:
        return (self._folders[one] / COMPILED).is_file()

    def _result(self, one: CompilerOptions) -> VelaResult:
        own = self._folders[one]
        return read_result(own, self._parsed, vela_version(), CORES[0], said_in(own), one.cpu_operators)

    def results(self, meanwhile: Callable[[], object], first: Callable[[Known], object]) -> Known:
        """The compilations that were made, or did not end in time."""
        deadline = time.monotonic() + self._timeout

        def look() -> None:
            meanwhile()
            leading, *others = self._folders
            with suppress(InputError):
                _ = self._parsed  # it is needed once a call has ended
            while not self._is_done(leading) and _a_child_runs() and time.monotonic() < deadline:
                time.sleep(_LOOK)
            if self._is_done(leading) and not all(map(self._is_done, others)):
                with suppress(InputError):
                    first({leading: self._result(leading)})

        late: UnfinishedError | None = None
        try:
            child(self._command, self._folder, self._timeout, look, len(self._folders))
        except UnfinishedError as error:
            late = error
        known: dict[CompilerOptions, VelaResult | UnfinishedError] = {}
        with suppress(InputError):  # The caller that needs a missing result gets Vela's reason when it compiles the model itself.
            for one in self._folders:
                if self._is_done(one):
                    known[one] = self._result(one)
                elif late is not None:
                    known[one] = late
        return known


_LOOK = 0.002
"""Seconds after which the first compilation is looked for again."""


def _a_child_runs() -> bool:
    """Whether this process has children and none of them has ended; False where the system does not say so."""
    if sys.platform != "linux":
        return False
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False
