"""Efforts of a search by their names, and what each changes of its options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from npu_model.errors import InputError

if TYPE_CHECKING:
    from cascader.ethosu.options import CascadeOptions

EFFORTS = QUICK, STANDARD, THOROUGH = "quick", "standard", "thorough"
"""Efforts: few forms with a quarter of the changes, all forms near the budget, or these to the end at every memory limit."""

_QUICK = 4
"""Divisor of the standard search's number of changes in a quick search."""
_NO_LIMIT = 1 << 60


def require_effort(effort: str) -> None:
    """InputError for an unknown effort."""
    if effort not in EFFORTS:
        raise InputError(f"--effort {effort!r} is unknown: choose {', '.join(EFFORTS[:-1])} or {EFFORTS[-1]}.")


def by_estimates(options: CascadeOptions) -> CascadeOptions:
    """The options without anything that is tried in replay, for a search whose replay is too slow for that."""
    return replace(options, constant_places=False, change_by_replays=False, other_costs=False)


def options_of(effort: str, options: CascadeOptions) -> CascadeOptions:
    """The options with few forms and changes if quick, any number of rows to change if thorough; InputError for another effort."""
    require_effort(effort)
    if effort == QUICK:
        drafts = replace(options.drafts, regroupings=options.drafts.regroupings // _QUICK)
        return replace(options, few_forms=True, other_costs=False, change_blocks=False, drafts=drafts)
    return replace(options, drafts=replace(options.drafts, rows=_NO_LIMIT)) if effort == THOROUGH else options
