"""Pages of docs/ whose blocks of commands ("console") are run by a shell, and held to what they print.

``tox -e measured`` checks them; ``tox -e measured -- --write`` writes their outputs anew.
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
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = tuple(ROOT / "docs" / f"{name}.md" for name in ("fit", "python", "replace-vela", "which-chip", "why-slow"))

COLUMNS = 100
"""Characters of a line of output, as a page of the site has room for."""

_BLOCK = re.compile(r"(?:^<!-- file: (?P<file>\S+) -->\n)?^```(?P<kind>\w*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)


def commands(body: str) -> Iterator[str]:
    """The commands of a block: each from its ``$`` to its line's end, and on where that is a backslash."""
    lines = iter(body.splitlines())
    for line in lines:
        if line.startswith("$ "):
            whole = [line]
            while whole[-1].endswith("\\"):
                whole.append(next(lines))
            yield "\n".join(whole)


def calls(body: str) -> Iterator[list[str]]:
    """The arguments of every ``npu-testbed`` in the commands of a block."""
    for command in commands(body):
        text = command.removeprefix("$ ").replace("\\\n", " ").replace("2>&1", "")
        lexer = shlex.shlex(text, posix=True, punctuation_chars=";|&>")
        lexer.whitespace_split = True
        words = list(lexer)
        while "npu-testbed" in words:
            words = words[words.index("npu-testbed") + 1 :]
            yield words[: next((place for place, word in enumerate(words) if not word.strip(";|&>")), len(words))]


def _printed(command: str, folder: Path) -> str:
    """Standard output of a command in a folder; its status must be 0."""
    places = [str(Path(sys.executable).parent), os.environ["PATH"]]
    variables = os.environ | {"PATH": os.pathsep.join(places), "COLUMNS": str(COLUMNS), "NO_COLOR": "1"}
    shell = ["bash", "-c", command.removeprefix("$ ")]
    done = subprocess.run(shell, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def true_page(page: Path) -> str:
    """The page with what its commands print now."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def block(match: re.Match[str]) -> str:
            if match["file"]:
                (folder / match["file"]).write_text(match["body"], encoding="utf-8")
            if match["kind"] != "console":
                return match[0]
            text = "".join(f"{command}\n{_printed(command, folder)}" for command in commands(match["body"]))
            lines = (line.rstrip() for line in text.splitlines())
            return "```console\n" + "".join(f"{line}\n" for line in lines) + "```"

        return _BLOCK.sub(block, page.read_text(encoding="utf-8"))


def main(*words: str) -> int:
    """Check the pages, or those that are named, or with ``--write`` write them anew."""
    names = [word for word in words if not word.startswith("--")]
    differ = 0
    for page in (page for page in PAGES if not names or page.stem in names):
        before, now = page.read_text(encoding="utf-8"), true_page(page)
        if "--write" in words:
            page.write_text(now, encoding="utf-8")
        elif now != before:
            differ += 1
            sys.stdout.writelines(difflib.unified_diff(before.splitlines(True), now.splitlines(True), str(page), "as it is now"))
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
