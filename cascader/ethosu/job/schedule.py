"""Schedule: the jobs of a network in order, its buffers with addresses, and the origin of all of it."""

from __future__ import annotations

from fractions import Fraction

from msgspec import UNSET, Struct, UnsetType

from cascader.ethosu.network.network import Network
from cascader.plan.jobs import Buffer, Copy, Job
from npu_model.memory.system import MemorySystem
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up
from npu_model.timing import DEFAULT_TIMING, TimingParameters


class RequestRecord(Struct, frozen=True, omit_defaults=True):
    """The fields of a Request that a schedule holds nowhere else; fields with their defaults are left out.

    - ``budget``, ``optimise``, ``cascade``, ``effort``, ``rungs``, ``recompute``, ``within``, ``homes``, ``spill``, ``keep_inputs`` and
      ``ignore_ops`` are those of :class:`~cascader.ethosu.search.request.Request`.
    - ``system_config``, ``memory_mode``, ``config`` (without its folder) and ``settings`` name the memories.
    """

    budget: int | None = None
    optimise: str = ""
    cascade: bool = True
    effort: str = ""
    rungs: int | None = None
    recompute: Fraction | None = None
    within: Fraction | None = None
    homes: tuple[str, ...] = ()
    spill: str | None = None
    keep_inputs: bool = False
    ignore_ops: tuple[str, ...] = ()
    system_config: str = ""
    memory_mode: str = ""
    config: str = ""
    settings: tuple[tuple[str, str], ...] = ()


class Provenance(Struct, frozen=True):
    """Origin of a schedule: the model's file name without folder and its SHA-256, versions of the tools, memory system and timing.

    ``nhwc`` names the inputs and outputs that are NHWC where the model has NCHW (UNSET: none). ``request`` holds the other fields of the
    request (UNSET: none).
    """

    model: str = ""
    model_sha256: str = ""
    tools: tuple[tuple[str, str], ...] = ()
    memory_system: MemorySystem | None = None
    timing: TimingParameters = DEFAULT_TIMING
    nhwc: tuple[str, ...] | UnsetType = UNSET
    request: RequestRecord | UnsetType = UNSET


UNKNOWN = Provenance()
"""The origin of a schedule of unknown origin."""


class Schedule(Struct, frozen=True):
    """A schedule. It is self-contained: lowering it needs nothing else.

    Jobs run in order, one per step. Every tensor of the arena is in one buffer. ``copies`` stage weights and scales, in the order of their
    issue. ``arena_size`` is the bytes that buffers and copies together span, a multiple of 16. The rules are in
    :func:`~cascader.ethosu.verify.check.check_schedule`.
    """

    accelerator: str
    network: Network
    jobs: tuple[Job, ...]
    buffers: tuple[Buffer, ...]
    arena_size: int
    provenance: Provenance = UNKNOWN
    copies: tuple[Copy, ...] = ()


def arena_extent(buffers: tuple[Buffer, ...]) -> int:
    """Bytes from address 0 to the end of the highest buffer, rounded up to 16."""
    return round_up(max((buffer.address + buffer.size for buffer in buffers), default=0), ALIGNMENT)
