"""JSON Schemas (2020-12) of the documents, made from their Structs on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from msgspec.json import schema_components
from msgspec.structs import fields

from npu_testbed.documents.document import Entry


def structure(kind: type[Entry]) -> int:
    """The version of the structure of a kind of document, the only value of its ``schema``."""
    version: int = next(field.default for field in fields(kind) if field.name == "schema")
    return version


@cache
def _kinds() -> dict[str, type[Entry]]:
    """The kinds of documents by command."""
    for module in iter_modules([str(Path(__file__).parent)], "npu_testbed.documents."):
        import_module(module.name)
    return {str(kind.__struct_config__.tag): kind for kind in _below(Entry)}


def _below(kind: type[Entry]) -> Iterator[type[Entry]]:
    """The kinds with a version of their own; other classes are bases of several documents."""
    for one in kind.__subclasses__():
        if "schema" in one.__struct_fields__:
            yield one
        yield from _below(one)


def schema_version(command: str) -> int:
    """The version that a command's documents carry as ``schema``; KeyError if it has none."""
    return structure(_kinds()[command])


def schema_names() -> tuple[str, ...]:
    """The commands whose documents have a schema."""
    return tuple(sorted(_kinds()))


def json_schema(command: str) -> dict[str, Any]:
    """The JSON Schema of a command's document, such as "simulate vela"; KeyError if it has none."""
    (whole,), parts = schema_components([_kinds()[command]], ref_template="{name}")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"npu-testbed {command} --json"}
    return head | _written_out(whole, parts)


def _written_out(node: Mapping[str, Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    """A node of msgspec's schema with every reference replaced by its content, without names and docstrings of Structs."""
    found = {key: value for key, value in node.items() if key not in ("$ref", "default", "anyOf", "enum")}
    if "$ref" in node:
        part = parts[node["$ref"]]
        found = {key: value for key, value in part.items() if key not in ("title", "description")} | found
    if "properties" in found:
        found["additionalProperties"] = False
        # A key with a default other than UNSET is always present.
        found["required"] = sorted({*found["required"], *(key for key, one in found["properties"].items() if "default" in one)})
        found["properties"] = {key: _written_out(one, parts) for key, one in found["properties"].items()}
    for inner in ("items", "additionalProperties"):
        if isinstance(found.get(inner), dict):
            found[inner] = _written_out(found[inner], parts)
    if "enum" in node:
        found |= {"const": node["enum"][0]} if len(node["enum"]) == 1 else {"enum": node["enum"]}
    if "anyOf" in node:
        options = [_written_out(one, parts) for one in node["anyOf"]]
        found |= {key: value for one in options for key, value in one.items()} | {"type": [one["type"] for one in options]}
    return found
