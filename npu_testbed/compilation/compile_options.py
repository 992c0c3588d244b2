"""The terms of a compilation in addition to its Request: its promise, the file to write, and the names of its files."""

from __future__ import annotations

from pathlib import PurePath

from msgspec import Struct

from cascader.ethosu.search.request import Request
from npu_model.errors import InputError
from npu_model.printable import shown
from npu_model.program.alignment import ALIGNMENT
from npu_testbed.models.sources import BUILT

PROMISE, FEWEST_BYTES, FEWEST_CYCLES = AIMS = "promise", "fewest-bytes", "fewest-cycles"
"""Aims of a compilation: no larger and no slower than Vela, or only one of these at the expense of the other."""

MOST_ALIGNMENT = 1 << 20


class Target(Struct, frozen=True):
    """The file of a compilation, and the promise that it must keep. The fields have Vela's names where Vela has one.

    ``aim`` is one of :data:`AIMS`. ``output_format`` is tflite or raw: Vela's ``.npz`` of a network that runs on the NPU as a whole.
    ``cpu_tensor_alignment`` aligns the tensors of CPU operators and of the custom operators, in bytes. With ``legacy``, ours is compared
    with Vela's Python core. ``runtime`` names the runtime of the file (None: any).
    """

    aim: str = PROMISE
    output_format: str = "tflite"
    cpu_tensor_alignment: int = ALIGNMENT
    legacy: bool = False
    runtime: str | None = None

    def check(self, request: Request) -> None:
        """InputError for an unknown value, or for one that the request excludes."""
        request.check()
        if self.aim not in AIMS:
            raise InputError(f"The aim {self.aim!r} of a compilation is unknown: choose {', '.join(AIMS[:-1])} or {AIMS[-1]}.")
        if request.homes and self.legacy:
            raise InputError(
                f"--debug-force-legacy-core cannot be combined with --home {shown(request.homes[0])}: Vela's Python core keeps inputs and "
                "outputs in its arena; drop one of them."
            )
        size = self.cpu_tensor_alignment
        if not ALIGNMENT <= size <= MOST_ALIGNMENT or size & (size - 1):
            raise InputError(f"--cpu-tensor-alignment {size} is not a power of 2 from {ALIGNMENT} to {MOST_ALIGNMENT}: give one of these.")


def source_name(source: str) -> str:
    """The stem that the files of a source are named with: a path's last part, or the name of a network that the package builds.

    >>> source_name("models/person.tflite"), source_name("zoo:ds_cnn")
    ('person', 'ds_cnn')
    """
    return network_name(source if source.startswith(BUILT) else PurePath(source).name)


def network_name(model: str) -> str:
    """The stem that the files of a model are named with.

    >>> network_name("person.tflite"), network_name("out.tosa"), network_name("zoo:ds_cnn")
    ('person', 'out', 'ds_cnn')
    """
    for prefix in BUILT:
        model = model.removeprefix(prefix)
    return PurePath(model.replace("/", "_")).stem if model.lower().endswith((".tflite", ".tosa")) else model.replace("/", "_")
