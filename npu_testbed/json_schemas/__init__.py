"""The published structure of every ``--json`` document, as JSON Schema (2020-12), one file per command.

>>> json_schema("simulate schedule")["properties"]["schema"]["const"] == schema_version("simulate schedule")
True
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from npu_testbed import documents

_FIRST = 1
_VERSIONS = {
    "validate fvp": 5,
    "calibrate fit": 4,
    "validate all": 2,
    "validate portfolio": 3,
    "validate portfolio --list": 2,
    "validate fvp --live": 2,
}
"""Versions of the documents that have changed since their first; raised whenever a field comes, goes or changes its meaning."""


def schema_version(command: str) -> int:
    """The version that a command's documents carry as ``schema``."""
    if command in documents.schema_names():
        return documents.schema_version(command)
    return _VERSIONS.get(command, _FIRST)


def schema_names() -> tuple[str, ...]:
    """The commands whose documents have a schema."""
    names = (entry.name for entry in resources.files(__name__).iterdir() if entry.name.endswith(".json"))
    texts = (json.loads((resources.files(__name__) / name).read_text(encoding="utf-8")) for name in names)
    return tuple(sorted((*documents.schema_names(), *(text["properties"]["command"]["const"] for text in texts))))


def json_schema(command: str) -> dict[str, Any]:
    """The JSON Schema of a command's document, such as "simulate vela"; KeyError if it has none."""
    if command in documents.schema_names():
        return documents.json_schema(command)
    if command not in schema_names():
        raise KeyError(command)
    name = "_".join(command.replace("--", "").replace("-", " ").split())
    found: dict[str, Any] = json.loads((resources.files(__name__) / f"{name}.json").read_text(encoding="utf-8"))
    return found
