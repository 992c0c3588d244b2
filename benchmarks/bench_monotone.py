# ruff: noqa: INP001  # a script of its own, no package
"""Answers that get worse where they should not: of `schedule` in a larger arena, and with a better memory.

    python benchmarks/bench_monotone.py budgets [MODEL ...] [--count 10] [--effort quick]
    python benchmarks/bench_monotone.py memories [MODEL ...] [--pairs 40] [--seed 1]
    python benchmarks/bench_monotone.py replays [MODEL ...] [--pairs 40] [--seed 1]

``budgets`` schedules each network in that many arenas, in equal ratios from the smallest to the largest, and without a budget. It prints
the answers that take more cycles than a smaller arena's, and each network's CPU seconds. A MODEL ``portfolio:3`` is every third network of
the portfolio, and ``zoo:`` all of the zoo.

``memories`` draws pairs: a network, an arena, a memory system, and the same with one parameter of one memory better. It prints the cycles
of each pair with the one and with the other. A column between them replays the first schedule with the better memory: it tells what the
search missed from what the device loses by itself. ``replays`` looks at the device alone: schedules in five arenas of each network, made
for the usual memory, are replayed with that many pairs each.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from time import process_time

from msgspec import Struct
from msgspec.structs import replace

from cascader import ModelSource, Request
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.search.effort import EFFORTS, STANDARD
from cascader.ethosu.search.request import OPTIMISE
from cascader.ethosu.search.task import Point, Task
from cascader.frontends.tasks import task_of
from cascader.verbs import chosen
from npu_model.accelerator import DEFAULT_ACCELERATOR
from npu_model.errors import InputError
from npu_model.memory.system import Memory, MemorySystem, Pulse
from npu_model.memory.timing_adapter import profile
from npu_testbed.models.sources import load_model
from sim import quick_cycles
from validation.portfolio import NETWORKS as PORTFOLIO
from validation.zoo import zoo_names

NETWORKS = (
    *("zoo:ds_cnn", "zoo:resnet8", "zoo:tiny_residual"),
    *(f"portfolio:{name}" for name in ("lenet", "squeezenet", "bottleneck", "unet_cropped", "mobilenet_v3", "diamond", "panorama")),
)
"""Networks by default: classifiers, an image to an image, and two of long skips, each searched in some seconds."""

TOLERATED = 0.002
"""The part of its cycles by which an answer may be worse than a smaller arena's: the search errs by about as much."""


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201  # what the script is for


USUAL = profile("u55_high_end").memory_system()
"""The memory system by default."""


@lru_cache(maxsize=1)
def _task(model: bytes, system: MemorySystem, effort: str) -> Task:
    """The task of a model, which Vela legalises once for all arenas."""
    return task_of(Request(ModelSource("", model), DEFAULT_ACCELERATOR, system, effort=effort), quick_cycles)


@lru_cache(maxsize=2)
def answer(model: bytes, budget: int | None, system: MemorySystem = USUAL, *, smallest: bool = False, effort: str = STANDARD) -> Point:
    """The schedule in at most ``budget`` bytes. The last two are known: the largest arena is that of the search without a budget."""
    asked = Request(ModelSource("", model), DEFAULT_ACCELERATOR, system, budget, OPTIMISE[smallest], effort=effort)
    return chosen(_task(model, system, effort), asked).point


