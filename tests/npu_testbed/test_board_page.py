"""The page docs/board.md: its measurements are those of the board that it names."""

from __future__ import annotations

from board_page import PAGE, true_page


def test_the_measurements_of_the_page_are_those_of_its_made_up_board() -> None:
    """Written anew with ``PYTHONPATH=. python tests/board_page.py``; test_doc_pages runs the page's commands."""
    assert true_page() == PAGE.read_text(encoding="utf-8")
