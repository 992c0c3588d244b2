"""Findings: what would make a schedule faster or smaller, each held to a replay with that one thing changed."""

from npu_testbed.findings.find import findings
from npu_testbed.findings.finding import Finding
from npu_testbed.findings.waits import what_bounds

__all__ = ["Finding", "findings", "what_bounds"]