def arenas(model: bytes, count: int, effort: str = STANDARD) -> list[int]:
    """So many arenas in bytes, in equal ratios from the smallest to the one that the fastest schedule takes."""
    low, high = (answer(model, None, smallest=smallest, effort=effort).memory for smallest in (True, False))
    sizes = (low * (high / low) ** (at / (count - 1)) for at in range(count))
    return sorted({max(low, int(size) // 16 * 16) for size in sizes})


def budgets(models: list[str], count: int, effort: str) -> None:
    """Schedule in larger and larger arenas, and at last without a budget; the models of fewest bytes first."""
    total, worse = 0, []
    for model, data in sorted(((one, load_model(one).data) for one in models), key=lambda one: len(one[1])):
        begin, best = process_time(), None
        sizes, whole = arenas(data, count, effort), answer(data, None, effort=effort)
        for budget, point in (*((size, answer(data, size, effort=effort)) for size in sizes), (None, whole)):
            total += 1
            if best is not None and point.cycles > best.cycles:
                worse.append(point.cycles / best.cycles - 1)
                room = "without a budget" if budget is None else f"in {budget:,} bytes"
                say(f"{model} {room} {point.cycles:,} cycles, in {best.memory:,} {best.cycles:,}: {worse[-1]:+.3%}")
            if best is None or point.cycles < best.cycles:
                best = point
        say(f"{model}: {process_time() - begin:.1f} s of CPU")
    over = sum(one > TOLERATED for one in worse)
    say(f"{len(worse)} of {total} are worse than a smaller arena, {over} by over {TOLERATED:.1%}, at most by {max(worse, default=0):.3%}.")


def named(models: list[str]) -> list[str]:
    """The networks, with all that ``zoo:`` and ``portfolio:NUMBER`` stand for."""
    found = []
    for model in models:
        step = model.removeprefix("portfolio:")
        if model == "zoo:":
            found += [f"zoo:{name}" for name in zoo_names()]
        elif step.isdecimal():
            found += [f"portfolio:{one.name}" for one in PORTFOLIO[:: int(step)]]
        else:
            found.append(model)
    return found


def _capped(memory: Memory, times: int) -> Memory:
    pulse = memory.pulse
    return memory if pulse is None else replace(memory, pulse=replace(pulse, cap_words=times * pulse.cap_words))


CHANGES: dict[str, Callable[[Memory], Memory]] = {
    "half the read latency": lambda memory: replace(memory, read_latency=memory.read_latency // 2),
    "half the write latency": lambda memory: replace(memory, write_latency=memory.write_latency // 2),
    "twice the outstanding reads": lambda memory: replace(memory, max_reads=2 * memory.max_reads),
    "twice the outstanding writes": lambda memory: replace(memory, max_writes=2 * memory.max_writes),
    "twice the cap": lambda memory: _capped(memory, 2),
    "no gate": lambda memory: replace(memory, pulse=None),
}
"""One parameter of a memory made better."""


class Pair(Struct, frozen=True):
    """A network in an arena (its number among five), with one memory system and with a better one."""

    model: str
    arena: int
    worse: MemorySystem
    better: MemorySystem
    change: str


def pairs(models: list[str], count: int, seed: int) -> Iterator[Pair]:
    """Draw pairs; a change that changes nothing of a memory is none."""
    draw = random.Random(seed)  # noqa: S311  # a sample, no secret
    while count:
        sram, ext = USUAL.ports
        sram = replace(sram, read_latency=draw.choice((16, 32, 64)), write_latency=draw.choice((16, 32, 64)))
        sram = replace(sram, max_reads=draw.choice((4, 8)), max_writes=draw.choice((4, 8)), pulse=Pulse(3999, 1, draw.choice((2000, 4000))))
        ext = replace(ext, read_latency=draw.choice((32, 64, 128, 256)), max_reads=draw.choice((1, 2, 4)))
        ext = replace(ext, pulse=Pulse(320, 80, draw.choice((25, 50, 100))))
        port, change = draw.randrange(2), draw.choice(list(CHANGES))
        worse = (sram, ext)
        better = (CHANGES[change](sram), ext) if port == 0 else (sram, CHANGES[change](ext))
        if worse != better:
            count -= 1
            systems = replace(USUAL, ports=worse), replace(USUAL, ports=better)
            yield Pair(draw.choice(models), draw.randrange(5), *systems, f"{worse[port].name}: {change}")


def memories(models: list[str], count: int, seed: int) -> None:
    """Schedule with a memory and with a better one."""
    sizes: dict[str, list[int]] = {}
    total, worse, missed, lost = 0, [], [], []
    for pair in pairs(models, count, seed):
        data = load_model(pair.model).data
        if pair.model not in sizes:
            sizes[pair.model] = arenas(data, 5)
        budget = sizes[pair.model][min(pair.arena, len(sizes[pair.model]) - 1)]
        first, second = (answer(data, budget, system) for system in (pair.worse, pair.better))
        same = quick_cycles(lower(first.schedule), pair.better)
        total += 1
        answers = f"{first.cycles:,} -> {second.cycles:,} ({second.cycles / first.cycles - 1:+.3%})"
        say(f"{pair.model} in {budget:,} bytes, {pair.change}: {answers}; the first {same:,} ({same / first.cycles - 1:+.3%})")
        for ratio, found in ((second.cycles / first.cycles, worse), (second.cycles / same, missed), (same / first.cycles, lost)):
            if ratio > 1:
                found.append(ratio - 1)
    for what, found in (
        ("answers are worse than with the slower memory", worse),
        ("answers are worse than the slower memory's schedule replayed with the better one", missed),
        ("schedules are slower with the better memory", lost),
    ):
        say(f"{len(found)} of {total} {what}, at most by {max(found, default=0):.3%}.")


def replays(models: list[str], count: int, seed: int) -> None:
    """Replay fixed schedules with a memory and with a better one."""
    total, lost = 0, []
    for number, model in enumerate(models):
        data = load_model(model).data
        for place, budget in enumerate(arenas(data, 5)):
            network = lower(answer(data, budget).schedule)
            for pair in pairs([model], count, 1000 * seed + 5 * number + place):
                first, second = quick_cycles(network, pair.worse), quick_cycles(network, pair.better)
                total += 1
                if second > first:
                    lost.append(second / first - 1)
                    say(f"{model} in {budget:,} bytes, {pair.change}: {first:,} -> {second:,} ({lost[-1]:+.3%})")
    say(f"{len(lost)} of {total} replays are slower with the better memory, at most by {max(lost, default=0):.3%}.")


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("budgets", "memories", "replays"))
    parser.add_argument("models", nargs="*", metavar="MODEL", default=list(NETWORKS))
    parser.add_argument("--effort", choices=EFFORTS, default=STANDARD, help="of each search for budgets (default: standard)")
    parser.add_argument("--count", type=int, default=10, help="arenas of each network (default: 10)")
    parser.add_argument("--pairs", type=int, default=40, help="pairs of memories (default: 40)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    options = parser.parse_args()
    try:
        if options.verb == "budgets":
            budgets(named(options.models), options.count, options.effort)
        else:
            {"memories": memories, "replays": replays}[options.verb](named(options.models), options.pairs, options.seed)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
