"""Reports as one HTML file each, which needs no network: the data as JSON, and the scripts that draw it."""

from npu_testbed.html.document import html_report

__all__ = ["html_report"]
