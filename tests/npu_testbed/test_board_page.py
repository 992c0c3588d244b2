"""The page docs/board.md: every step from a board's counters to a schedule runs, and prints what the page says."""

from __future__ import annotations

import pytest
from board_page import PAGE, true_page


def test_the_page_takes_a_user_from_a_boards_counters_to_a_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Written anew with ``PYTHONPATH=. python tests/board_page.py``."""
    pytest.importorskip("scipy", reason="the extra 'calibrate' is not installed")
    monkeypatch.setenv("COLUMNS", "132")
    assert true_page() == PAGE.read_text(encoding="utf-8")
