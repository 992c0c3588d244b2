"""CompileOptions: what a compilation is asked for, by Vela's names where Vela has one."""

from __future__ import annotations

from fractions import Fraction

from msgspec import Struct

from npu_model.errors import InputError
from npu_model.printable import shown
from npu_model.program.alignment import ALIGNMENT
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_testbed.memory_options import NO_OPTIONS, MemoryOptions
from npu_testbed.scheduling import DEFAULT_EFFORT, DEFAULT_OPTIMISE, check_budget, check_names

DEFAULT_ACCELERATOR = "ethos-u55-256"
"""Vela's default: a file that replaces one of Vela's must run where that one did."""

PROMISE, FEWEST_BYTES, FEWEST_CYCLES = AIMS = "promise", "fewest-bytes", "fewest-cycles"
"""Aims of a compilation: no larger and no slower than Vela, or only one of the two, for which the other is given."""

_MOST_ALIGNMENT = 1 << 20


class CompileOptions(Struct, frozen=True):
    """Options of a compilation, by Vela's names; ``ignore_ops`` are builtin operators that stay on the CPU.

    ``aim`` is one of :data:`AIMS`. ``output_format`` is tflite or raw: Vela's ``.npz`` of a network that runs on the NPU as a whole.
    ``cpu_tensor_alignment`` is that of the tensors that operators on the CPU and the custom operators have, in bytes. With ``legacy`` it is
    Vela's Python core that ours is held to. ``recompute`` and ``homes`` are as :func:`npu_testbed.scheduling.schedule` has them.
    """

    accelerator: str = DEFAULT_ACCELERATOR
    arena_cache_size: int | None = None
    optimise: str = DEFAULT_OPTIMISE
    cascade: bool = True
    effort: str = DEFAULT_EFFORT
    recompute: Fraction | None = None
    homes: tuple[str, ...] = ()
    memory: MemoryOptions = NO_OPTIONS
    ignore_ops: tuple[str, ...] = ()
    processes: int | None = None
    timing: TimingParameters = DEFAULT_TIMING
    output_format: str = "tflite"
    aim: str = PROMISE
    cpu_tensor_alignment: int = ALIGNMENT
    legacy: bool = False

    def check(self) -> None:
        """InputError for a value that there is not."""
        check_budget(self.arena_cache_size)
        check_names(self.optimise, self.effort)
        if self.aim not in AIMS:
            raise InputError(f"The aim {self.aim!r} of a compilation is unknown: choose {', '.join(AIMS[:-1])} or {AIMS[-1]}.")
        if self.homes and self.legacy:
            raise InputError(
                f"--debug-force-legacy-core was given together with --home {shown(self.homes[0])}: Vela's Python core keeps inputs and "
                "outputs in its arena; drop one of them."
            )
        size = self.cpu_tensor_alignment
        if not ALIGNMENT <= size <= _MOST_ALIGNMENT or size & (size - 1):
            raise InputError(f"--cpu-tensor-alignment {size} is no power of 2 from {ALIGNMENT} to {_MOST_ALIGNMENT}: give one of these.")
