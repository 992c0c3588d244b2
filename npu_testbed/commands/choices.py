"""From parsed arguments to the values that the pipeline takes."""

from __future__ import annotations

import argparse

from npu_model.errors import InputError
from npu_testbed.memory_options import MemoryOptions
from npu_testbed.settings import setting


def memory_options(arguments: argparse.Namespace) -> MemoryOptions:
    """The memory system that was asked for."""
    settings = tuple(setting(text) for text in getattr(arguments, "settings", ()))
    if len(dict(settings)) < len(settings):
        raise InputError("--set was given twice with the same key: give each once.")
    return MemoryOptions(arguments.timing_adapter, arguments.system_config, arguments.memory_mode, arguments.config, settings)
