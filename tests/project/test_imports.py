"""Imports stand at the head of a module, and no two modules need each other; what is put off goes by one stand-in."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

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


def stand_ins(file: str) -> Iterator[tuple[str, str]]:
    """The names and the modules that a module puts off."""
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "later":
            (target,), (argument,) = node.targets, node.value.args
            yield ast.unparse(target), ast.literal_eval(argument)


def test_imports_inside_functions_are_those_of_commands_and_of_what_cannot_stand_elsewhere() -> None:
    inner = {
        file
        for file in files()
        if not file.startswith(COMMANDS)
        for node in ast.walk(tree(file))
        if isinstance(node, ast.FunctionDef) and imports(node)
    }
    assert inner == set(INSIDE)


def test_what_a_stand_in_puts_off_is_imported_beside_it_for_the_type_checker() -> None:
    found = [(file, name, put_off) for file in files() for name, put_off in stand_ins(file)]
    assert found
    for file, name, put_off in found:
        package, _, last = put_off.rpartition(".")
        typed = [node for node in tree(file).body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
        aliases = {
            (ast.unparse(below).partition(" import ")[0].removeprefix("from "), one.name, one.asname or one.name)
            for block in typed
            for below in block.body
            if isinstance(below, ast.ImportFrom)
            for one in below.names
        }
        plain = {one.name for block in typed for below in block.body if isinstance(below, ast.Import) for one in below.names}
        assert (package, last, name) in aliases or put_off == name in plain, f"{file}: {name}"


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
    for path in (ROOT / name for name in files() if name.endswith("__init__.py")):
        for call in (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)):
            tables = [one for one in call.args if isinstance(one, ast.Dict)] if getattr(call.func, "id", "") == "front" else []
            for key, names in ((key, names) for table in tables for key, names in zip(table.keys, table.values, strict=True)):
                given = {one.value for one in ast.walk(names) if isinstance(one, ast.Constant)}
                assert not isinstance(key, ast.Constant) or str(key.value).rpartition(".")[2] not in given, path
