"""Hazards of a network's Programs as sentences and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from npu_model.printable import printable
from npu_testbed.documents.units import HazardEntry
from sim.hazards import Hazard, PartitionFault, Race
from validation.layout import filled

_SHOWN = 5
"""Number of hazards that are written out; a document has all."""

_CHARACTERS = 1000


def hazards_text(found: Sequence[Hazard], word: str = "Warning") -> str:
    """A heading that begins with ``word``, and a numbered sentence for each of the first hazards; "" if there are none."""
    if not found:
        return ""
    what = "1 hazard, by which" if len(found) == 1 else f"{len(found):,} hazards, by which"
    lines = [filled(f"{word}: {what} the NPU may compute other bytes than in stream order:")]
    for number, one in enumerate(found[:_SHOWN], 1):
        lines.append(filled(printable(f"{number}. {one.text}", _CHARACTERS), "   "))
    if len(found) > _SHOWN:
        lines.append(f"... and {len(found) - _SHOWN:,} more (--json has them all)")
    return "\n".join(lines)


def hazards_json(found: Sequence[Hazard]) -> tuple[HazardEntry, ...]:
    """Each hazard with its sentence, its program, and the operations that it is between (one if only its own partition is wrong)."""
    return tuple(
        HazardEntry(
            text=one.text,
            program=one.program,
            operations=(one.operation,) if isinstance(one, PartitionFault) else (one.first, one.second),
            shared_bytes=one.shared if isinstance(one, Race) else 0,
        )
        for one in found
    )
