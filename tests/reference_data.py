"""Where the shared reference data lies."""

from __future__ import annotations

from pathlib import Path

import pytest


def shared_data() -> Path:
    """Folder of reference networks and measurements; skips the test if it is absent."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"the reference data folder {folder.name} is not beside the repository")
    return folder
