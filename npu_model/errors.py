"""The exception for bad input, in every package, and its kind for a program that did not answer."""

from __future__ import annotations

from collections.abc import Iterable

from npu_model.front import later

with later():
    import difflib  # most names are right


class InputError(ValueError):
    """Bad input: the message is one sentence with the value, the bound and the remedy.

    The command line prints the message alone and exits with status 2.
    """


class LimitError(InputError):
    """Sound input that is beyond the limits of this project. It must never be reported as a fault of Vela's."""


class BudgetError(InputError):
    """A budget of the arena that no schedule is known to meet."""


class FloorError(BudgetError):
    """A budget below what every schedule needs; ``ways`` are options with which every schedule would need less, each with a clause."""

    def __init__(self, sentence: str, ways: tuple[tuple[str, str], ...] = (), *, of_forms: bool = False) -> None:
        """``sentence`` names the needed bytes, without a remedy or a full stop.

        With ``of_forms``, the search's forms need them. Any option that brings other forms may help.
        """
        super().__init__(sentence, ways)
        self.sentence, self.ways, self.of_forms = sentence, ways, of_forms

    def __str__(self) -> str:
        """The sentence, and the options with their clauses."""
        named = " or ".join(f"{option} ({clause})" for option, clause in self.ways)
        more = f"{self.sentence}: allow more (`npu-testbed frontier` names the smallest arena)"
        return f"{more}, or try {named}." if named else f"{more}."


class SearchedError(BudgetError):
    """A budget of the arena that a search did not meet; other options may."""


class UnfinishedError(InputError):
    """A program that was started did not end: so nothing is known about its answer."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A question after a sentence on an unknown name; "" if no known name is similar.

    >>> did_you_mean("tiny_con", ["vgg", "tiny_conv"]), did_you_mean("x", ["vgg"])
    (' (did you mean tiny_conv?)', '')
    """
    near = difflib.get_close_matches(name, names, 1, 0.75)
    return f" (did you mean {near[0]}?)" if near else ""
