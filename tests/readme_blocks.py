"""Measures what README.md quotes, and compares it with what the README has.

``tox -e measured`` checks it, and the notebook of the tutorial; ``tox -e measured -- --write`` writes both anew.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import geometric_mean

from command_line import call

from validation.fvp.bars import Scorecard
from validation.fvp.scorecard import scorecard
from validation.fvp.scores import SHARES

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
MEMORY = ROOT / "docs" / "memory.md"
PICTURE = ROOT / "docs" / "frontier.svg"
SHOWN = ("vww_mnv1_0.25_96_i8", "mobilenet_v2_1.0_224_i8", "squeezenet1.1_384_i8", "deeplabv3_mnv3_256_i8")
"""The networks in the README's table of memory."""

LAYERS_SHOWN = 1
"""Rows of the per-layer table that the README shows before it is cut."""


def main_line() -> str:
    """The one line that sets up and runs the main job."""
    return next(
        line for line in README.read_text(encoding="utf-8").splitlines() if line.startswith("python3 -m venv") and "pip install ." in line
    )


def command_lines() -> list[list[str]]:
    """The arguments of every ``npu-testbed`` command in the README's code blocks, sentences and tables."""
    text = README.read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()] + re.findall(r"`(npu-testbed [a-z].*?)`", text)
    commands = [part.split() for line in lines for part in line.split("&&")]
    return [words[1:] for words in commands if words and words[0].endswith("npu-testbed")]


def table_commands() -> list[list[str]]:
    """The arguments of the commands in the README's table of what to run, in their order."""
    table = README.read_text(encoding="utf-8").partition("| I want to |")[2].partition("\n\n")[0]
    return [command.split()[1:] for command in re.findall(r"`(npu-testbed .*?)`", table)]


def _called(commands: Iterable[list[str]]) -> list[str]:
    """Outputs of the commands, run one after the other in one fresh folder."""
    printed = []
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for words in commands:
                outcome = call(*words)
                assert outcome.status == 0, outcome
                printed.append(outcome.output)
        finally:
            os.chdir(before)
    return printed


def _fenced(lines: Iterable[str]) -> str:
    return "\n".join(["```text", *lines, "```"])


def main_output() -> str:
    """Output of the main line: the schedule's first sentence, rows of the table of layers as they are replayed, and a finding."""
    (scheduled,) = _called(words[1:] for words in (part.split() for part in main_line().split("&&")) if words[0].endswith("npu-testbed"))
    lines = scheduled.splitlines()
    counted = next(index for index, line in enumerate(lines) if line.startswith("It does"))
    rule = next(index for index, line in enumerate(lines) if line.startswith("---"))
    total = next(index for index, line in enumerate(lines) if line.startswith("total"))
    advice = next(index for index, line in enumerate(lines) if line.startswith("What would"))
    cut = f"... {total - rule - 1 - LAYERS_SHOWN} more layers ..."
    table = [*lines[rule - 1 : rule + 1 + LAYERS_SHOWN], cut, lines[total]]
    return _fenced([*lines[: counted + 1], "", *table, "", *lines[advice : advice + 2]])


def layer_by_layer() -> str:
    """The bytes that the network of the main line takes without a cascade, in a sentence."""
    model = next(word for word in main_line().split() if word.startswith("zoo:"))
    (printed,) = _called([["schedule", model, "--no-cascade", "--json", "-o", "layers.json"]])
    found = json.loads(printed)
    return f"Layer by layer (`--no-cascade`) the network takes {found['cycles']:,} cycles in {found['arena_bytes']:,} bytes."


