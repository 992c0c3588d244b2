"""Imports stand at the head of a module, and no two modules need each other; what is put off goes by one stand-in."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from threading import Event, Thread

import pytest

from npu_model.front import later

ROOT = Path(__file__).parents[2]
PACKAGES = ("npu_model", "cascader", "sim", "validation", "npu_testbed")
COMMANDS = "npu_testbed/commands/"
"""Commands import what they need when they run, so that --help and --version answer at once."""

INSIDE = {
    "cascader/frontends/parent_watch.py": "the text of the module is run by itself in a child",
    "npu_model/weight_stream/weights.py": "an extension of Vela, which Vela 6 drops",
    "npu_testbed/__main__.py": "nothing of ours is imported before it is known to be ours",
    "validation/calibrate/solver.py": "an optional package, whose absence has a sentence",
    "validation/silicon/programs.py": "an optional package, whose absence has a sentence",
    "validation/vela/branching.py": "the text of the module is run by itself in a child",
    "validation/vela/supported.py": "an optional package, whose absence has a sentence",
}
"""Modules with an import inside a function, and why it stands there."""

FRONTS = {"cascader", "cascader.frontends.vela", "npu_testbed"}
"""Packages whose names are imported from their modules when they are asked for: what these modules import of the package is no circle."""


def files() -> list[str]:
    return [path.relative_to(ROOT).as_posix() for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


@cache
def tree(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


def module(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported(node: ast.AST) -> Iterator[str]:
    """The modules, or names that may be modules, that a statement imports."""
    if isinstance(node, ast.Import):
        yield from (name.name for name in node.names)
    if isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{name.name}" for name in node.names)


def imports(node: ast.AST) -> set[str]:
    return {name for below in ast.walk(node) for name in imported(below)}


def put_off(file: str, by: str) -> list[ast.stmt]:
    """The statements in a module's blocks of ``front()`` or ``later()``."""
    blocks = [node for node in tree(file).body if isinstance(node, ast.With)]
    return [below for block in blocks if ast.unparse(block.items[0].context_expr) == f"{by}()" for below in block.body]


def test_imports_inside_functions_are_those_of_commands_and_of_what_cannot_stand_elsewhere() -> None:
    inner = {
        file
        for file in files()
        if not file.startswith(COMMANDS)
        for node in ast.walk(tree(file))
        if isinstance(node, ast.FunctionDef) and imports(node)
    }
    assert inner == set(INSIDE)


def test_what_is_put_off_are_imports_of_modules_and_a_front_renames_nothing() -> None:
    names = {module(file) for file in files()}
    later_ones = [(file, below) for file in files() for below in put_off(file, "later")]
    assert later_ones
    for file, below in later_ones:
        assert isinstance(below, (ast.Import, ast.ImportFrom)), file
        assert {name for name in imported(below) if name.partition(".")[0] in PACKAGES} <= names, f"{file}: {ast.unparse(below)}"
    for file in files():
        for below in put_off(file, "front"):
            assert isinstance(below, ast.ImportFrom), file
            assert not any(one.asname for one in below.names), file


def test_a_block_loads_nothing_and_other_threads_load_as_always() -> None:
    loaded: list[object] = []
    with later():
        import nowhere  # type: ignore[import-not-found]  # noqa: PLC0415  # it is a stand-in

        thread = Thread(target=lambda: loaded.append(__import__("npu_model.shapes")))
        thread.start()
        thread.join()
    assert loaded == [sys.modules["npu_model"]]
    assert repr(nowhere) == "later('nowhere')"
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        _ = nowhere.name


def test_blocks_of_two_threads_that_overlap_leave_imports_as_they_were() -> None:
    entered, left, plain = Event(), Event(), builtins.__import__

    def other() -> None:
        with later():
            entered.set()
            left.wait(10)

    thread = Thread(target=other)
    with later():
        thread.start()
        entered.wait(10)
    left.set()
    thread.join()
    found = __import__("npu_model.shapes")
    vars(builtins)["__import__"] = plain
    assert found is sys.modules["npu_model"]


def circle(edges: dict[str, set[str]]) -> list[str]:
    """Modules each of which imports the next one, and the last the first; none if there are none."""
    done: set[str] = set()

    def follow(name: str, way: list[str]) -> list[str]:
        if name in way:
            return way[way.index(name) :]
        if name not in done:
            for other in sorted(edges[name]):
                if found := follow(other, [*way, name]):
                    return found
            done.add(name)
        return []

    return next((found for name in sorted(edges) if (found := follow(name, []))), [])


def test_no_module_needs_one_that_needs_it_not_even_for_its_types() -> None:
    names = {module(file) for file in files()}
    edges = {}
    for file in files():
        own = module(file)
        asked = {name if name in names else name.rpartition(".")[0] for name in imports(tree(file))}
        edges[own] = (asked & names) - {own} if own not in FRONTS else set()
    assert circle(edges) == []


@pytest.mark.parametrize(
    ("edges", "found"), [({"a": {"b"}, "b": {"c"}, "c": {"b"}}, ["b", "c"]), ({"a": {"b", "c"}, "b": {"c"}, "c": set()}, [])]
)
def test_a_circle_is_found(edges: dict[str, set[str]], found: list[str]) -> None:
    assert circle(edges) == found


def test_no_front_has_a_name_that_is_its_modules_own() -> None:
    """Importing the module sets that attribute of the package to the module, so that who asks later gets no function."""
    fronts = [(file, below) for file in files() for below in put_off(file, "front")]
    assert len(fronts) > 10
    for file, below in fronts:
        assert isinstance(below, ast.ImportFrom)
        assert str(below.module).rpartition(".")[2] not in {one.name for one in below.names}, file
