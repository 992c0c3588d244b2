"""The exception that bad input raises, whatever package finds it, and its kind for a program that did not answer."""

from __future__ import annotations


class InputError(ValueError):
    """Bad input: the message is one sentence with the value, the bound and the remedy.

    The command line prints the message alone and exits with status 2.
    """


class UnfinishedError(InputError):
    """A program that was asked did not come to its end: it says nothing of what it was asked."""
