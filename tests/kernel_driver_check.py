"""The check that the Linux kernel driver makes of a command stream before it runs: how far each region is used.

Written from the register descriptions alone (words in, byte counts out), so that it shares nothing with the decoder. Rules of
``drivers/accel/ethosu``: every command is known, a kernel has set all registers that it needs, and the last byte of every feature
map, weight stream, scale table and transfer lies inside the buffer that is bound to its region.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

MAX_STREAM_BYTES = 16 << 20
CONV, DEPTHWISE, POOL, ELEMENTWISE, DMA_START = 2, 3, 5, 6, 0x10
PLAIN = {0, 1, 0x11, 0x12, 0x13}
UNARY = {5, 6, 7}
REGION, PRECISION, TILES, BASE, STRIDES = range(5)
FEATURE_MAPS = {
    # region, precision, first tile-limit register (width, height 0, height 1), first base, first stride (x, y, c)
    "ifm": (0x10F, 0x105, 0x10A, 0x000, 0x004),
    "ofm": (0x11F, 0x114, 0x11A, 0x010, 0x014),
    "ifm2": (0x18F, 0x185, 0x18A, 0x080, 0x084),
}


@dataclass
class Registers:
    """Short registers (16 bits, by opcode) and long ones (32 bits), and how many bytes of each region are used."""

    short: dict[int, int] = field(default_factory=dict)
    long: dict[int, int] = field(default_factory=dict)
    used: dict[int, int] = field(default_factory=dict)

    def use(self, region: int, end: int) -> None:
        assert 0 <= region < 8, f"region {region}"
        self.used[region] = max(self.used.get(region, 0), end)


def commands(words: Sequence[int]) -> Iterator[tuple[int, int, int | None]]:
    """Opcode, parameter and payload of every command; the payload is None for a short one."""
    position = 0
    while position < len(words):
        word = words[position]
        kind = word >> 14 & 3
        assert kind in (0, 1), f"payload kind {kind} at word {position}"
        yield word & 0x3FF, word >> 16, words[position + 1] if kind else None
        position += 1 + kind


def last_bytes(registers: Registers, name: str, height: int, width: int, depth: int) -> Iterator[int]:
    """End address of the last element of each tile that the feature map reaches into."""
    _, precision, tiles, base, strides = FEATURE_MAPS[name]
    bits = registers.short[precision]
    size = 1 << (bits >> (1 if name == "ofm" else 2) & 3)
    left, upper, lower = (registers.short[tiles + k] + 1 for k in range(3))
    stride_x, stride_y, stride_c = (registers.long[strides + k] for k in range(3))
    for right in (False, True):
        limit = lower if right else upper
        for below in (False, True):
            x = width - 1 - left if right else min(width, left) - 1
            y = height - 1 - limit if below else min(height, limit) - 1
            if x < 0 or y < 0:
                continue
            start = registers.long[base + right + 2 * below] + y * stride_y
            if bits >> 6 & 1:
                start += (depth - 1) // 16 * stride_c + x * 16 * size + (depth - 1) % 16 * size
            else:
                start += x * stride_x + (depth - 1) * size
            yield start + size


def use_map(registers: Registers, name: str, height: int, width: int, depth: int) -> None:
    for end in last_bytes(registers, name, height, width, depth):
        registers.use(registers.short[FEATURE_MAPS[name][REGION]], end)


def ofm_extents(registers: Registers) -> tuple[int, int, int]:
    return registers.short[0x112] + 1, registers.short[0x111] + 1, registers.short[0x113] + 1


def windowed(registers: Registers) -> None:
    """A kernel that slides a window over its IFM."""
    height, width, depth = ofm_extents(registers)
    stride = registers.short[0x122]
    steps = (1 + (stride >> 1 & 1) + 2 * (stride >> 9 & 7), 1 + (stride & 1) + 2 * (stride >> 6 & 7))
    sizes = (registers.short[0x121] + 1, registers.short[0x120] + 1)
    pads = (registers.short[0x100] + registers.short[0x103], registers.short[0x101] + registers.short[0x102])
    upscale = 2 if registers.short[0x107] else 1
    extents = [
        -(-((out - 1) * step + size - pad) // upscale) for out, step, size, pad in zip((height, width), steps, sizes, pads, strict=True)
    ]
    use_map(registers, "ifm", extents[0], extents[1], registers.short[0x104] + 1)
    use_map(registers, "ofm", height, width, depth)


def weighted(registers: Registers) -> None:
    for region, base, length in ((0x128, 0x020, 0x021), (0x129, 0x022, 0x023)):
        assert registers.long[length] % 16 == 0
        registers.use(registers.short[region], registers.long[base] + registers.long[length])
    assert registers.long[0x020] % 16 == 0


def elementwise(registers: Registers, operator: int) -> None:
    height, width, depth = ofm_extents(registers)
    use_map(registers, "ofm", height, width, depth)
    use_map(registers, "ifm", height, width, depth)
    broadcast = registers.short[0x180] if operator not in UNARY else 1 << 7
    if not broadcast >> 7 & 1:
        use_map(registers, "ifm2", *(1 if broadcast >> bit & 1 else out for bit, out in enumerate((height, width, depth))))


def transfer(registers: Registers, shram: int) -> None:
    source, destination, length = (registers.long[code] for code in (0x030, 0x031, 0x032))
    assert source % 16 == destination % 16 == length % 16 == 0
    registers.use(registers.short[0x130], source + length)
    if registers.short[0x131] >> 8 & 1:
        assert destination + length <= shram
    else:
        registers.use(registers.short[0x131] & 7, destination + length)


def region_sizes(words: Sequence[int], shram: int) -> dict[int, int]:
    """Bytes that the stream uses of each region; AssertionError or KeyError for a stream that the driver refuses.

    ``shram`` is the size of the NPU's shared buffer in bytes.
    """
    assert 4 * len(words) <= MAX_STREAM_BYTES
    registers, stopped = Registers(), False
    for opcode, parameter, payload in commands(words):
        assert not stopped, "commands after STOP"
        if payload is not None:
            registers.long[opcode] = payload
        elif opcode >= 0x100:
            registers.short[opcode] = parameter
        elif opcode in (CONV, DEPTHWISE, POOL):
            windowed(registers)
            if opcode != POOL:
                weighted(registers)
        elif opcode == ELEMENTWISE:
            elementwise(registers, parameter)
        elif opcode == DMA_START:
            transfer(registers, shram)
        else:
            assert opcode in PLAIN, f"opcode {opcode:#x}"
            stopped = opcode == 0
    assert stopped
    return registers.used
