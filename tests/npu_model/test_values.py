"""Values: what they do is what their dataclasses do."""

from __future__ import annotations

import ast
import copy
import dataclasses
import pickle
import sys
from dataclasses import FrozenInstanceError, field
from pathlib import Path

import pytest

import npu_model
from npu_model.values import dataclass


@dataclass(frozen=True, slots=True)
class Ours:
    """One value."""

    name: str
    size: int = 3
    parts: list[int] = field(default_factory=list, compare=False)
    hidden: str = field(default="h", repr=False)
    double: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "double", 2 * self.size)


@dataclasses.dataclass(frozen=True, slots=True)
class Theirs:
    """The same of the library."""

    name: str
    size: int = 3
    parts: list[int] = field(default_factory=list, compare=False)
    hidden: str = field(default="h", repr=False)
    double: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "double", 2 * self.size)


@dataclass(frozen=True, slots=True)
class Single:
    """A value of one field."""

    only: int


@dataclass(frozen=True, slots=True)
class Empty:
    """A value of none."""


@dataclass(frozen=True, slots=True, eq=False)
class Itself:
    """A value that equals nothing else."""

    only: int


@dataclass(frozen=True, slots=True, order=True)
class Ordered:
    """A value that the library makes."""

    only: int


def test_a_value_is_made_shown_hashed_and_copied_as_its_dataclass_is() -> None:
    for words in ({"name": "a"}, {"name": "a", "size": 4}, {"name": "b", "parts": [1], "hidden": "x"}):
        ours, theirs = Ours(**words), Theirs(**words)  # type: ignore[arg-type]
        assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
        assert hash(ours) == hash(theirs)
        assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
        changed = dataclasses.replace(ours, size=9)
        assert (changed.size, changed.double, changed.name) == (9, 18, ours.name)
        for same in (copy.copy(ours), copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), Ours(**words)):  # type: ignore[arg-type]
            assert same == ours
            assert dataclasses.astuple(same) == dataclasses.astuple(ours)
    assert Ours("a") != Ours("b")
    assert Ours("a") != Theirs("a")
    assert Ours("a", parts=[1]) == Ours("a")
    assert Ours("a").parts is not Ours("a").parts
    assert Ours.__match_args__ == Theirs.__match_args__
    assert {**Ours.__init__.__annotations__} == {**Theirs.__init__.__annotations__}


def test_a_value_refuses_to_change() -> None:
    for made in (Ours("a"), Single(1)):
        for name in ("size", "only", "unknown"):
            with pytest.raises(FrozenInstanceError, match=name):
                setattr(made, name, 1)
            with pytest.raises(FrozenInstanceError, match=name):
                delattr(made, name)
        assert not hasattr(made, "__dict__")


def test_values_of_one_field_none_and_without_equality() -> None:
    assert (Single(1), hash(Single(1)), repr(Single(1))) == (Single(1), hash((1,)), "Single(only=1)")
    assert (Empty(), hash(Empty()), repr(Empty())) == (Empty(), hash(()), "Empty()")
    one = Itself(1)
    assert one != Itself(1)
    assert len({one, one, Itself(1)}) == 2
    assert pickle.loads(pickle.dumps(one)).only == 1


def test_what_is_no_frozen_dataclass_with_slots_is_the_librarys() -> None:
    assert Ordered(1) < Ordered(2)
    with pytest.raises(TypeError, match="store it in __post_init__"):

        @dataclass(frozen=True, slots=True)
        class Wrong:
            """A default that nobody could give."""

            size: int = field(init=False, default=1)

    with pytest.raises(TypeError, match="for keywords only"):

        @dataclass(frozen=True, slots=True)
        class Named:
            """A field that has no place."""

            size: int = field(kw_only=True)


def test_a_value_is_made_of_its_arguments_alone() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        Ours()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'double'"):
        Ours("a", double=1)  # type: ignore[call-arg]


def test_every_frozen_dataclass_with_slots_of_ours_is_a_value() -> None:
    """A dataclass of the library takes five times as long to make, in every start of the command line."""
    root = Path(npu_model.__file__).parents[1]
    wrong = []
    for package in ("npu_model", "cascader", "sim", "validation", "npu_testbed"):
        for path in sorted((root / package).rglob("*.py")):
            text = path.read_text()
            if "@dataclass(frozen=True, slots=True" not in text or path.name == "values.py":
                continue
            imports = [node for node in ast.parse(text).body if isinstance(node, ast.ImportFrom)]
            if ("npu_model.values", "dataclass") not in {(node.module, name.name) for node in imports for name in node.names}:
                wrong.append(str(path))
    assert wrong == []
    assert sys.modules["npu_model.values"].dataclass is dataclass
