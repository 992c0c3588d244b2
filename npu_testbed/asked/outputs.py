"""Files that an Ask writes: checked before any work, as its options declare them."""

from __future__ import annotations

from msgspec import Struct

from npu_testbed.asked.kinds import texts
from npu_testbed.asked.option import said_by
from npu_testbed.ground.files import REQUIRED


def require_outputs(ask: Struct, *others: object) -> None:
    """InputError if a file of an Ask could not be written, or would overwrite a source, an earlier file or one of ``others``."""
    said = list(said_by(ask))
    taken = [*others, *(text for one, value in said if one.option.source for text in texts(value))]
    for one, value in said:
        if one.option.writes:
            REQUIRED[one.option.writes](value, *taken)
            taken.append(value)
