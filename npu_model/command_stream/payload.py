"""The driver payload ("COP1" or "COP2") around a register command stream, parsed and built.

Layout of COP1 (core driver, Vela 5.2.0): the word "COP1", then driver actions ``id | reserved << 8 | parameter << 16``. Action 1 is the
configuration: the configuration word and the id word follow. Action 5 is NOP. Action 2 is the command stream: its length in words has bits
16-23 in the reserved byte, and the words follow.

Layout of COP2 (read off the files that Vela 5.2.0 writes with ``--cop-format COP2``): a header, a description, and the stream. The header
has 16 bytes: the word "COP2", 1, the number of bytes that follow it, and 0. Then come 1 and the number of bytes that follow. The
description begins with "VEUM" and 1. It holds 20 bytes of properties: the configuration word, the id word, 2 where inputs and outputs have
regions of their own and else 1, the bytes of the scratch, and 0. A word of ones ends it. Arm's core driver of November 2025 refuses
this layout.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from msgspec import Struct

from npu_model.accelerator import accelerator
from npu_model.errors import InputError

MAGIC = 0x31504F43
MAGIC_2 = 0x32504F43
COP_FORMATS = ("COP1", "COP2")
"""Names of the layouts in Vela's ``--cop-format``; the core driver takes the first."""

ARCHITECTURE = (1, 0, 6)
"""Version of the architecture in the id word, which the driver compares with the hardware's."""

ARCHITECTURE_2 = (2, 0, 0)
"""Version of the architecture of accelerators without a shared buffer (id word 0x20007000 in Vela 5.2.0's streams)."""

_ACTION_CONFIG, _ACTION_STREAM, _ACTION_NOP = 1, 2, 5
_CONFIG_PARAMETER = 1 << 4
"""Parameter of the configuration action: patch level 1 in bits 4-15 and release 0 (Vela 5.2.0 ``driver_actions.py``)."""

_DESCRIPTION = 0x4D554556
_PROPERTIES = 20
_STREAM_BYTE = 64
"""Where the stream of a COP2 payload begins, and the bytes of the description that lies before it."""
_DESCRIPTION_BYTES = 36

_MAX_STREAM_WORDS = (1 << 24) - 1
_PRODUCTS = {0: "u55", 1: "u65", 2: "u85"}


class Payload(Struct, frozen=True):
    """A parsed payload: accelerator name, configuration and id words, and the stream's words."""

    accelerator: str
    config: int
    identity: int
    words: tuple[int, ...]


def accelerator_of(config: int) -> str:
    """Accelerator name from the configuration word (log2 MACs in bits 0-3, product in bits 28-31).

    >>> accelerator_of(0x1807)
    'ethos-u55-128'
    """
    product = _PRODUCTS.get(config >> 28)
    if product is None:
        raise InputError(f"The payload's product code {config >> 28} is unknown: 0 (U55), 1 (U65) and 2 (U85) exist.")
    return f"ethos-{product}-{1 << (config & 15)}"


def parse_payload(data: bytes) -> Payload:
    """Take the command stream out of a driver payload; InputError if the payload is malformed."""
    if len(data) < 8 or len(data) % 4:
        raise InputError(f"The driver payload has {len(data)} bytes: a multiple of 4 of at least 8 is needed; compile again.")
    words = struct.unpack(f"<{len(data) // 4}I", data)
    if words[0] == MAGIC_2:
        return _parse_second(words)
    if words[0] != MAGIC:
        raise InputError(
            f"The driver payload starts with {words[0]:#010x} instead of 'COP1' or 'COP2': only these are read; compile again."
        )
    config = identity = None
    position = 1
    while position < len(words):
        action, reserved, parameter = words[position] & 0xFF, words[position] >> 8 & 0xFF, words[position] >> 16
        position += 1
        if action == _ACTION_CONFIG and position + 2 <= len(words):
            config, identity = words[position], words[position + 1]
            position += 2
        elif action == _ACTION_STREAM:
            length = reserved << 16 | parameter
            if position + length > len(words):
                raise InputError(f"The command stream claims {length} words but {len(words) - position} follow: the file is cut off.")
            if config is None or identity is None:
                raise InputError("The driver payload has no configuration before its command stream: compile again.")
            return Payload(accelerator_of(config), config, identity, words[position : position + length])
        elif action != _ACTION_NOP:
            raise InputError(f"Driver action {action} in word {position - 1} of the payload is unknown: 1, 2 and 5 exist.")
    raise InputError("The driver payload holds no command stream: compile the network again.")


