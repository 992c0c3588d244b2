"""The measured parts of README.md: made by running what they quote, and held to what the README has.

``tox -e measured`` checks them, and the notebook of the tutorial; ``tox -e measured -- --write`` writes both anew.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from command_line import call

from validation.fvp.scorecard import Scorecard, scorecard
from validation.fvp.scores import SHARES

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
LAYERS_SHOWN = 1
"""Rows of the per-layer table that the README shows before it is cut."""


def main_line() -> str:
    """The one line that sets up and runs the main job."""
    return next(
        line for line in README.read_text(encoding="utf-8").splitlines() if line.startswith("python3 -m venv") and "pip install ." in line
    )


def command_lines() -> list[list[str]]:
    """The arguments of every ``npu-testbed`` command in the README's code blocks."""
    blocks = re.findall(r"^```sh\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    commands = [part.split() for block in blocks for line in block.splitlines() for part in line.split("&&")]
    return [words[1:] for words in commands if words and words[0].endswith("npu-testbed")]


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
    bound = next(index for index, line in enumerate(lines) if line.startswith("No schedule"))
    rule = next(index for index, line in enumerate(lines) if line.startswith("---"))
    total = next(index for index, line in enumerate(lines) if line.startswith("total"))
    advice = next(index for index, line in enumerate(lines) if line.startswith("What would"))
    cut = f"... {total - rule - 1 - LAYERS_SHOWN} more layers ..."
    table = [*lines[rule - 1 : rule + 1 + LAYERS_SHOWN], cut, lines[total]]
    return _fenced([*lines[:bound], "", *table, "", *lines[advice : advice + 2]])


def layer_by_layer() -> str:
    """The bytes that the network of the main line takes without a cascade, in a sentence."""
    model = next(word for word in main_line().split() if word.startswith("zoo:"))
    (printed,) = _called([["schedule", model, "--no-cascade", "--json", "-o", "layers.json"]])
    found = json.loads(printed)
    return f"Layer by layer (`--no-cascade`) the network takes {found['cycles']:,} cycles in {found['arena_bytes']:,} bytes."


def questions() -> str:
    """Output of the three questions' commands: the ends of the frontier, our lines of the comparison, the verdicts."""
    lines = [line for line in command_lines() if "portfolio:mnist" in line]
    frontier, compared, _, verified = (output.splitlines() for output in _called(lines))
    rule = next(index for index, line in enumerate(frontier) if line.startswith("---"))
    end = frontier.index("", rule)
    ours = next(index for index, line in enumerate(compared) if line.startswith("ours"))
    head = next(index for index, line in enumerate(verified) if line.startswith("output"))
    points = [*frontier[rule - 1 : rule + 2], f"... {end - rule - 3} more ...", frontier[end - 1]]
    return _fenced([*points, "", *compared[ours : ours + 6], "", *(line for line in verified[head:] if "mended" not in line)])


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
    "questions": questions,
}


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- measured: {name} -->\n)((?:(?!<!--).)*)(\n<!-- end -->)", re.DOTALL)


def quoted(name: str) -> str:
    """A measured part as the README has it."""
    match = _pattern(name).search(README.read_text(encoding="utf-8"))
    assert match is not None, f"README.md has no part {name}"
    return match[2]


def main(words: Sequence[str]) -> int:
    """Measure every part, and compare it with the README's or write it there (``--write``); the exit status."""
    text = before = README.read_text(encoding="utf-8")
    for name, measure in BLOCKS.items():
        measured = measure()
        if measured != quoted(name):
            sys.stdout.write(f"README.md has as {name}\n{quoted(name)}\nand measured is\n{measured}\n")
        text = _pattern(name).sub(lambda match, measured=measured: f"{match[1]}{measured}{match[3]}", text)
    if list(words) == ["--write"]:
        README.write_text(text, encoding="utf-8")
        return 0
    sys.stdout.write(f"{len(BLOCKS)} parts of README.md {'are measured' if text == before else 'are not all measured'} so today\n")
    return 0 if text == before else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
