"""A device made up for the generic search: start-ups and cycles per row, constants that are cheaper staged, a memory that is shared."""

from __future__ import annotations

from msgspec import Struct

from cascader.plan.group_costs import FrontTimes, JobTimes


class ToyCosts(Struct, frozen=True):
    """Parts of an even number have constants of some rows of 16 bytes; reading them at home costs four cycles a row each time.

    With ``moves`` parts 1, 5 and so on are transfers. With ``fetch`` cycles jobs wait for their commands, and some for a table.
    """

    start_up: int = 5
    per_row: int = 10
    home: int = 4
    shares: bool = False
    moves: bool = False
    fetch: int = 0

    def is_transfer(self, part: int) -> bool:
        return self.moves and part % 4 == 1

    def compute_cycles(self, part: int, start: int, end: int) -> int:
        return self.start_up + (end - start) * (self.per_row + part)

    def constant_bytes(self, part: int) -> int:
        return 0 if part % 2 else 16 * (1 + part)

    def direct_cycles(self, part: int, start: int, end: int) -> int:
        return self.compute_cycles(part, start, end) + self.home * self.constant_bytes(part) // 4

    def same_constants(self, part: int) -> int:
        """Parts 0 and 4 read the same, as far as the search knows."""
        return 0 if part == 4 and self.shares else part

    def hidden(self, part: int, start: int, end: int) -> int:
        return min(7, self.compute_cycles(part, start, end)) if self.is_transfer(part) and end - start <= 1 else 0

    def transfer_cycles(self, part: int) -> int:
        return 3 + self.home * self.constant_bytes(part) // 4

    def times(self, part: int, start: int, end: int) -> JobTimes:
        staged, direct = self.compute_cycles(part, start, end), self.direct_cycles(part, start, end)
        home = self.home * self.constant_bytes(part) // 4
        commands = self.fetch * (1 + part % 3)
        front = FrontTimes(commands, 2 * commands, 3 * commands, self.fetch, copy_commands=self.fetch)
        if self.fetch and part % 3:
            front = front._replace(last_transfer=self.transfer_cycles(part), copy_wait=3)
        if self.is_transfer(part):
            return JobTimes(part, staged, staged, 0, 0, staged, 0, 0, 0, copier=staged, front=front)
        leads = {"lead": min(3, home), "tail": 2, "staged_lead": min(1, staged), "staged_tail": 1}
        front = front._replace(table=self.fetch if part % 3 == 2 else 0, late_table=self.fetch if part % 4 == 3 else 0)
        return JobTimes(part, staged, direct, contended=direct + home, home=home, front=front, **leads)
