"""One meaning a word: a public class has a name of its own, and the glossary lists the few names that two still share."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("npu_model", "cascader", "sim", "validation", "npu_testbed")
NOBODYS = re.compile(r"errand|luggage|wish|\bhow\b|kept", re.IGNORECASE)
"""Words of nobody's: names of classes and files that no engineer would look for."""


def glossary() -> str:
    return (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


def classes() -> dict[str, list[str]]:
    """The modules of each public class name."""
    found: dict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(path.relative_to(ROOT).with_suffix("").as_posix())
    return found


def listed() -> dict[str, list[str]]:
    """The names of the glossary's second table, each with its modules."""
    table = glossary().partition("## Names that two classes share")[2].partition("## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("| `")]
    return {name.strip("`"): sorted(re.findall(r"`([^`]+)`", places)) for name, places in rows}


def test_a_name_of_a_class_has_one_meaning_or_stands_in_the_glossary() -> None:
    shared = {name: sorted(places) for name, places in classes().items() if len(places) > 1}
    known = listed()
    assert {name: places for name, places in shared.items() if not set(places) <= set(known.get(name, []))} == {}


def test_no_file_says_no_more_than_that_it_reports() -> None:
    assert [
        path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path.stem in {"report", "utils", "helpers", "misc"}
    ] == []


def test_no_class_and_no_module_has_a_word_of_nobodys() -> None:
    modules = {path.stem for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert [name for name in sorted({*classes(), *modules}) if NOBODYS.search(re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name))] == []


def test_each_word_of_the_glossary_has_one_row() -> None:
    table = glossary().partition("## ")[0]
    words = [word for line in table.splitlines() if line.startswith("| ") for word in re.split(r",\s*", line.split("|")[1].strip())]
    assert len(words) == len(set(words))


CONTAINERS = {"Mapping", "dict", "Sequence", "list", "tuple", "Iterable", "Iterator", "frozenset", "set", "Annotated", "None", "Any"}
"""Names of types that say nothing of the values within, or hold them."""


def kinds() -> dict[str, set[str]]:
    """The words of the glossary's third table, each with the types that its values may have."""
    table = glossary().partition("## Words with one kind of value")[2].partition("## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("| `")]
    return {word.strip("`"): set(re.findall(r"`(\w+)`", types)) for word, _, types in rows}


def value_types(annotation: ast.expr) -> set[str]:
    """The names of the types of the values that an annotation allows; of a mapping, its values alone."""
    if isinstance(annotation, ast.Subscript):
        inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        keyed = ast.unparse(annotation.value) in {"Mapping", "dict"}
        first = ast.unparse(annotation.value) == "Annotated"
        return set().union(*(value_types(one) for one in (inner[-1:] if keyed else inner[:1] if first else inner)))
    if isinstance(annotation, ast.BinOp):
        return value_types(annotation.left) | value_types(annotation.right)
    name = ast.unparse(annotation).rpartition(".")[2]
    return {name} - CONTAINERS if name.isidentifier() else set()


WORDS = ("place", "home", "limit", "form", "step")


@cache
def named() -> dict[str, dict[str, set[str]]]:
    """By word, the types of all parameters and fields that have the word, or its plural, as their whole name, by module."""
    found: dict[str, dict[str, set[str]]] = {word: defaultdict(set) for word in WORDS}
    names = {name: word for word in WORDS for name in (word, f"{word}s")}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if not re.search(r"\b(?:" + "|".join(names) + r")\s*:", text):
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.arg):
                    name, annotation = node.arg, node.annotation
                elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    name, annotation = node.target.id, node.annotation
                else:
                    continue
                if name in names and annotation is not None:
                    found[names[name]][path.relative_to(ROOT).as_posix()] |= value_types(annotation)
    return found


@pytest.mark.parametrize("word", WORDS)
def test_a_word_names_one_kind_of_value_in_all_packages(word: str) -> None:
    found, allowed = named()[word], kinds()[word]
    assert {path: sorted(types - allowed) for path, types in found.items() if types - allowed} == {}
    assert allowed == set().union(*found.values()), "a type that the glossary allows and no value has"


def test_types_of_values_are_read_from_annotations() -> None:
    assert value_types(ast.parse("Mapping[str, Sequence[tuple[Form, int]]] | None", mode="eval").body) == {"Form", "int"}
    assert value_types(ast.parse("kinds.Homes", mode="eval").body) == {"Homes"}
