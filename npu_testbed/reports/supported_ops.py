"""The operators that run on the NPU, as a Markdown page: Vela's option ``--supported-ops-report``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib import metadata

from npu_model.printable import printable
from npu_model.version import VERSION
from validation.vela.supported import operator_constraints

GENERAL = 0.8
"""Share of the operators from which on a condition counts as general, so that the page says it once."""


def general_conditions(constraints: Mapping[str, tuple[str, ...]], least: float = GENERAL) -> dict[str, tuple[str, ...]]:
    """The conditions of at least ``least`` of the operators, each with the operators that do not have it.

    >>> general_conditions({"ADD": ("a", "b"), "MUL": ("a", "c"), "SUB": ("a",)}, 0.6)
    {'a': ()}
    >>> general_conditions({"ADD": ("a", "b"), "MUL": ("a", "c"), "SUB": ("b",)}, 0.6)
    {'a': ('SUB',), 'b': ('MUL',)}
    """
    counts = Counter(condition for conditions in constraints.values() for condition in set(conditions))
    return {
        condition: tuple(name for name, conditions in constraints.items() if condition not in conditions)
        for condition, count in sorted(counts.items())
        if count >= least * len(constraints)
    }


def _condition(text: str, without: tuple[str, ...] = ()) -> str:
    """An item of a list; Vela's own nested lists stay lists."""
    first, *others = (printable(line, 1000) for line in text.splitlines())
    exceptions = f" Not asked of {', '.join(without)}." if without else ""
    return "\n".join([f"- {first}{exceptions}", *(f"  {line}" for line in others)])


def supported_ops_page(constraints: Mapping[str, tuple[str, ...]] | None = None) -> str:
    """The page; ``constraints`` are Vela's if None. InputError if Vela cannot be asked."""
    constraints = operator_constraints() if constraints is None else constraints
    general = general_conditions(constraints)
    about = (
        f"npu-testbed {VERSION} schedules the operators that Vela {metadata.version('ethos-u-vela')} puts on the NPU: "
        f"{len(constraints)} operators of TFLite, each if it meets the conditions below. All others stay on the CPU: they are parts of "
        "the schedule, their tensors lie in the arena, and no NPU cycles are counted for them. "
        "`npu-testbed schedule MODEL -o S.json --show-cpu-operations` names those of a network."
    )
    lines = [
        "# Operators of the Ethos-U55",
        "",
        about,
        "",
        "## Conditions of all operators",
        "",
        *(_condition(text, without) for text, without in general.items()),
        "",
        "## Operators",
    ]
    for name, conditions in constraints.items():
        own = [_condition(text) for text in conditions if text not in general]
        lines += ["", f"### {name}", "", *(own or ["No further condition."])]
    return "\n".join(lines) + "\n"
