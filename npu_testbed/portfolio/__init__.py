"""The portfolio compared with Vela: each network compared and verified alone, the findings kept, and their verdicts."""

from npu_testbed.portfolio.examination import examine
from npu_testbed.portfolio.run import examine_all
from npu_testbed.portfolio.verdict import Examined, Report

__all__ = ["Examined", "Report", "examine", "examine_all"]
