"""Raw files: the ``.npz`` of Vela and of ``export --format raw``, with one driver payload, its constants, inputs and outputs."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu_model.compiled.network import CompiledNetwork
from npu_model.compiled.payload_network import payload_network
from npu_model.errors import InputError
from npu_model.program import Binding, DataType

_ZIP = b"PK\3\4"
_COMMANDS = b"cmd_data.npy"
_MOST_BYTES = 1 << 28
_RANK = 4
"""Number of last dimensions that are kept. The earlier dimensions are 1 for most tensors."""

_REGIONS = 8
_Arrays = dict[str, NDArray[Any]]
_ENDS = ("shape", "elem_size", "region", "offset")
_NAMES = ("cmd_data", "weight_data", "scratch_shape", *(f"{kind}_{what}" for kind in ("input", "output") for what in _ENDS))


def is_raw(data: bytes) -> bool:
    """Whether the bytes are a raw file."""
    return data.startswith(_ZIP) and _COMMANDS in data


def _read(data: bytes) -> _Arrays:
    """The arrays of a raw file. Vela's other arrays are pickled and are not read."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(one.file_size for one in archive.infolist())
    except Exception as error:  # noqa: BLE001  # whatever a damaged archive makes of its readers
        raise _unreadable(error) from None
    if size > _MOST_BYTES:
        raise InputError(f"The raw file unpacks to {size} bytes: {_MOST_BYTES} are the most that are read.")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return {name: np.asarray(arrays[name]) for name in _NAMES}
    except Exception as error:  # noqa: BLE001  # the same
        raise _unreadable(error) from None


def _unreadable(error: Exception) -> InputError:
    return InputError(f"The raw file cannot be read ({type(error).__name__}): write it again.")


def _ends(arrays: _Arrays, kind: str) -> Iterator[Binding]:
    """The inputs or outputs. Their signedness is not given."""
    columns = [arrays[f"{kind}_{what}"] for what in _ENDS]
    lengths = {len(one) if one.ndim else 0 for one in columns}
    if any(one.dtype.kind not in "iu" for one in columns) or [one.ndim for one in columns] != [2, 1, 1, 1] or len(lengths) != 1:
        raise InputError(f"The raw file describes its {kind}s by arrays that do not fit together: write it again.")
    for number, (shape, size, region, offset) in enumerate(zip(*(one.tolist() for one in columns), strict=True)):
        fits = 0 <= offset <= _MOST_BYTES and 0 < prod(shape) <= _MOST_BYTES and min(shape, default=1) > 0
        if size not in (1, 2, 4) or region not in range(_REGIONS) or not fits:
            raise InputError(
                f"The raw file has an {kind} of shape {shape} with elements of {size} bytes at {offset} of region {region}: it is damaged."
            )
        ones = next((axis for axis, extent in enumerate(shape[:-_RANK]) if extent != 1), max(len(shape) - _RANK, 0))
        yield Binding(f"{kind}_{number}", region, offset, tuple(shape[ones:]), DataType(8 * size, signed=True))


def raw_payload(data: bytes) -> bytes:
    """The driver payload of a raw file."""
    return _read(data)["cmd_data"].tobytes()


def read_raw(data: bytes) -> CompiledNetwork:
    """The network of a raw file; InputError if it is damaged."""
    arrays = _read(data)
    scratch = arrays["scratch_shape"].reshape(-1)[:1].tolist()
    size = scratch[0] if scratch and isinstance(scratch[0], int) and 0 <= scratch[0] <= _MOST_BYTES else 0
    payload = arrays["cmd_data"].tobytes(), arrays["weight_data"].tobytes()
    return payload_network([payload], list(_ends(arrays, "input")), list(_ends(arrays, "output")), size)
