"""Results of the commands as values: what the command line prints, and what the verbs of the Python API return."""

from npu_testbed.outcomes.outcome import Outcome, TextOutcome

__all__ = ["Outcome", "TextOutcome"]
