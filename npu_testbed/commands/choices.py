"""From parsed arguments to the values that the pipeline takes."""

from __future__ import annotations

import argparse

from npu_model.errors import InputError
from npu_testbed.home_file import home_file
from npu_testbed.memory_options import MemoryOptions
from npu_testbed.settings import setting


def memory_options(arguments: argparse.Namespace) -> MemoryOptions:
    """The memory system that was asked for."""
    settings = tuple(setting(text) for text in getattr(arguments, "settings", ()))
    if len(dict(settings)) < len(settings):
        raise InputError("--set was given twice with the same key: give each once.")
    return MemoryOptions(arguments.timing_adapter, arguments.system_config, arguments.memory_mode, arguments.config, settings)


def arena_bound(arguments: argparse.Namespace) -> int | None:
    """Most bytes of the arena: those of ``--arena-cache-size``, else those of the memory mode, which is then said; None if neither says."""
    from npu_model.accelerator import DEFAULT_ACCELERATOR
    from npu_testbed.device_memory import memory_of
    from npu_testbed.endings import say

    given, memory = getattr(arguments, "arena_cache_size", None), memory_options(arguments)
    memory = memory_of(getattr(arguments, "accelerator_config", None) or DEFAULT_ACCELERATOR, memory)
    bound = memory.arena_bound(given)
    if given is None and bound is not None:
        overrides = "; --arena-cache-size overrides it" if "arena_cache_size" in arguments else ""
        say("note", f"arena_cache_size of memory mode {memory.vela_names[1]} bounds the arena to {bound:,} bytes{overrides}.")
    return bound


def home_options(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The homes that were asked for, as pairs WHAT=MEMORY; those of a file in its order."""
    found: list[str] = []
    for text in arguments.homes:
        found += [text] if "=" in text else home_file(text)
    return tuple(found)
