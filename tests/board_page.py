"""The page docs/board.md run step by step: its files, its commands and what they print; run as a script it writes the page anew."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from command_line import call

from npu_model.compiled.network import read_compiled
from npu_model.memory.timing_adapter import parse_profile
from npu_model.timing import TimingParameters
from sim import NetworkReplay, replay_network

PAGE = Path(__file__).parents[1] / "docs" / "board.md"

BOARD = TimingParameters(kernel_start_cycles=48, output_start_cycles=3)
"""The NPU of the page's made-up board: what a calibration is to find out, as far as one parameter can."""

_BLOCK = re.compile(r"(?:^<!-- file: (?P<file>\S+) -->\n)?^```(?P<kind>\w*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)


def measured(folder: Path, model: str) -> NetworkReplay:
    """The run of a compiled network on the made-up board."""
    system = parse_profile("board", (folder / "board.toml").read_text(encoding="utf-8")).memory_system()
    return replay_network(read_compiled((folder / model).read_bytes()), system, timing=BOARD)


def print_out(folder: Path, model: str) -> str:
    """Lines that the evaluation kit's firmware prints of the run."""
    run = measured(folder, model)
    beats = (("AXI0_RD_DATA_BEAT_RECEIVED", run.beats.axi0_read), ("AXI0_WR_DATA_BEAT_WRITTEN", run.beats.axi0_write))
    lines = [f"INFO - NPU {name} beats: {count}" for name, count in (*beats, ("AXI1_RD_DATA_BEAT_RECEIVED", run.beats.axi1_read))]
    return "\n".join([*lines, f"INFO - NPU ACTIVE cycles: {run.cycles}"]) + "\n"


def _printed(body: str) -> str:
    """A block of commands, each line that begins with $ with what it prints."""
    text = ""
    for line in (line for line in body.splitlines() if line.startswith("$ ")):
        words = line.removeprefix("$ ").split()
        assert words[0] == "npu-testbed", line
        outcome = call(*words[1:])
        assert outcome.status == 0, outcome
        # Of a schedule its layers are left out: they are not what the page is about.
        ends = {"schedule": "\n", "simulate": "\n\n"}.get(words[1])
        text += f"{line}\n" + (outcome.output.partition(ends)[0] + "\n...\n" if ends else outcome.output)
    return text


def _table(folder: Path, body: str) -> str:
    """The CSV file with the board's cycles in its second column."""
    header, *rows = body.splitlines()
    cells = [row.split(",") for row in rows]
    return "\n".join([header, *(",".join([model, str(measured(folder, model).cycles), *rest]) for model, _, *rest in cells)]) + "\n"


def true_page() -> str:
    """The page with the output of every command, and the figures of the made-up board, as they are now."""
    text, before = PAGE.read_text(encoding="utf-8"), Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def made(match: re.Match[str]) -> str:
            file, kind, body = match["file"], match["kind"], match["body"]
            if kind == "console":
                body = _printed(body)
            elif kind == "csv" and body.startswith("model,NPU_ACTIVE,") and file:
                body = _table(folder, body)
            elif kind == "text" and file:
                body = print_out(folder, file)
            if file and kind in ("toml", "csv"):
                (folder / file).write_text(body, encoding="utf-8")
            head = f"<!-- file: {file} -->\n" if file else ""
            return f"{head}```{kind}\n{body}```"

        os.chdir(folder)
        try:
            return _BLOCK.sub(made, text)
        finally:
            os.chdir(before)


if __name__ == "__main__":
    PAGE.write_text(true_page(), encoding="utf-8")
