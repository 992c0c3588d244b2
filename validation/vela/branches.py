"""Compilations by Vela's Python core that differ only in their limit: work that does not depend on it is done once.

The core reads a network, optimises it, codes its weights and plans it before it first asks for the bytes that its schedule may take. There
its process is copied, once for each limit, and each copy continues as if it were alone, so it writes the same files.
"""

from __future__ import annotations

import inspect
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from math import ceil
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cascader.frontends.children import GUARD, LIMITS
from cascader.frontends.folders import own_folder
from cascader.frontends.vela.compiler import (
    MEMORY_BYTES,
    child,
    compile_network,
    failure,
    read_model,
    read_result,
    unfinished,
    vela_version,
)
from cascader.frontends.vela.compiler_options import CompilerOptions
from cascader.frontends.vela.direct import ARENA_LIMIT
from cascader.frontends.vela.result import CORES, VelaResult
from cascader.frontends.vela_timeout import time_limit
from npu_model.errors import InputError, UnfinishedError
from validation.vela import branching
from validation.vela.branching import STREAMS

_VERSION = "5.2"

_LAUNCH = f"""{inspect.getsource(branching)}

{GUARD}
import runpy
base = os.getcwd()
end_with_parent(base)
{LIMITS}
Branches(base, sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3]), lambda: end_with_parent(base)).prepare()
del sys.argv[1:4]
runpy.run_module("ethosu.vela", run_name="__main__", alter_sys=True)
"""
"""Program of the child, which runs Vela's command line."""


class Limit(Struct, frozen=True):
    """The terms of one compilation: its strategy, by Vela's name, and its arena in bytes (None: Vela's default)."""

    optimise: str
    arena_cache_size: int | None = None

    def of(self, options: CompilerOptions) -> CompilerOptions:
        """The options with these terms in the place of their own."""
        return replace(options, optimise=self.optimise, arena_cache_size=self.arena_cache_size)


def can_branch(limits: Sequence[Limit]) -> bool:
    """Whether these limits are worth one process, the way of this Vela is known, and this system has copies of processes.

    As for our own processes, only Linux promises that libraries work in a copy.
    """
    sizes = [limit.arena_cache_size or ARENA_LIMIT for limit in limits]
    return len(limits) > 1 and max(sizes) <= ARENA_LIMIT and sys.platform == "linux" and vela_version().startswith(_VERSION)


def _status(folder: Path) -> int | None:
    """The exit status of the copy with this folder; None if it did not begin, or was abandoned."""
    file = folder / "status"
    return int(file.read_text(encoding="ascii")) if file.is_file() else None


def _result(folder: Path, model: bytes, status: int, said: tuple[str, str], timeout: float) -> VelaResult | InputError:
    """The result of a copy that has ended, or why there is none; ``said`` is Vela's output before it was copied."""
    if status == -signal.SIGALRM:
        return unfinished(timeout)
    output, errors = (
        before + (folder / name).read_text(encoding="utf-8", errors="replace") for before, name in zip(said, STREAMS, strict=True)
    )
    try:
        return failure(status, errors + output) if status else read_result(folder, read_model(model), vela_version(), CORES[1])
    except InputError as error:
        return error


def _branched(model: bytes, options: CompilerOptions, limits: Sequence[Limit], at_once: int) -> tuple[VelaResult | InputError, ...] | None:
    """The results of one process at some limits; None if it ends before the first limit counts, InputError if one of them is wrong."""
    read_model(model)
    python = replace(options, legacy=True)
    for limit in limits:
        limit.of(python).words()
    timeout = time_limit()
    with own_folder() as folder:
        (folder / "network.tflite").write_bytes(model)
        texts = [f"{limit.optimise}:{limit.arena_cache_size or ''}" for limit in limits]
        words = [
            sys.executable,
            "-c",
            _LAUNCH,
            str(MEMORY_BYTES),
            str(2 * ceil(timeout)),
            ",".join(texts),
            str(at_once),
            str(ceil(timeout)),
        ]
        words += ["network.tflite", "--output-dir", "out", *Limit(limits[0].optimise).of(python).words()]
        try:
            process = child(words, folder, timeout * (1 + len(limits)))
        except UnfinishedError as error:
            return (error,) * len(limits)
        if process.returncode == -signal.SIGALRM:
            return (unfinished(timeout),) * len(limits)
        folders = [folder / str(number) for number in range(len(limits))]
        found = [status for status in map(_status, folders) if status is not None]
        if len(found) < len(limits):
            return None
        said = process.stdout, process.stderr
        return tuple(_result(at, model, status, said, timeout) for at, status in zip(folders, found, strict=True))


def _alone(model: bytes, options: CompilerOptions) -> VelaResult | InputError:
    try:
        return compile_network(model, options)
    except InputError as error:
        return error


def compile_at(
    model: bytes, options: CompilerOptions, limits: Sequence[Limit], core: str, at_once: int = 1
) -> tuple[VelaResult | InputError, ...]:
    """Return for each limit the result of :func:`compile_network` on a core, or its error.

    The Python core compiles ``at_once`` of them at a time. The limits and the core replace the ``options``' own.
    """
    found = None
    if core == CORES[1] and can_branch(limits):
        # Errors in a model or a name are reported one by one.
        with suppress(InputError):
            found = _branched(model, options, limits, at_once)
    of_core = replace(options, legacy=core == CORES[1])
    return found or tuple(_alone(model, limit.of(of_core)) for limit in limits)
