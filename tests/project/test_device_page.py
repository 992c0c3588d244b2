"""The page on the device: its table is the data's, its Python prints what it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from npu_model.programmer_registers import registers

PAGE = Path(__file__).parents[2] / "docs" / "firmware.md"


def table() -> str:
    """The registers as the page has them; words of a kind in one line."""
    rows = ["| offset | register | access | reset | fields |", "| --- | --- | --- | --- | --- |"]
    every = registers("ethos-u55-128")
    kinds = [
        re.sub(r"\d+$", "", register.name) if register.name[:5] in {"BASEP", "AXI_L", "PMEVC", "PMEVT"} else register.name
        for register in every
    ]
    for kind in dict.fromkeys(kinds):
        words = [register for register, own in zip(every, kinds, strict=True) if own == kind]
        first, last = words[0], words[-1]
        offset = f"{first.offset:#05x}" if len(words) == 1 else f"{first.offset:#05x} to {last.offset:#05x}"
        name = first.name if len(words) == 1 else f"{first.name} to {last.name}"
        fields = ", ".join(
            f"{field.name} {field.lowest}" + (f"-{field.lowest + field.bits - 1}" if field.bits > 1 else "") for field in first.fields
        )
        rows.append(f"| {offset} | {name} | {first.access.value} | {first.reset:#x} | {fields} |")
    return "\n".join(rows)


def test_the_pages_table_is_made_from_the_registers_data() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")


def test_the_pages_python_prints_what_the_page_says() -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", text, re.DOTALL)
    assert found is not None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(found[1], {})
    assert printed.getvalue() == found[2]
