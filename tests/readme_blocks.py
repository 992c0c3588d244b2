"""The measured parts of README.md: made by running what they quote; ``PYTHONPATH=. python tests/readme_blocks.py`` writes them anew."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from command_line import call

from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import compile_network, lift, named_network
from cascader.frontends.zoo import build, zoo_names
from npu_model.compiled.network import read_compiled
from testbed.memory_use import arena_bytes
from validation.fvp.scorecard import Scorecard, scorecard
from validation.fvp.scores import SHARES

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
LAYERS_SHOWN = 6
"""Rows of the per-layer table that the README shows before it is cut."""

ACCELERATOR = "ethos-u55-128"


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


def main_output() -> str:
    """What the main line prints: of the schedule the first line, of the replay all but the middle of the per-layer table."""
    printed = []
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for part in main_line().split("&&"):
                words = part.split()
                if words[0].endswith("npu-testbed"):
                    outcome = call(*words[1:])
                    assert outcome.status == 0, outcome
                    scheduled = words[1] == "schedule"
                    printed.append(f"{outcome.output.splitlines()[0]}\n...\n" if scheduled else outcome.output)
        finally:
            os.chdir(before)
    lines = "".join(printed).splitlines()
    rule = next(index for index, line in enumerate(lines) if line.startswith("---"))
    total = next(index for index, line in enumerate(lines) if line.startswith("total"))
    cut = f"... {total - rule - 1 - LAYERS_SHOWN} more layers ..."
    return "\n".join(["```text", *lines[: rule + 1 + LAYERS_SHOWN], cut, *lines[total:], "```"])


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


def memory() -> str:
    """The arena of every network of the zoo, layer by layer and as Vela schedules it."""
    rows = ["| network | layer by layer | Vela, Performance | Vela, Size |", "| --- | --: | --: | --: |"]
    for name in zoo_names():
        if name.startswith("tiny_"):
            continue  # made for tests
        model = build(name)
        legalised = lift(named_network(compile_network(model, ACCELERATOR, legalise=True)))
        arenas = [schedule_layer_by_layer(legalised, ACCELERATOR).arena_size]
        arenas += [arena_bytes(read_compiled(compile_network(model, ACCELERATOR, optimise=o).compiled)) for o in ("Performance", "Size")]
        rows.append(f"| `zoo:{name}` | {' | '.join(f'{arena:,}' for arena in arenas)} |")
    return "\n".join(rows)


BLOCKS: dict[str, Callable[[], str]] = {"main": main_output, "accuracy": lambda: accuracy(scorecard()), "memory": memory}


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- measured: {name} -->\n)((?:(?!<!--).)*)(\n<!-- end -->)", re.DOTALL)


def quoted(name: str) -> str:
    """A measured part as the README has it."""
    match = _pattern(name).search(README.read_text(encoding="utf-8"))
    assert match is not None, f"README.md has no part {name}"
    return match[2]


def write() -> None:
    """Measure every part and write it into the README."""
    text = README.read_text(encoding="utf-8")
    for name, measure in BLOCKS.items():
        measured = measure()
        text = _pattern(name).sub(lambda match, measured=measured: f"{match[1]}{measured}{match[3]}", text)
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
