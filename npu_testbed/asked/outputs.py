"""Files that an Ask writes: checked before any work, as its options declare them."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from npu_model.errors import InputError
from npu_testbed.asked.kinds import texts
from npu_testbed.asked.option import said_by
from npu_testbed.ground.files import REQUIRED


def require_outputs(ask: Struct, *others: object) -> None:
    """InputError if a file of an Ask could not be written, or would overwrite a source, another of its files or one of ``others``."""
    said = list(said_by(ask))
    sources = [*others, *(text for one, value in said if one.option.source for text in texts(value))]
    taken: dict[Path, str] = {}
    for one, value in said:
        if one.option.writes:
            REQUIRED[one.option.writes](value, *sources)
            place = Path(str(value)).resolve()
            if any(place == Path(str(other)).resolve() for other in others):
                raise InputError(f"{one.flag} {str(value)!r} is also another file of the command: give it a file of its own.")
            if place in taken:
                raise InputError(f"{taken[place]} and {one.flag} both write to {str(value)!r}: give each a file of its own.")
            taken[place] = one.flag
