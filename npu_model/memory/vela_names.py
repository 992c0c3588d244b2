"""Names of Vela's default memories."""

from __future__ import annotations

DEFAULT_SYSTEM_CONFIG = "Ethos_U55_High_End_Embedded"
"""Vela 5.2.0's default ``--system-config`` for the U55."""
DEFAULT_MEMORY_MODE = "Shared_Sram"
"""Vela 5.2.0's default ``--memory-mode`` for the U55."""
