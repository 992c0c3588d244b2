"""The base of every ``--json`` document, and of its parts.

A document is a Struct whose fields are its keys: the type says what a key holds, the description what it means. ``json_schema`` of
:mod:`npu_testbed.documents` publishes both. A key that a document may leave out is UNSET by default.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from npu_testbed import VERSION


def meaning(text: str) -> Meta:
    """The description of a field in the schema; one name of a field has one meaning in all documents."""
    return Meta(description=text)


STRUCTURE = meaning("Version of this document's structure.")
"""The description of ``schema``, the number that is raised whenever a key comes, goes or changes its meaning."""


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """An object of a document."""


class Document(Entry, frozen=True, kw_only=True):
    """A whole document. Its class adds ``command`` and ``schema``, each with the only value that it has."""

    version: Annotated[str, meaning("Version of npu-testbed.")] = VERSION
