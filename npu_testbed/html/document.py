"""The HTML file of a report: its data as JSON, and styles and scripts, which the package has as files of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from importlib import resources
from typing import Any

from npu_model.printable import printable
from npu_model.version import VERSION

SCRIPTS = (
    *("base.js", "plot.js", "table.js", "beside.js", "sweep.js", "frontier.js"),
    *("time.js", "map.js", "timeline.js", "network.js", "page.js"),
)
"""The scripts in order; concatenated, they are one script."""

_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"
"""A policy that keeps a browser from any network access."""


def _asset(name: str) -> str:
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")


def embedded(data: Mapping[str, Any]) -> str:
    r"""The data as JSON, escaped so that no name can close the element.

    >>> embedded({"name": "</script>"})
    '{"name":"\\u003c/script>"}'
    """
    return json.dumps(data, separators=(",", ":"), sort_keys=True).replace("<", "\\u003c")


def html_report(title: str, data: Mapping[str, Any]) -> bytes:
    """One file that holds everything; ``data`` has a ``sweep``, a ``frontier``, ``answers`` or a ``replay``, or several."""
    heading = escape(printable(title))
    script = "\n".join(_asset(name) for name in SCRIPTS)
    page = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="npu-testbed {VERSION}">
<title>{heading}</title>
<style>
{_asset("page.css")}</style>
</head>
<body>
<h1>{heading}</h1>
<main></main>
<script type="application/json" id="data">{embedded(data)}</script>
<script>
"use strict";
{script}</script>
</body>
</html>
"""
    return page.encode("utf-8")
