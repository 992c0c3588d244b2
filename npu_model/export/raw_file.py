"""The arrays that Vela writes with ``--output-format raw``, for a runtime without TFLite, such as ExecuTorch's."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from npu_model.command_stream import COP_FORMATS
from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.export.regions import (
    ARENA,
    CONSTANTS,
    FAST_SCRATCH,
    check_network,
    check_written,
    constants_of,
    cpu_codes,
    needs_fast_scratch,
    size_of,
)
from npu_model.export.tflite_file import payload_of
from npu_model.program import Binding, RegionRole

_AXES = 6
"""Axes of a shape in the file: the C++ core of Vela 5.2 puts ones before the tensor's own axes."""


def _whole(content: bytes) -> NDArray[np.bytes_]:
    """Bytes as one string array, as in Vela's file, but NumPy does not drop zeros at the end."""
    return np.frombuffer(content, f"S{len(content)}").reshape(()) if content else np.zeros(0, "S1")


def _arrays(kind: str, bindings: tuple[Binding, ...]) -> dict[str, NDArray[np.int64]]:
    for one in bindings:
        if len(one.shape) > _AXES:
            raise InputError(f"Tensor {one.name!r} has {len(one.shape)} axes and a raw file takes {_AXES}: reshape it.")
    shapes = [(*(1,) * (_AXES - len(one.shape)), *one.shape) for one in bindings]
    return {
        f"{kind}_shape": np.array(shapes, np.int64).reshape(len(bindings), _AXES),
        f"{kind}_elem_size": np.array([one.dtype.bytes for one in bindings], np.int64),
        f"{kind}_region": np.array([one.region for one in bindings], np.int64),
        f"{kind}_offset": np.array([one.address for one in bindings], np.int64),
    }


def export_raw(network: CompiledNetwork, cop_format: str = COP_FORMATS[0]) -> bytes:
    """The ``.npz`` file of a network with one program: commands, constants, bytes of scratch, and addresses of inputs and outputs.

    Its arrays are the same as Vela 5.2's, except for the quantisation, which Vela pickles and ExecuTorch 1.5 does not read. ``cop_format``
    is the format of the driver payload. InputError if the network has CPU operators, several programs, states, a separate fast scratch or
    tensors outside the arena.
    """
    check_network(network)
    if codes := cpu_codes(network):
        raise InputError(f"A raw file holds no operators of the CPU and the network has {codes[0]}: write tflite.")
    check_written(network, "a raw file")
    if len(network.programs) != 1:
        raise InputError(f"A raw file holds 1 program and the network has {len(network.programs)}: write tflite.")
    (program,) = network.programs
    if any(region.role is RegionRole.HOME for region in program.regions):
        raise InputError(
            "A raw file is for ExecuTorch, which hands the NPU three base addresses, and the network has tensors outside the arena: write "
            "tflite or the C format."
        )
    if needs_fast_scratch(program) or network.variables:
        raise InputError("A raw file is written without states and without a fast scratch of its own, which the network has: write tflite.")
    content = io.BytesIO()
    np.savez(
        content,
        allow_pickle=False,
        cmd_data=_whole(payload_of(program, cop_format, network.arena_size)),
        weight_data=_whole(constants_of(program)),
        weight_region=np.int64(CONSTANTS),
        scratch_shape=np.array([network.arena_size], np.int64),
        scratch_region=np.int64(ARENA),
        scratch_size=np.int64(network.arena_size),
        scratch_fast_shape=np.zeros(1, np.int64),
        scratch_fast_region=np.int64(0 if size_of(program, FAST_SCRATCH) is None else FAST_SCRATCH),
        scratch_fast_size=np.int64(0),
        **_arrays("input", network.inputs),
        **_arrays("output", network.outputs),
        **_arrays("variable", ()),
    )
    return content.getvalue()
