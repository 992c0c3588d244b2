"""The base of every ``--json`` document, and of its parts.

A document is a Struct whose fields are its keys. Each key has a type and a description. ``json_schema`` of :mod:`npu_testbed.documents`
publishes both. A key that a document may leave out is UNSET by default.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, convert

from npu_model.version import VERSION

__all__ = ["STRUCTURE", "VERSION", "Document", "Entry", "ProductVersion", "checked", "extended", "given", "meaning"]

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


class Document(Entry, frozen=True):
    """A whole document. Its class adds ``command`` and ``schema``, each with the only value that it has, and ``version``."""


def given(value: T | None) -> T | UnsetType:
    """The value of a key, or UNSET if there is none, so that the document omits the key."""
    return UNSET if value is None else value


def extended(kind: type[D], entry: Struct, **more: Any) -> D:
    """An object of ``kind`` from ``entry`` and further fields, which come first."""
    return kind(**{key: getattr(entry, key) for key in entry.__struct_fields__} | more)


def checked(kind: type[D], plain: dict[str, Any]) -> D:
    """Make a document from plain JSON values, such as a peer's result. Each value must have its key's type."""
    return convert(plain, kind)
