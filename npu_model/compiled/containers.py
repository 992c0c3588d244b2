"""The file formats of compiled networks: ``*_vela.tflite``, ExecuTorch's ``.pte``, C arrays of either, and deployed forms."""

from __future__ import annotations

from npu_model.compiled.c_array import c_arrays
from npu_model.compiled.deployed import is_deployed, read_deployed
from npu_model.compiled.executorch import is_executorch, read_executorch
from npu_model.compiled.network import CompiledNetwork, is_compiled, read_compiled
from npu_model.compiled.raw_npz import is_raw
from npu_model.errors import InputError
from npu_model.tflite.identifiers import is_tflite
from npu_model.tflite.model import model_of


def unpacked(data: bytes) -> bytes:
    """Unpack a C source: its one array that is a .tflite or a ``vela_bin_stream``.

    Other files, including deployed forms, come back unchanged. InputError if the source has none, or several.
    """
    if is_tflite(data) or is_executorch(data) or is_raw(data):
        return data
    arrays = list(c_arrays(data))
    if not arrays:
        return data
    found = [array for array in arrays if is_tflite(array) or is_executorch(array)]
    if not found and is_deployed(data):
        return data
    if len(found) != 1:
        raise InputError(
            f"The C source has {len(found)} arrays of bytes with a .tflite or a vela_bin_stream, and no driver payload: give a file with "
            "one of them."
        )
    return found[0]


def is_delegate(data: bytes) -> bool:
    """Whether the result of :func:`unpacked` is a ``.pte`` or a ``vela_bin_stream``, whose inputs and outputs have no names."""
    return not is_tflite(data) and is_executorch(data)


def holds_payloads(data: bytes) -> bool:
    """Whether the result of :func:`unpacked` is a deployed form: driver payloads, in C or in a raw file."""
    return not is_tflite(data) and not is_executorch(data) and is_deployed(data)


def read_container(data: bytes) -> CompiledNetwork | None:
    """The compiled network in a result of :func:`unpacked`; None for a .tflite that is not compiled yet, or a TOSA network.

    InputError if it is damaged.
    """
    if is_delegate(data):
        return read_executorch(data)
    if holds_payloads(data):
        return read_deployed(data)
    return read_compiled(data) if is_compiled(model_of(data)) else None
