"""The cascading scheduler: graph, allocation, Schedule and its lowering to a Program. ``schedule`` and ``frontier`` answer a Request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npu_model.front import front

if TYPE_CHECKING:
    from cascader.ethosu.search.request import MemoryNames, ModelSource, NetworkSource, Request, Run
    from cascader.verbs import frontier, schedule

__all__ = ["MemoryNames", "ModelSource", "NetworkSource", "Request", "Run", "frontier", "schedule"]

# A replay alone needs no search.
__getattr__ = front(
    __name__,
    {
        "cascader.ethosu.search.request": ("MemoryNames", "ModelSource", "NetworkSource", "Request", "Run"),
        "cascader.verbs": ("frontier", "schedule"),
    },
)


def __dir__() -> list[str]:
    return __all__