def memory() -> str:
    """Four rows of the table in docs/memory.md, as sentences, and the means of all its rows."""
    lines = MEMORY.read_text(encoding="utf-8").partition("| network | Vela Size: bytes / cycles |")[2].partition("\n\n")[0].splitlines()
    rows = {cells[0]: cells[1:] for cells in ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:])}
    assert len(rows) == 14
    sizes = {name: int(cells[0].split(" / ")[0].replace(",", "")) for name, cells in rows.items()}
    needed = {name: int(cells[2].split(" ")[0].replace(",", "")) for name, cells in rows.items()}
    shares = {name: float(cells[5].partition("(")[2].rstrip(")")) for name, cells in rows.items()}
    shown = [
        "| network | Vela Size needs | we need, no slower than Vela Size | our cycles relative to Vela Performance, in its arena |",
        "| --- | --: | --: | --: |",
    ]
    for name in SHOWN:
        share = needed[name] / sizes[name]
        shown.append(f"| {name} | {sizes[name]:,} bytes | {needed[name]:,} bytes ({share:.0%}) | {shares[name]:.0%} |")
    saved = geometric_mean(needed[name] / sizes[name] for name in rows)
    return "\n".join([*shown, f"| all {len(rows)}, geometric mean | 100% | {saved:.1%} | {geometric_mean(shares.values()):.1%} |"])


def accuracy(card: Scorecard) -> str:
    """The summary of ``npu-testbed validate fvp``."""
    rows = [
        "| timing adapters | points | mean error of NPU ACTIVE | worst | within 1 % | within 5 % | Vela's own estimate: mean, worst |",
        "| --- | --: | --: | --: | --: | --: | --: |",
    ]
    for summary in card.summaries:
        # Vela's estimate counts what the adapters stand for; beside adapters off it would be compared with what it does not mean.
        vela = f"{summary.vela_mean:.2%}, {abs(summary.vela_worst):.2%}" if summary.adapters else "-"
        within = dict(zip(SHARES, summary.within, strict=True))
        rows.append(
            f"| {'on' if summary.adapters else 'off'} | {summary.count} | {summary.mean:.2%} | {abs(summary.worst):.2%} | "
            f"{within[0.01]:.0%} | {within[0.05]:.0%} | {vela} |"
        )
    worst = max(abs(beat.error) for point in card.points for beat in point.beats)
    count = sum(len(point.beats) for point in card.points)
    rows += ["", f"Data beats per AXI port: the worst error of {count} counters is {worst:.2%}."]
    return "\n".join(rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "main": main_output,
    "layer by layer": layer_by_layer,
    "accuracy": lambda: accuracy(scorecard()),
    "memory": memory,
}


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- measured: {name} -->\n)((?:(?!<!--).)*?)(\n?<!-- end -->)", re.DOTALL)


def quoted(name: str) -> str:
    """A measured part as the README has it."""
    match = _pattern(name).search(README.read_text(encoding="utf-8"))
    assert match is not None, f"README.md has no part {name}"
    return match[2]


def picture() -> str:
    """The README's picture, drawn anew by the command that stands above it."""
    (words,) = [words for words in command_lines() if "--with-vela" in words]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "frontier.svg")
        assert words[-1] == PICTURE.relative_to(ROOT).as_posix()
        outcome = call(*words[:-1], path)
        assert outcome.status == 0, outcome
        return path.read_text(encoding="utf-8")


def main(words: Sequence[str]) -> int:
    """Measure every part, and compare it with the README's or write it there (``--write``); the exit status."""
    text = before = README.read_text(encoding="utf-8")
    for name, measure in BLOCKS.items():
        measured = measure()
        if measured != quoted(name):
            sys.stdout.write(f"README.md has as {name}\n{quoted(name)}\nand measured is\n{measured}\n")
        text = _pattern(name).sub(lambda match, measured=measured: f"{match[1]}{measured}{match[3]}", text)
    drawn = picture()
    if list(words) == ["--write"]:
        README.write_text(text, encoding="utf-8")
        PICTURE.write_text(drawn, encoding="utf-8")
        return 0
    same = text == before and drawn == PICTURE.read_text(encoding="utf-8")
    sys.stdout.write(f"{len(BLOCKS)} parts of README.md and its picture are {'' if same else 'not all '}as measured today\n")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
