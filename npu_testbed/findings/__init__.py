"""Findings: what would make a schedule faster or smaller, each held to a replay with that one thing changed."""

from npu_testbed.findings.find import findings
from npu_testbed.findings.finding import Finding

__all__ = ["Finding", "findings"]
