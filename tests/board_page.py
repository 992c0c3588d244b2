"""The measurements of the made-up board of docs/board.md; run as a script it writes the page's log and table anew."""

from __future__ import annotations

import re
from pathlib import Path

from doc_pages import BLOCK, DOCS, commands, folder_of_its_own, printed

from npu_model.compiled.network import read_compiled
from npu_model.memory.timing_adapter import parse_profile
from npu_model.timing import TimingParameters
from sim import NetworkReplay, replay_network

PAGE = DOCS / "board.md"

BOARD = TimingParameters(kernel_start_cycles=48, output_start_cycles=3)
"""The NPU of the page's made-up board: a calibration has to find it, as far as one parameter can."""

_LOG = re.compile(r"(<!-- log: (\S+) -->\n```text\n).*?(```)", re.DOTALL)
_TABLE = re.compile(r"(<!-- file: board.csv -->\n```csv\n)(.*?)(```)", re.DOTALL)


def measured(folder: Path, model: str) -> NetworkReplay:
    """The run of a compiled network on the made-up board."""
    system = parse_profile("board", (folder / "board.toml").read_text(encoding="utf-8")).memory_system()
    return replay_network(read_compiled((folder / model).read_bytes()), system, timing=BOARD)


def log(folder: Path, model: str) -> str:
    """Lines that the evaluation kit's firmware prints of the run."""
    run = measured(folder, model)
    beats = (("AXI0_RD_DATA_BEAT_RECEIVED", run.beats.axi0_read), ("AXI0_WR_DATA_BEAT_WRITTEN", run.beats.axi0_write))
    lines = [f"INFO - NPU {name} beats: {count}" for name, count in (*beats, ("AXI1_RD_DATA_BEAT_RECEIVED", run.beats.axi1_read))]
    return "\n".join([*lines, f"INFO - NPU ACTIVE cycles: {run.cycles}"]) + "\n"


def table(folder: Path, body: str) -> str:
    """The CSV file with the board's cycles in its second column."""
    header, *rows = body.splitlines()
    cells = [row.split(",") for row in rows]
    return "\n".join([header, *(",".join([model, str(measured(folder, model).cycles), *rest]) for model, _, *rest in cells)]) + "\n"


def true_page() -> str:
    """The page with the figures of the made-up board as they are now."""
    text = PAGE.read_text(encoding="utf-8")
    with folder_of_its_own() as folder:
        for block in BLOCK.finditer(text):
            if block["file"]:
                (folder / block["file"]).write_text(block["body"], encoding="utf-8")
            for command, _ in commands(block["body"]) if block["kind"] == "console" else ():
                if "--no-cascade" in command or command.startswith("npu-testbed export"):
                    printed(command)
        text = _LOG.sub(lambda match: f"{match[1]}{log(folder, match[2])}{match[3]}", text)
        return _TABLE.sub(lambda match: f"{match[1]}{table(folder, match[2])}{match[3]}", text)


if __name__ == "__main__":
    PAGE.write_text(true_page(), encoding="utf-8")
