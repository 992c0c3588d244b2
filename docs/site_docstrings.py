"""Extension of griffe, which reads docstrings for the site: examples become blocks of code, roles become code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Docstring, Extension, Module, Object

_ROLE = re.compile(r":(?:func|class|data|mod|meth|attr):`[~!]?([^`]+)`")
_EXAMPLE = re.compile(r"(?:^[ \t]*>>>.*\n?)(?:^(?![ \t]*$).*\n?)*", re.MULTILINE)


def readable(text: str) -> str:
    """The docstring as Markdown: a doctest, up to the next empty line, in a fence; a role as the name that it refers to."""
    fenced = _EXAMPLE.sub(lambda match: f"\n```python\n{match[0].rstrip()}\n```\n", text)
    return _ROLE.sub(lambda match: f"`{match[1]}`", fenced)


class Readable(Extension):
    """Changes every docstring once it is read."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Replace the docstring of a top-level package, for which griffe does not call on_object."""
        self.on_object(obj=pkg)

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Replace the docstring of one object."""
        if obj.docstring is not None and "```" not in obj.docstring.value:
            obj.docstring = Docstring(readable(obj.docstring.value), lineno=obj.docstring.lineno, parent=obj)
