"""The one exception that bad input raises, whatever package finds it."""

from __future__ import annotations


class InputError(ValueError):
    """Bad input: the message is one sentence with the value, the bound and the remedy.

    The command line prints the message alone and exits with status 2.
    """
