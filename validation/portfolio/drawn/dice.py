"""Dice: seeded choices, the same on every platform."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Choices that follow from a ``seed`` alone."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"drawn {seed}")  # noqa: S311  # networks, no secrets

    def pick(self, *options: T) -> T:
        """One of the ``options``, all as likely."""
        return self._random.choice(options)

    def between(self, low: int, high: int) -> int:
        """A number from ``low`` to ``high``."""
        return self._random.randint(low, high)

    def chance(self, percent: int) -> bool:
        """Whether an event happens that has a chance of ``percent`` in 100."""
        return self._random.randrange(100) < percent

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """All ``options`` in some order."""
        return self._random.sample(list(options), len(options))
