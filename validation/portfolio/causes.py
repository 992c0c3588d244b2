"""Why our schedules miss a bar on a network of the portfolio, as far as it is known: a sentence by the network's name."""

from __future__ import annotations

CAUSES: dict[str, str] = {}
"""Empty as long as none is missed, or no cause is known."""
