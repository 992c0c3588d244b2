"""Pages of docs/ whose commands are run: ``python tests/doc_pages.py --write [PAGE ...]`` writes what they print into the pages.

A command stands behind "$ " in a block of kind "console"; below it stands what it prints. A line of three dots stands for any lines. All
commands of a page run in one folder, which has the blocks below "<!-- file: NAME -->" as files. ``tox -e measured`` checks all pages.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from command_line import call

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
COLUMNS = "100"
"""Characters of a line of output, as a page of the site has room for."""

LEFT_OUT = "..."

BLOCK = re.compile(r"(?:^<!-- file: (?P<file>\S+) -->\n)?^```(?P<kind>\w*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
_SHELL = re.compile(r"[|;&<>$]")


def pages() -> list[str]:
    """The names of all pages with commands that are run."""
    return [path.name for path in sorted(DOCS.glob("*.md")) if "```console\n$ " in path.read_text(encoding="utf-8")]


def commands(body: str) -> list[tuple[str, list[str]]]:
    """The commands of a block, as they are typed, with the lines that it shows of each one's output."""
    found: list[tuple[str, list[str]]] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        elif found[-1][0].endswith("\\") and not found[-1][1]:
            found[-1] = f"{found[-1][0]}\n{line}", []
        else:
            found[-1][1].append(line)
    return found


def calls(command: str) -> Iterator[list[str]]:
    """The arguments of every ``npu-testbed`` in a command of the shell."""
    lexer = shlex.shlex(command.replace("\\\n", " ").replace("2>&1", ""), posix=True, punctuation_chars=";|&>")
    lexer.whitespace_split = True
    words = list(lexer)
    while "npu-testbed" in words:
        words = words[words.index("npu-testbed") + 1 :]
        yield words[: next((place for place, word in enumerate(words) if not word.strip(";|&>")), len(words))]


@contextmanager
def folder_of_its_own() -> Iterator[Path]:
    """A fresh current folder, in which lines have the width of a page."""
    before, columns = Path.cwd(), os.environ.get("COLUMNS")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["COLUMNS"] = COLUMNS
        try:
            yield Path(folder)
        finally:
            os.chdir(before)
            os.environ.pop("COLUMNS")
            if columns is not None:
                os.environ["COLUMNS"] = columns


def printed(command: str) -> list[str]:
    """The lines that a command prints: in this process where it is one of ours alone, else by a shell."""
    words = shlex.split(command.replace("\\\n", " "))
    if words[0] == "npu-testbed" and not _SHELL.search(command):
        outcome = call(*words[1:])
        assert outcome.status == 0, (command, outcome)
        text = outcome.output
    else:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        text = done.stdout
    return [line.rstrip() for line in text.rstrip("\n").splitlines()]


def stretches(shown: list[str]) -> list[list[str]]:
    """The shown lines between those that are left out."""
    found: list[list[str]] = [[]]
    for line in shown:
        if line == LEFT_OUT:
            found.append([])
        else:
            found[-1].append(line)
    return found


def is_shown(shown: list[str], lines: list[str]) -> bool:
    """Whether the shown lines are those that are printed, but for what is left out."""
    first, *others = stretches(shown)
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
    parts = stretches(shown)
    if len(parts) == 1:
        return lines
    found: list[str] = []
    for number, piece in enumerate(parts):
        if number:
            found.append(LEFT_OUT)
        if not piece:
            continue
        start = piece[0][:10]
        at = next((at for at, line in enumerate(lines) if line.startswith(start)), None)
        assert at is not None, f"no line begins with {start!r}"
        found += lines[at:] if number == len(parts) - 1 else lines[at : at + len(piece)]
    return found


def true_page(text: str) -> str:
    """The text of a page with what its commands print now; a stretch that is still right stays as it is."""

    def block(match: re.Match[str]) -> str:
        if match["file"]:
            Path(match["file"]).write_text(match["body"], encoding="utf-8")
        if match["kind"] != "console":
            return match[0]
        shown: list[str] = []
        for command, before in commands(match["body"]):
            lines = printed(command)
            while before and not before[-1]:
                before.pop()
            shown += [f"$ {command}", *(before if is_shown(before, lines) else _cut(before, lines))]
        return "```console\n" + "".join(f"{line}\n" for line in shown) + "```"

    with folder_of_its_own():
        return BLOCK.sub(block, text)


def main(*words: str) -> int:
    """Check all pages, or those that are named; with ``--write`` write them anew. The status is 1 if one says something else."""
    names = [word for word in words if not word.startswith("--")]
    differ = 0
    for path in (DOCS / name for name in names or pages()):
        before = path.read_text(encoding="utf-8")
        now = true_page(before)
        if "--write" in words:
            path.write_text(now, encoding="utf-8")
        elif now != before:
            differ += 1
            sys.stdout.writelines(difflib.unified_diff(before.splitlines(True), now.splitlines(True), str(path), "as it is now"))
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
