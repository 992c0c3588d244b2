"""From parsed arguments to the values that the pipeline takes."""

from __future__ import annotations

import argparse

from testbed.memory_options import MemoryOptions


def memory_options(arguments: argparse.Namespace) -> MemoryOptions:
    """The memory system that was asked for."""
    return MemoryOptions(arguments.timing_adapter, arguments.system_config, arguments.memory_mode, arguments.config)
