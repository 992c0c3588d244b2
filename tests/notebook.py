"""The notebook examples/tutorial.ipynb executed: what it prints is what it shows. ``python tests/notebook.py --write`` writes it anew.

It needs nbclient and ipykernel; ``tox -e measured`` has them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

PAGE = Path(__file__).parents[1] / "examples" / "tutorial.ipynb"
SECONDS = 300
"""Most time of one cell."""


def texts(notebook: Any) -> list[list[str]]:
    """The text that each cell of code printed, and its result where that is text."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        printed = "".join(output.text for output in cell.outputs if output.output_type == "stream")
        plain = [output.data.get("text/plain", "") for output in cell.outputs if output.output_type == "execute_result"]
        found.append([printed, *plain])
    return found


def pictures(notebook: Any) -> list[str]:
    """The drawings that the cells show."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return [output.data["image/svg+xml"] for output in outputs if "image/svg+xml" in output.get("data", {})]


def executed(notebook: Any) -> Any:
    """The notebook with the outputs of a run in its own folder, without what differs between two runs."""
    fresh = nbformat.from_dict(notebook)
    for number, cell in enumerate((cell for cell in fresh.cells if cell.cell_type == "code"), 1):
        cell.outputs, cell.execution_count = [], number
    NotebookClient(fresh, timeout=SECONDS, coalesce_streams=True, resources={"metadata": {"path": str(PAGE.parent)}}).execute()
    for cell in fresh.cells:
        cell.metadata = {}
    fresh.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return fresh


def main() -> int:
    """Compare, or write; the exit status."""
    shown = nbformat.read(PAGE, as_version=4)
    run = executed(shown)
    if sys.argv[1:] == ["--write"]:
        nbformat.validate(run)
        PAGE.write_text(nbformat.writes(run, indent=1) + "\n", encoding="utf-8")
        return 0
    for number, (before, now) in enumerate(zip(texts(shown), texts(run), strict=True), 1):
        if before != now:
            sys.stdout.write(f"Cell {number} of code shows\n{before}\nand prints\n{now}\n")
            return 1
    same = pictures(shown) == pictures(run)
    sys.stdout.write(f"{len(texts(run))} cells print what they show{'' if same else ', and a picture is another one'}\n")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
