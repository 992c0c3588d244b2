"""Inputs of inferences: a user's NumPy files, one for each inference, followed by seeded inputs."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.program import Binding
from npu_testbed.proofs.verification import seeded_inputs
from validation.reading import read_file

_HEADER = 65_536
"""Bytes that an array's file may have in addition to its values, for the header."""


def inference_inputs(network: CompiledNetwork, files: Sequence[str | Path], count: int, seed: int) -> list[dict[str, NDArray[Any]]]:
    """Arrays by name for one inference per file of ``files``, and ``count`` more from :func:`seeded_inputs`.

    A file is an .npz with an array for each input by name, or an .npy for a network with one input. InputError if a file is damaged, or an
    array has another shape or type than its input.
    """
    given = [_arrays(Path(file), network.inputs) for file in files]
    return [*given, *seeded_inputs(network, count, seed)]


def _arrays(file: Path, inputs: Sequence[Binding]) -> dict[str, NDArray[Any]]:
    most = sum(one.size + _HEADER for one in inputs)
    data = read_file(file, "Input file", most)
    if data[:6] == npy.MAGIC_PREFIX:
        if len(inputs) != 1:
            raise InputError(f"{file} holds one array, and the network has {len(inputs)} inputs: give an .npz with {_names(inputs)}.")
        return {inputs[0].name: _array(data, inputs[0], file)}
    return {one.name: _array(_member(data, one, inputs, file), one, file) for one in inputs}


def _member(data: bytes, binding: Binding, inputs: Sequence[Binding], file: Path) -> bytes:
    """The unpacked file of one input in an archive; InputError if it is missing, or larger than the input."""
    name = f"{binding.name}.npy"
    try:
        with ZipFile(BytesIO(data)) as archive:
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            size = sizes.get(name)
            if size is not None and size <= binding.size + _HEADER:
                return archive.read(name)
    except Exception as error:  # whatever a damaged archive makes of its readers
        raise InputError(f"{file} is not an .npy or .npz file, or is damaged: write it with numpy.save or numpy.savez.") from error
    if size is None:
        raise InputError(f"{file} has no array {binding.name!r}: the network's inputs are {_names(inputs)}.")
    raise InputError(f"{file} has {size:,} bytes for {binding.name!r}, which has {binding.size:,}: give an array of its shape and type.")


def _names(inputs: Sequence[Binding]) -> str:
    return ", ".join(repr(one.name) for one in inputs)


def _array(data: bytes, binding: Binding, file: Path) -> NDArray[Any]:
    """The array of one input; InputError if it is damaged, or has another type or shape. Its header's claims reserve no memory."""
    stream = BytesIO(data)
    try:
        reader = npy.read_array_header_1_0 if npy.read_magic(stream) == (1, 0) else npy.read_array_header_2_0
        shape, is_fortran, dtype = reader(stream)
    except Exception as error:  # numpy reads a damaged header with Python's own tokeniser and parser
        raise _damaged(file, binding) from error
    kind = np.dtype(f"f{binding.dtype.bytes}" if binding.dtype.floating else str(binding.dtype))
    if dtype != kind or shape != binding.shape:
        raise InputError(
            f"{file} has {str(dtype)[:40]} of shape {str(shape)[:80]} for {binding.name!r}, which takes {kind} of shape {binding.shape}: "
            "quantise and reshape it first."
        )
    values = data[stream.tell() :]
    if len(values) != binding.size:
        raise _damaged(file, binding)
    return np.ascontiguousarray(np.frombuffer(values, kind).reshape(shape, order="F" if is_fortran else "C"))


def _damaged(file: Path, binding: Binding) -> InputError:
    return InputError(f"{file} holds a damaged array for {binding.name!r}: write it again with numpy.save or numpy.savez.")
