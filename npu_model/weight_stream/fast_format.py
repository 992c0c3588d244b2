"""The fast format of an Ethos-U85's weight stream: a header of 32 bytes and symbols of one width.

Source: Vela 5.2.0 ``dependencies/mlw_codec/source/mlw_encode_fwd.cpp``. Header bits: 0 raw, 1 small table, 104-111 the number added to raw
values, then 16 table entries of 9 bits, the sign in bit 0. Symbols: 8 bits if raw, else 2-bit or 4-bit numbers of table entries.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_model.errors import InputError

Int16 = npt.NDArray[np.int16]

_HEADER_BYTES = 32
_ADJUST_BYTE = 13
_TABLE_BIT, _ENTRY_BITS, _ENTRIES = 112, 9, 16


def decode_fast(stream: bytes, count: int) -> Int16:
    """The first ``count`` symbols of a fast stream; InputError if it is too short."""
    mode = stream[0] & 3 if stream else 0
    bits = 8 if mode & 1 else 2 if mode & 2 else 4
    needed = _HEADER_BYTES + -(-count * bits // 8)
    if len(stream) < needed:
        raise InputError(f"A fast weight stream of {len(stream)} bytes is too short: {count} weights of {bits} bits take {needed} bytes.")
    content = np.frombuffer(stream, np.uint8, needed - _HEADER_BYTES, _HEADER_BYTES)
    if bits == 8:
        adjust = int.from_bytes(stream[_ADJUST_BYTE : _ADJUST_BYTE + 1], "little", signed=True)
        return (content.view(np.int8).astype(np.int16) - adjust).astype(np.int16)
    header = int.from_bytes(stream[:_HEADER_BYTES], "little")
    folded = [header >> _TABLE_BIT + _ENTRY_BITS * entry & (1 << _ENTRY_BITS) - 1 for entry in range(_ENTRIES)]
    table = np.array([-(value >> 1) if value & 1 else value >> 1 for value in folded], np.int16)
    numbers = (content[:, None] >> np.arange(0, 8, bits, dtype=np.uint8) & (1 << bits) - 1).reshape(-1)
    return np.asarray(table[numbers[:count]], np.int16)
