"""Mutants: single edits of the code, each of which the tests in the module's own folder must notice.

    python tests/mutants.py FOLDER [--edits 20] [--seed 1] [--only PATH]

copies the checkout into FOLDER, makes one edit after the other there and runs the tests that mirror the module: of a module
``cascader/plan/plans.py`` those in ``tests/cascader/plan``, ``test_plans*.py`` first. Prints a line for each edit, and the edits that no
test notices. Status 1 if more than a fifth survive.

Edits that change nothing that can be seen stand in ``tests/equivalent_edits.toml``, each with its reason, and are not drawn. An edit's turn
is a hash of its text and of the seed, so that a change of one module leaves the draw of all others.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

ROOT = Path(__file__).parents[1]
PACKAGES = ("npu_model", "cascader", "sim")
SECONDS = 900
"""Time that the tests of one edit may take; an edit that makes them hang is noticed."""

ONE_IN = 5
"""Part of the edits that may survive."""

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}


class Edit(Struct, frozen=True):
    """One edit: the file, the line, what stands there and what stands there then."""

    path: str
    line: int
    column: int
    end: tuple[int, int]
    before: str
    after: str

    def applied(self, text: str) -> str:
        """The text of the file with the edit; columns count bytes."""
        lines = text.encode().split(b"\n")
        first, last = self.line - 1, self.end[0] - 1
        lines[first : last + 1] = [lines[first][: self.column] + self.after.encode() + lines[last][self.end[1] :]]
        return b"\n".join(lines).decode()


def changed(node: ast.expr) -> ast.expr | None:
    """Another expression in place of one; None if no edit is known for its kind."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
        return ast.Compare(node.left, [COMPARED[type(node.ops[0])](), *node.ops[1:]], node.comparators)
    if isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        return ast.BinOp(node.left, COMPUTED[type(node.op)](), node.right)
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return ast.Constant(node.value + 1)
    return None


def bodies(tree: ast.Module) -> Iterator[ast.AST]:
    """Every expression of a function's body: what a module says of types and at import is no behaviour."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for statement in function.body:
                yield from inside(statement)


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it but what is raised: messages are not tested to the letter."""
    if not isinstance(node, ast.Raise):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from inside(child)


def edits(path: Path) -> Iterator[Edit]:
    """Every edit that is known of a file."""
    text = path.read_text(encoding="utf-8")
    seen = set()
    for node in bodies(ast.parse(text)):
        found = changed(node) if isinstance(node, ast.expr) else None
        if found is None or not isinstance(node, ast.expr) or node.end_lineno is None or node.end_col_offset is None:
            continue
        place = node.lineno, node.col_offset, (node.end_lineno, node.end_col_offset)
        if place not in seen:
            seen.add(place)
            before, after = ast.unparse(node), ast.unparse(found)
            yield Edit(path.relative_to(ROOT).as_posix(), *place, before, f"({after})")


def own_tests(path: Path, root: Path) -> list[str]:
    """The files of tests that mirror a module, those of its own name first; none if its folder has none."""
    folder = root / "tests" / path.parent
    files = sorted(folder.glob("test_*.py"))
    return [str(file) for file in sorted(files, key=lambda file: (path.stem not in file.stem, file.name))]


class Equivalent(Struct, frozen=True):
    """An edit that changes nothing which can be seen: the file, the line as it stands there, the expression and the reason."""

    path: str
    line: str
    before: str
    reason: str


def equivalents() -> list[Equivalent]:
    """Every edit that is known to change nothing."""
    return msgspec.toml.decode((ROOT / "tests" / "equivalent_edits.toml").read_bytes(), type=dict[str, list[Equivalent]])["edit"]


def is_listed(edit: Edit, lines: list[str], known: Iterable[Equivalent]) -> bool:
    """Whether an edit of a file with these lines is one of those known to change nothing."""
    return any((one.path, one.line, one.before) == (edit.path, lines[edit.line - 1].strip(), edit.before) for one in known)


def turns(path: Path, seed: int, known: Iterable[Equivalent]) -> Iterator[tuple[str, Edit]]:
    """The edits of a file that change something, each with its turn: of several alike each has its own, listed ones among them."""
    lines, seen = path.read_text(encoding="utf-8").split("\n"), Counter[tuple[str, str, str]]()
    for edit in edits(path):
        text = edit.path, edit.before, edit.after
        seen[text] += 1
        if not is_listed(edit, lines, known):
            yield sha256(repr((seed, text, seen[text])).encode()).hexdigest(), edit


def sample(count: int, seed: int, only: str) -> list[Edit]:
    """So many edits, drawn from all modules that have tests of their own: those whose turns come first."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    named = [path for path in paths if only in path.as_posix() and own_tests(path.relative_to(ROOT), ROOT)]
    known = equivalents()
    drawn = [turn for path in named for turn in turns(path, seed, known)]
    return [edit for _, edit in sorted(drawn, key=lambda turn: turn[0])[:count]]


def survives(edit: Edit, root: Path) -> bool:
    """Whether the tests of the module's own folder pass with the edit."""
    path = root / edit.path
    text = path.read_text(encoding="utf-8")
    path.write_text(edit.applied(text), encoding="utf-8")
    # The Python forms are what is edited: where the compiled cores run in their place, it is their twins that must notice.
    command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", *own_tests(Path(edit.path), root)]
    environment = os.environ | {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    finally:
        path.write_text(text, encoding="utf-8")
    return done.returncode == 0


def main() -> int:
    """Run the sample; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--edits", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="a part of the paths of the modules that are edited")
    arguments = parser.parse_args()
    root = arguments.folder / "mutants"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__"))
    surviving = []
    drawn = sample(arguments.edits, arguments.seed, arguments.only)
    for number, edit in enumerate(drawn, 1):
        start = time.monotonic()
        stays = survives(edit, root)
        surviving += [edit] if stays else []
        said = "SURVIVES" if stays else "noticed"
        place = f"{edit.path}:{edit.line}"
        print(f"{number}/{len(drawn)} {said} after {time.monotonic() - start:.0f} s, {place}: {edit.before} -> {edit.after}", flush=True)  # noqa: T201  # the report
    print(f"{len(drawn) - len(surviving)} of {len(drawn)} edits are noticed by the tests of the module's own folder.")  # noqa: T201  # the report
    return int(len(surviving) * ONE_IN > len(drawn))


if __name__ == "__main__":
    sys.exit(main())
