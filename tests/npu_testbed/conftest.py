"""Settings of the tests of the application, whose subject is what is done with a schedule. tests/cascader tests how it is found."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def every_module_shares_searches(searches_are_kept: None) -> None:
    """Searches of the application take the answers of earlier ones."""
