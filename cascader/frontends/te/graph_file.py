"""A graph from a user's Python file, ``GRAPH.py:make_graph``. The file is the user's own code, and it is run."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType

from cascader.frontends.te.graph import Graph, graph_of
from cascader.tensorir.compat import load
from npu_model.errors import InputError
from npu_model.printable import printable, shown

_SUFFIX = ".py"
_FORM = "(inputs, outputs, constants)"


def graph_from_file(source: str) -> Graph:
    """The graph that a function of a file makes: it returns inputs, outputs and a dictionary of constants, or a :class:`Graph`.

    The file runs as with ``python FILE``, with its folder first on the path. InputError if TVM or the file is missing, if the file or the
    function raises, or if the result is no graph.
    """
    path, _, name = source.rpartition(":")
    if not path:
        raise InputError(f"{shown(source)} names no function: write {shown(f'{source}:make_graph')}, of a function without arguments.")
    load()
    module = _module(Path(path))
    function = getattr(module, name, None)
    if not callable(function):
        raise InputError(f"{shown(path)} has no function {name!r}: define it without arguments, to return {_FORM}.")
    try:
        with _beside(Path(path)):
            made = function()
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{shown(source)} raised {_said(error)}: correct it.") from error
    return _graph(source, made)


def _module(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(f"Graph {shown(str(path))} is not a file: give a Python file and its function, as in net.py:make_graph.")
    spec = importlib.util.spec_from_file_location(f"_graph_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"Graph {shown(str(path))} cannot be read as Python: give a file that ends in {_SUFFIX}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        with _beside(path):
            spec.loader.exec_module(module)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{shown(str(path))} raised {_said(error)}: correct it.") from error
    finally:
        sys.modules.pop(spec.name, None)
    return module


@contextmanager
def _beside(path: Path) -> Iterator[None]:
    """Put the folder of a file first on the path, as for a script, then the working folder. No byte code is written there.

    The console script of an installed package has no working folder on its path, but ``python -m`` has. What the file prints goes to
    standard error, because standard output is the command's. The working folder is the same afterwards.
    """
    working, written = Path.cwd(), sys.dont_write_bytecode
    folders = [str(path.resolve().parent), str(working)]
    sys.path[:0] = folders
    sys.dont_write_bytecode = True
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.chdir(working)
        sys.dont_write_bytecode = written
        for folder in folders:
            if folder in sys.path:
                sys.path.remove(folder)


def _said(error: BaseException) -> str:
    """A short description of an exception."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {printable(lines[-1] if lines else 'no message', 200).rstrip('.')}"


def _graph(source: str, made: object) -> Graph:
    """The graph that a function returned; InputError if it returned something else."""
    if isinstance(made, Graph):
        return made
    if not isinstance(made, tuple) or len(made) not in (2, 3) or (len(made) == 3 and not isinstance(made[2], dict)):
        raise InputError(f"{shown(source)} returned {type(made).__name__} where {_FORM} is expected: return these three.")
    tensor = load().te.Tensor
    found = graph_of(*made)
    for what, tensors in (("inputs", found.inputs), ("outputs", found.outputs), ("constants", tuple(found.constants))):
        other = next((one for one in tensors if not isinstance(one, tensor)), None)
        if other is not None or (what != "constants" and not tensors):
            kind = "nothing" if other is None else type(other).__name__
            raise InputError(f"{shown(source)} returned {kind} among the {what}: tensor expressions are expected there.")
    return found
