"""A second decoder of weight streams, bit by bit, that shares nothing with npu_model.weight_stream.mlw: the twin it is held against."""

from __future__ import annotations

from dataclasses import dataclass, field


class DamagedError(Exception):
    """The stream cannot be decoded."""


@dataclass
class Reader:
    stream: bytes
    at: int = 0

    def take(self, width: int) -> int:
        if self.at + width > 8 * len(self.stream):
            raise DamagedError
        value = 0
        for i in range(self.at, self.at + width):
            value |= (self.stream[i >> 3] >> (i & 7) & 1) << (i - self.at)
        self.at += width
        return value


@dataclass
class Lane:
    """One kind of symbol: ``total`` of them, each a quotient known in one chunk and a remainder in the next."""

    total: int
    remainder: int
    partial: int = 0
    known: int = 0
    owed: list[int] = field(default_factory=list)
    fresh: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)

    def count(self, step: int, *, ends: bool) -> None:
        self.partial += step
        if ends:
            if self.known < self.total:
                self.fresh.append(self.partial)
                self.known += 1
            self.partial = 0

    def end_turn(self, cycle: int) -> None:
        self.turns += [cycle] * len(self.fresh)

    def take_remainders(self, reader: Reader) -> None:
        for quotient in self.owed:
            self.values.append((quotient << self.remainder) + reader.take(self.remainder))
            self.ends.append(reader.at)
        self.owed, self.fresh = self.fresh, []


@dataclass
class Decoded:
    symbols: list[int] = field(default_factory=list)
    bits: list[int] = field(default_factory=list)
    slices: list[tuple[int, int, int, int]] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    turns_before: int = 0

    def add(self, symbols: list[int], end: int, turn: int) -> None:
        self.symbols += symbols
        self.bits += [max(end, *self.bits[-1:], 0)] * len(symbols)
        self.turns += [self.turns_before + turn] * len(symbols)


Palette = tuple[int, list[int], int]  # direct offset, entries, bits of an entry


def read_palette(reader: Reader) -> Palette:
    offset, size = reader.take(5), reader.take(5)
    width = reader.take(3) + 2
    return offset, [reader.take(width) for _ in range(size + 1 if size else 0)], width


def raw_bits(palette: Palette) -> int:
    """Bits of an index that is not compressed."""
    _, entries, width = palette
    if not entries:
        return width
    bits = 0
    while 1 << bits < len(entries):
        bits += 1
    return bits


def read_lanes(reader: Reader, weights: Lane, runs: Lane, *, raw: bool, truncated: bool) -> int:
    working, eighths = True, 0
    while working:
        ahead = weights.known - runs.known if runs.total else 0
        take_weights = ahead < 8 and weights.known < weights.total
        take_runs = ahead >= 0 and runs.known < runs.total
        working = take_weights or take_runs
        first = [0] * (8 if raw and weights.remainder > 5 else 12)
        if take_weights and not raw:
            first = [reader.take(1) for _ in first]
        for _ in range((8 if runs.remainder == 3 else 12) if take_runs else 0):
            one = reader.take(1)
            runs.count(one, ends=not one)
        for one in first if take_weights else []:
            more = reader.take(1) if one else 0
            weights.count(one + more, ends=truncated or not more)
        # A cycle for a turn, and half of one more if it has 12 weights.
        eighths += max(8, len(weights.fresh)) if working else 0
        for lane in (weights, runs):
            lane.end_turn(-(-eighths // 8))
            lane.take_remainders(reader)
    return -(-eighths // 8)


def read_slice(reader: Reader, zdiv: int, palette: Palette | None, out: Decoded) -> Palette:
    length, wdiv, truncated, new = reader.take(15) + 1, reader.take(3), reader.take(1), reader.take(1)
    if new:
        palette = read_palette(reader)
    if palette is None or zdiv in {4, 5} or wdiv == 6:
        raise DamagedError
    offset, entries, _ = palette
    weights = Lane(length, raw_bits(palette) if wdiv == 7 else wdiv)
    runs = Lane(length + new if zdiv != 6 else 0, zdiv)
    taken = read_lanes(reader, weights, runs, raw=wdiv == 7, truncated=bool(truncated))
    zeros = list(zip(runs.values, runs.ends, runs.turns, strict=True)) or [(0, 0, 0)] * (length + 1)
    if len(zeros) == length:  # no new palette: the slice begins with a weight
        zeros.insert(0, (0, 0, 0))
    out.add([0] * zeros[0][0], zeros[0][1], zeros[0][2])
    for index, end, turn, before, after in zip(weights.values, weights.ends, weights.turns, zeros, zeros[1:], strict=False):
        coded = entries[index] if index < len(entries) else index - len(entries) + offset
        if coded > 511:
            raise DamagedError
        out.add([-(coded >> 1) if coded & 1 else coded >> 1], max(end, before[1]), max(turn, before[2]))
        out.add([0] * after[0], after[1], max(turn, after[2]))
    out.turns_before += taken
    return palette


def naive_decode(stream: bytes, limit: int) -> Decoded:
    """Symbols, the bits read when each is known, and (first symbol, count, first bit, end) of each slice."""
    reader, out, palette = Reader(stream), Decoded(), None
    while True:
        start, first = reader.at, len(out.symbols)
        zdiv = reader.take(3)
        if zdiv == 7:
            reader.take(-reader.at % 8)
            palette = None
            if reader.at == 8 * len(stream):
                return out
            continue
        palette = read_slice(reader, zdiv, palette, out)
        out.slices.append((first, len(out.symbols) - first, start, reader.at))
        if len(out.symbols) > limit:
            raise DamagedError
