"""Results of the commands as values: the command line prints them, and the verbs of the Python API return them."""

from npu_testbed.outcomes.outcome import Outcome, TextOutcome

__all__ = ["Outcome", "TextOutcome"]
