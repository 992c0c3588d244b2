"""The portfolio beside Vela: each network compared and verified on its own, what was found kept, and the verdicts on it."""

from npu_testbed.portfolio.examination import examine
from npu_testbed.portfolio.run import examine_all
from npu_testbed.portfolio.verdict import Examined, Report

__all__ = ["Examined", "Report", "examine", "examine_all"]
