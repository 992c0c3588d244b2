"""Values: what msgspec's structs do that the project relies on, and what `Brief` and `Noted` add."""

from __future__ import annotations

import ast
import copy
import pickle
from pathlib import Path

import pytest
from msgspec import Struct, field
from msgspec.structs import asdict, replace

import npu_model
from npu_model.brief import Brief, Noted

PACKAGES = ("npu_model", "cascader", "sim", "validation", "npu_testbed", "examples")


class Checked(Struct, frozen=True):
    name: str
    size: int = 3
    parts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("negative")


class Itself(Struct, frozen=True, eq=False):
    only: int


class File(Noted, frozen=True):
    unshown = ("content",)
    notes = ("said",)

    name: str
    content: bytes
    said: str = ""


class Other(File, frozen=True):
    pass


def test_a_value_refuses_to_change() -> None:
    made = Checked("a")
    for name in ("size", "unknown"):
        with pytest.raises(AttributeError):
            setattr(made, name, 1)
        with pytest.raises(AttributeError):
            delattr(made, name)
    assert not hasattr(made, "__dict__")


def test_a_value_is_checked_again_when_it_is_changed_or_sent() -> None:
    with pytest.raises(ValueError, match="negative"):
        replace(Checked("a"), size=-1)
    for same in (copy.copy(Checked("a", 4)), copy.deepcopy(Checked("a", 4)), pickle.loads(pickle.dumps(Checked("a", 4)))):
        assert same == Checked("a", 4)
    assert Checked("a").parts is not Checked("a").parts


def test_a_value_without_equality_equals_nothing_else() -> None:
    one = Itself(1)
    assert one != Itself(1)
    assert len({one, one, Itself(1)}) == 2


def test_the_text_of_a_brief_value_leaves_long_fields_out() -> None:
    assert repr(File("a", bytes(100))) == "File(name='a', said='')"
    assert asdict(File("a", b"b")) == {"name": "a", "content": b"b", "said": ""}
    assert issubclass(File, Brief)


def test_notes_take_no_part_in_equality() -> None:
    assert File("a", b"", "x") == File("a", b"", "y")
    assert hash(File("a", b"", "x")) == hash(File("a", b"", "y"))
    assert File("a", b"") != File("a", b"b")
    assert File("a", b"") != Other("a", b"")


def test_every_frozen_value_is_a_struct() -> None:
    """A frozen dataclass of the library takes twenty times as long to make, in every start of the command line."""
    root = Path(npu_model.__file__).parents[1]
    wrong = [
        f"{path}:{node.lineno}"
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and any("frozen=True" in ast.unparse(one) for one in node.decorator_list)
    ]
    assert wrong == []
