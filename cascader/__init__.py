"""The cascading scheduler: graph, allocation, Schedule and its lowering to a Program. ``schedule`` and ``frontier`` answer a Request."""

from __future__ import annotations

from npu_model.front import front

# A replay alone needs no search.
with front() as __getattr__:
    from cascader.ethosu.search.request import MemoryNames, ModelSource, NetworkSource, Request, Run
    from cascader.verbs import frontier, schedule

__all__ = ["MemoryNames", "ModelSource", "NetworkSource", "Request", "Run", "frontier", "schedule"]


def __dir__() -> list[str]:
    return __all__
