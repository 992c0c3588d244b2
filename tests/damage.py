"""Damaged streams and schedules: a result or one sentence, never another exception, a run without end or a read of unwritten memory.

Run by hand for more cases than the tests take: ``PYTHONPATH=.:tests python tests/damage.py 10000``.
"""

from __future__ import annotations

import copy
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from cascades import cascade, cuts
from scheduling import schedule

import sim.functional.regions
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.schedule.file import from_json, schedule_of, to_json
from npu_model.command_stream.payload import MAGIC
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.documents import plain as to_plain
from npu_model.errors import InputError
from npu_model.export import export_tflite
from npu_testbed.devices.configs import load_timing_adapter
from sim import replay_network
from sim.functional import FilterCache, run

SYSTEM = load_timing_adapter("u55_high_end")
SECONDS = 20.0
"""Bound of one case: all but a few take some hundredths of a second."""

DECISIONS = ("jobs", "buffers", "arena_size", "copies")
"""Fields that a schedule decides; all else is the network, and another network computes something else."""

BIG = (0, 1, -1, 15, 16, 255, 1 << 16, 1 << 31, (1 << 40) - 1)


@cache
def subjects() -> tuple[Schedule, ...]:
    """A layer-by-layer schedule, and one with stripes, rolling buffers and staged weights."""
    return schedule("tiny_residual"), cascade("tiny_residual", cuts("tiny_residual", (), 2), staged=(1,))


@cache
def exported(index: int) -> bytes:
    return export_tflite(lower(subjects()[index]))


def executed(network: CompiledNetwork, fill: int) -> dict[str, bytes]:
    """Output bytes in an arena whose unwritten bytes are ``fill``; inputs take no memory, however large they claim to be."""
    kept = sim.functional.regions.UNDEFINED
    sim.functional.regions.UNDEFINED = fill
    try:
        inputs = {b.name: np.broadcast_to(np.array(37, sim.functional.regions.numpy_dtype(b.dtype)), b.shape) for b in network.inputs}
        return {name: values.tobytes() for name, values in run(network, inputs, filters=FilterCache()).items()}
    finally:
        sim.functional.regions.UNDEFINED = kept


@cache
def undamaged(index: int) -> dict[str, bytes]:
    return executed(lower(subjects()[index]), 0xA5)


