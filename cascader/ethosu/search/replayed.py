"""Replayed drafts, which a search compares, and the Points of those that a user sees."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from cascader.draft.draft import Draft
from cascader.ethosu.search.form import Form
from cascader.ethosu.search.task import Point


class Replayed(Struct, frozen=True, eq=False):
    """A draft of a form, and its ``cycles`` in replay."""

    form: Form
    draft: Draft
    cycles: int

    @property
    def memory(self) -> int:
        """Bytes of the arena."""
        return self.draft.memory

    def point(self) -> Point:
        """The Point of the draft's Schedule, which is not checked."""
        return Point(self.memory, self.cycles, self.draft.cycles, self.form.schedule(self.draft))

    def answer(self) -> Point:
        """The Point, with an estimate that counts the draft's own copies, which replays may have changed."""
        return replace(self.point(), estimate=self.form.expected(self.draft))
