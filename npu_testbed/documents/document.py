"""The base of every ``--json`` document, and of its parts.

A document is a Struct whose fields are its keys. Each key has a type and a description. ``json_schema`` of :mod:`npu_testbed.documents`
publishes both. A key that a document may leave out is UNSET by default.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, convert

from npu_model.version import VERSION

__all__ = ["STRUCTURE", "VERSION", "Document", "Entry", "ProductVersion", "extended", "given", "meaning"]

D = TypeVar("D", bound="Entry")
T = TypeVar("T")


def meaning(text: str) -> Meta:
    """The description of a field in the schema; one name of a field has one meaning in all documents."""
    return Meta(description=text)


STRUCTURE = meaning("Version of this document's structure.")
"""The description of ``schema``, the number that is raised whenever a key comes, goes or changes its meaning."""


ProductVersion = Annotated[str, meaning("Version of npu-testbed.")]


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """An object of a document."""


class Document(Entry, frozen=True, kw_only=True, tag_field="command"):
    """A whole document. Its class has the command as its tag, and adds ``schema`` with the only value that it has."""

    version: ProductVersion = VERSION


def given(value: T | None) -> T | UnsetType:
    """The value of a key, or UNSET if there is none, so that the document omits the key."""
    return UNSET if value is None else value


def extended(kind: type[D], value: object, **more: Any) -> D:
    """An object of ``kind`` from the attributes of ``value`` that are named like its fields, and further fields, which come first.

    So are the objects within. A field that is published by another name than its value's attribute declares that name.
    """
    keys = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    found = {name: getattr(value, name) for name in keys if name not in more and hasattr(value, name)} | more
    return convert({keys[name]: one for name, one in found.items() if one is not UNSET}, kind, from_attributes=True)
