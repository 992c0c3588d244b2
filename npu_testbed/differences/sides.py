"""The two sides of a comparison: the values of an option for each."""

from __future__ import annotations

from npu_model.errors import InputError


def pair(name: str, text: str | None) -> tuple[str | None, str | None]:
    """The values of an option for both sides: one holds for both, two with a comma between them for one each.

    >>> pair("--optimise", "Size,Performance"), pair("--optimise", "Size"), pair("--optimise", None)
    (('Size', 'Performance'), ('Size', 'Size'), (None, None))
    """
    if text is None:
        return None, None
    values = text.split(",")
    if len(values) > 2 or not all(values):
        raise InputError(f"{name} {text!r} has {len(values)} values: give one for both sides, or two with a comma between them.")
    return values[0], values[-1]
