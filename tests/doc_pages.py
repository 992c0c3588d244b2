"""Pages of docs/ whose commands are run: ``PYTHONPATH=. python tests/doc_pages.py PAGE.md`` writes what they print into the page anew.

A command stands in a block of text behind "$ ", what it prints under it, up to the next command. A line of three dots stands for any lines
that are left out. All commands of a page run in one folder, in which the blocks are files that have "<!-- file: NAME -->" above them.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from command_line import call

DOCS = Path(__file__).parents[1] / "docs"
COLUMNS = "110"
LEFT_OUT = "..."

_BLOCK = re.compile(r"^```text\n(\$ npu-testbed .*?)^```", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"^<!-- file: (\S+) -->\n```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def write_files(page: str) -> None:
    """Write the files of a page to the current folder."""
    for name, text in _FILE.findall((DOCS / page).read_text(encoding="utf-8")):
        Path(name).write_text(text, encoding="utf-8")


def commands(page: str) -> list[tuple[str, list[str]]]:
    """The commands of a page, as they are typed, with the lines that it shows of each one's output."""
    found: list[tuple[str, list[str]]] = []
    for block in _BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            elif found[-1][0].endswith("\\") and not found[-1][1]:
                found[-1] = f"{found[-1][0]}\n{line}", []
            else:
                found[-1][1].append(line)
    return found


@contextmanager
def folder_of_its_own() -> Iterator[None]:
    before, columns = Path.cwd(), os.environ.get("COLUMNS")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["COLUMNS"] = COLUMNS
        try:
            yield
        finally:
            os.chdir(before)
            os.environ.pop("COLUMNS")
            if columns is not None:
                os.environ["COLUMNS"] = columns


def printed(command: str) -> list[str]:
    """The lines that a command prints."""
    name, *arguments = shlex.split(command.replace("\\\n", " "))
    assert name == "npu-testbed"
    outcome = call(*arguments)
    assert outcome.status == 0, outcome
    return outcome.output.rstrip("\n").splitlines()


def pieces(shown: list[str]) -> list[list[str]]:
    """The stretches of shown lines between those that are left out."""
    found: list[list[str]] = [[]]
    for line in shown:
        if line == LEFT_OUT:
            found.append([])
        else:
            found[-1].append(line)
    return found


def is_shown(shown: list[str], lines: list[str]) -> bool:
    """Whether the shown lines are those that are printed, but for what is left out."""
    first, *others = pieces(shown)
    if not others:
        return first == lines
    if lines[: len(first)] != first:
        return False
    position = len(first)
    for piece in others[:-1]:
        found = next((at for at in range(position, len(lines)) if lines[at : at + len(piece)] == piece), None)
        if found is None:
            return False
        position = found + len(piece)
    last = others[-1]
    return len(lines) - len(last) >= position and (not last or lines[-len(last) :] == last)


def _cut(shown: list[str], lines: list[str]) -> list[str]:
    """Lines of a new output that a page shows.

    Each stretch is found by how its first line begins and has as many lines as before; the last one goes to the end.
    """
    stretches = pieces(shown)
    if len(stretches) == 1:
        return lines
    found: list[str] = []
    for number, piece in enumerate(stretches):
        if number:
            found.append(LEFT_OUT)
        if not piece:
            continue
        start = piece[0][:10]
        at = next((at for at, line in enumerate(lines) if line.startswith(start)), None)
        assert at is not None, f"no line begins with {start!r}"
        found += lines[at:] if number == len(stretches) - 1 else lines[at : at + len(piece)]
    return found


def write(page: str) -> None:
    """Run the page's commands and write what they print into it."""
    path = DOCS / page
    text = path.read_text(encoding="utf-8")
    with folder_of_its_own():
        write_files(page)
        for command, shown in commands(page):
            old = "\n".join([f"$ {command}", *shown])
            assert text.count(old) == 1, command
            text = text.replace(old, "\n".join([f"$ {command}", *_cut(shown, printed(command))]))
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write(name)