def _parse_second(words: tuple[int, ...]) -> Payload:
    """The content of a COP2 payload."""
    first = _STREAM_BYTE // 4
    size = 4 * len(words)
    expected = (1, size - 16, 0, 1, size - 24, _DESCRIPTION_BYTES, _DESCRIPTION, 1, _PROPERTIES)
    if len(words) < first or words[1:10] != expected:
        raise InputError("The COP2 payload is not laid out as Vela 5.2 does: the file is damaged, or of an unknown version.")
    return Payload(accelerator_of(words[10]), words[10], words[11], words[first:])


def config_word(accelerator_name: str) -> int:
    """Configuration word: log2 MACs in bits 0-3, product in 28-31, and the family's fields between them.

    With a shared buffer these are the stream version 0 in bits 4-7 and its KiB in 8-15. Without: stream version 1, log2 of the SRAM's ports
    in 8-9, of the external memory's in 10, and of the weight decoders in 12-13.

    >>> hex(config_word("ethos-u55-128"))
    '0x1807'
    """
    device = accelerator(accelerator_name)
    product = next(code for code, name in _PRODUCTS.items() if device.name.startswith(f"ethos-{name}-"))
    if device.buffers is not None:
        ports = (device.sram_ports.bit_length() - 1) << 8 | (device.ext_ports.bit_length() - 1) << 10
        streams = device.weight_streams.bit_length() - 1
        return device.macs.bit_length() - 1 | 1 << 4 | ports | streams << 12 | product << 28
    return (device.macs * device.cores).bit_length() - 1 | device.shram_banks * device.cores << 8 | product << 28


def architecture(accelerator_name: str) -> tuple[int, int, int]:
    """Version of an accelerator's architecture."""
    return ARCHITECTURE if accelerator(accelerator_name).buffers is None else ARCHITECTURE_2


def identity_word(accelerator_name: str) -> int:
    """The id word: the version of the architecture."""
    major, minor, patch = architecture(accelerator_name)
    return major << 28 | minor << 20 | patch << 16


def build_second(words: Sequence[int], accelerator_name: str, scratch: int, *, separate: bool) -> bytes:
    """The COP2 payload of a command stream and its scratch's bytes, with inputs and outputs in ``separate`` regions or in the scratch.

    InputError as :func:`build_payload` raises it.
    """
    _require_length(words)
    size = _STREAM_BYTE + 4 * len(words)
    head = [MAGIC_2, 1, size - 16, 0, 1, size - 24, _DESCRIPTION_BYTES, _DESCRIPTION, 1, _PROPERTIES]
    head += [config_word(accelerator_name), identity_word(accelerator_name), 2 if separate else 1, scratch, 0, 0xFFFFFFFF]
    return struct.pack(f"<{len(head) + len(words)}I", *head, *words)


def _require_length(words: Sequence[int]) -> None:
    if len(words) > _MAX_STREAM_WORDS:
        raise InputError(f"The command stream has {len(words)} words: the payload counts up to {_MAX_STREAM_WORDS}; split the network.")


def build_payload(words: Sequence[int], accelerator_name: str) -> bytes:
    """The COP1 payload of a command stream, little endian; NOPs make the stream start at a multiple of 16 bytes.

    Equal to Vela's ``npu_create_driver_payload``; its C++ core also fills the product and version fields of the id word
    (0x10066001). InputError if the accelerator is unknown or the stream too long for the 24-bit length field.
    """
    _require_length(words)
    head = [MAGIC, _CONFIG_PARAMETER << 16 | _ACTION_CONFIG, config_word(accelerator_name), identity_word(accelerator_name)]
    head += [_ACTION_NOP] * (-(len(head) + 1) % 4)
    head.append((len(words) & 0xFFFF) << 16 | len(words) >> 16 << 8 | _ACTION_STREAM)
    return struct.pack(f"<{len(head) + len(words)}I", *head, *words)
