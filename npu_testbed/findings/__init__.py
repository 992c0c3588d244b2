"""Findings: changes that would make a schedule faster or smaller, each checked by a replay with that one change."""

from npu_testbed.findings.find import findings
from npu_testbed.findings.finding import Finding
from npu_testbed.findings.waits import what_bounds

__all__ = ["Finding", "findings", "what_bounds"]