def damaged(rng: random.Random, data: bytearray, start: int, end: int, unit: int) -> None:
    """One or two edits of ``unit`` bytes between ``start`` and ``end``, in place."""
    for _ in range(rng.choice((1, 1, 1, 2))):
        at = start + rng.randrange((end - start) // unit) * unit
        kind = rng.randrange(4)
        if kind == 0:
            data[at + rng.randrange(unit)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at : at + unit] = rng.randbytes(unit)
        elif kind == 2:
            other = start + rng.randrange((end - start) // unit) * unit
            data[at : at + unit], data[other : other + unit] = data[other : other + unit], data[at : at + unit]
        else:
            data[at : at + unit] = (rng.choice(BIG) & (1 << 8 * unit) - 1).to_bytes(unit, "little")


def finish(network: CompiledNetwork) -> dict[str, bytes]:
    """Run and replay; what unwritten memory holds must not be seen."""
    replay_network(network, SYSTEM)
    outputs = executed(network, 0xA5)
    assert executed(network, 0x3C) == outputs
    return outputs


def damaged_stream(rng: random.Random) -> None:
    """A compiled file whose driver payload, command stream and all, is damaged word by word."""
    data = bytearray(exported(rng.randrange(2)))
    start = data.index(MAGIC.to_bytes(4, "little"))
    # A flatbuffer's vector begins with its length.
    damaged(rng, data, start, start + int.from_bytes(data[start - 4 : start], "little"), 4)
    finish(read_compiled(bytes(data)))


def extreme_registers(rng: random.Random) -> None:
    """A compiled file some of whose registers have the largest or smallest values: windows, strides and maps that no device has."""
    data = bytearray(exported(rng.randrange(2)))
    start = data.index(MAGIC.to_bytes(4, "little"))
    end = start + int.from_bytes(data[start - 4 : start], "little")
    words = range(start, end - 4, 4)
    # The two bits above the number of a command say whether a word of 32 bits follows.
    sets = [at for at in words if int.from_bytes(data[at : at + 2], "little") >> 8 in (0x01, 0x41)]
    for at in rng.sample(sets, min(len(sets), rng.randint(2, 8))):
        if data[at + 1] == 0x01:
            data[at + 2 : at + 4] = rng.choice((0, 1, 0x7FFF, 0xFFFF)).to_bytes(2, "little")
        else:
            data[at + 4 : at + 8] = rng.choice((0, 0, 1, 16, 1 << 20, 1 << 31)).to_bytes(4, "little")
    finish(read_compiled(bytes(data)))


def damaged_file(rng: random.Random) -> None:
    """A compiled file with damaged or missing bytes anywhere."""
    data = bytearray(exported(rng.randrange(2)))
    damaged(rng, data, 0, len(data), 1)
    if rng.randrange(4) == 0:
        del data[rng.randrange(len(data)) :]
    finish(read_compiled(bytes(data)))


def places(plain: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a JSON document."""
    children = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    return [path, *(place for key, value in children for place in places(value, (*path, key)))]


@cache
def plain_places(index: int, *, decisions: bool) -> tuple[dict[str, Any], list[tuple[Any, ...]]]:
    plain = to_plain(subjects()[index])
    return plain, [p for p in places(plain) if p and (not decisions or p[0] in DECISIONS)]


def edited(rng: random.Random, value: Any) -> Any:
    """Another value for this one."""
    if isinstance(value, list) and value and rng.randrange(3):
        items = list(value)
        a, b = rng.randrange(len(items)), rng.randrange(len(items))
        kind = rng.randrange(3)
        if kind == 0:
            items[a], items[b] = items[b], items[a]
        elif kind == 1:
            del items[a]
        else:
            items.insert(a, items[b])
        return items
    if isinstance(value, int) and rng.randrange(8):
        return rng.choice((value + 1, value - 1, value + 16, value - 16, value * 2, value // 2, -value, *BIG))
    if isinstance(value, str) and value and rng.randrange(2):
        at = rng.randrange(len(value))
        return value[:at] + rng.choice("AZaz09+/=") + value[at + 1 :]
    return rng.choice((None, True, 1, -1, 1.5, "x", [], {}, [value], {"x": value}))


def edit(rng: random.Random, plain: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    """A copy of ``plain`` with the value at ``path`` replaced or removed."""
    document = copy.deepcopy(plain)
    holder: Any = document
    for key in path[:-1]:
        holder = holder[key]
    if rng.randrange(12) == 0:
        del holder[path[-1]]
    else:
        holder[path[-1]] = edited(rng, holder[path[-1]])
    return document


def reread(plain: dict[str, Any]) -> Schedule:
    """The schedule of an edited document, by way of a file that was written for it: no digest gives the edit away."""
    return from_json(to_json(schedule_of(plain)))


def damaged_network(rng: random.Random) -> None:
    """A schedule file of which anything was changed by someone who knows how to write one."""
    plain, paths = plain_places(rng.randrange(2), decisions=False)
    finish(lower(reread(edit(rng, plain, rng.choice(paths)))))


def damaged_decisions(rng: random.Random) -> None:
    """The same of what the schedule decides: if it is accepted, it computes what it did."""
    index = rng.randrange(2)
    plain, paths = plain_places(index, decisions=True)
    assert finish(lower(reread(edit(rng, plain, rng.choice(paths))))) == undamaged(index)


def damaged_text(rng: random.Random) -> None:
    """A schedule file with damaged characters."""
    index = rng.randrange(2)
    data = bytearray(to_text(index))
    damaged(rng, data, 0, len(data), 1)
    assert from_json(data.decode("latin-1")) == subjects()[index]


@cache
def to_text(index: int) -> bytes:
    return to_json(subjects()[index]).encode("ascii")


KINDS: tuple[Callable[[random.Random], None], ...] = (
    damaged_stream,
    extreme_registers,
    damaged_file,
    damaged_network,
    damaged_decisions,
    damaged_text,
)


def outcome(kind: Callable[[random.Random], None], seed: int) -> str:
    """ "result" or "refused"; an exception that is no InputError, a difference and a refusal that is no sentence fail."""
    start = time.process_time()
    try:
        kind(random.Random(f"{kind.__name__} {seed}"))
    except InputError as error:
        sentence = str(error)
        assert sentence.endswith(".")
        assert "\n" not in sentence
        assert 10 < len(sentence) < 1000
        return "refused"
    else:
        return "result"
    finally:
        assert time.process_time() - start < SECONDS, f"{kind.__name__} {seed}"


if __name__ == "__main__":
    for kind in KINDS:
        begin, slowest, counts = time.process_time(), 0.0, Counter[str]()
        for seed in range(int(sys.argv[1]) // len(KINDS)):
            one = time.process_time()
            counts[outcome(kind, seed)] += 1
            slowest = max(slowest, time.process_time() - one)
        print(kind.__name__, dict(counts), f"{time.process_time() - begin:.1f} s, slowest {slowest:.2f} s", flush=True)  # noqa: T201  # run by hand
