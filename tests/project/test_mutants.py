"""The edits of `tests/mutants.py`: each is another program, and the sample is the same in every run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from mutants import ROOT, Edit, edits, equivalents, is_listed, own_tests, sample, survives

TEXT = '''"""Module."""

import os


def least(sizes: list[int], bound: int) -> int:
    """The least."""
    if not sizes:
        raise ValueError(f"{bound + 1} is the bound.")
    found = [size * 2 for size in sizes if 0 < size <= bound and size != 7]
    return min(found, default=bound - 1)
'''


def test_each_edit_changes_one_expression_and_still_is_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mutants.ROOT", tmp_path)
    (tmp_path / "least.py").write_text(TEXT)
    found = list(edits(tmp_path / "least.py"))
    assert {(edit.before, edit.after) for edit in found} >= {
        ("not sizes", "(sizes)"),
        ("size * 2", "(size // 2)"),
        ("0 < size <= bound", "(0 <= size <= bound)"),
        ("bound - 1", "(bound + 1)"),
    }
    assert not any(edit.before == "bound + 1" for edit in found)
    changed = {edit.applied(TEXT) for edit in found}
    assert len(changed) == len(found)
    for text in changed:
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(TEXT))


def test_a_sample_is_the_same_in_every_run_and_its_modules_have_tests_of_their_own() -> None:
    drawn = sample(20, 1, "cascader/plan")
    assert drawn == sample(20, 1, "cascader/plan")
    assert drawn != sample(20, 2, "cascader/plan")
    for edit in drawn:
        assert all(Path(file).parent == ROOT / "tests" / Path(edit.path).parent for file in own_tests(Path(edit.path), ROOT))


def test_an_edit_that_is_listed_as_changing_nothing_is_still_one_and_is_not_drawn() -> None:
    known = equivalents()
    assert known
    for one in known:
        text = (ROOT / one.path).read_text(encoding="utf-8").split("\n")
        listed = [edit for edit in edits(ROOT / one.path) if is_listed(edit, text, [one])]
        assert listed, f"{one.path} has no edit of {one.before!r} in {one.line!r}: take it out of the list"
        assert not set(listed) & set(sample(1 << 20, 1, one.path))
        assert one.reason.endswith(".")


def test_an_edit_that_no_test_looks_at_survives_and_the_file_is_as_before(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "tests" / "lib").mkdir(parents=True)
    module = tmp_path / "lib" / "twice.py"
    module.write_text("def twice(n):\n    return n * 2\n")
    test = tmp_path / "tests" / "lib" / "test_twice.py"
    test.write_text("from lib.twice import twice\n\n\ndef test_two():\n    assert twice(0) == 0\n")
    edit = Edit("lib/twice.py", 2, 11, (2, 16), "n * 2", "(n // 2)")
    assert survives(edit, tmp_path)
    test.write_text("from lib.twice import twice\n\n\ndef test_two():\n    assert twice(2) == 4\n")
    assert not survives(edit, tmp_path)
    assert module.read_text() == "def twice(n):\n    return n * 2\n"
