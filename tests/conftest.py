"""Settings of all tests: generated examples are the same in every run."""

from __future__ import annotations

import os

from hypothesis import settings

# Tables are as wide as without a terminal, whatever runs the tests; whoever asks for a width sets it.
os.environ.pop("COLUMNS", None)

settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.load_profile("reproducible")
