"""Recorded calls of the compiled cores with one value changed: each ends with a result or an exception, without a report of a sanitiser.

``tox -e sanitize`` runs it. By hand, in a checkout with sanitised cores: ``python tests/core_calls.py [--calls N] [--seed N]``.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import sys
import tempfile
import traceback
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from npu_model.native import PACKAGES, native
from npu_testbed.__main__ import main

SEARCHES = (
    ("zoo:tiny_residual", "--arena-cache-size", "12000"),
    ("zoo:ds_cnn", "--effort", "quick", "--arena-cache-size", "30000"),
)
"""Arguments of the searches whose calls are recorded; each replays what it finds, and is verified."""

KEPT = 12
"""Calls that are kept of each function, drawn from all that were made."""

FLOW = Path(__file__).parents[1] / "cascader" / "ethosu" / "native" / "flow.h"
UNITS = int(re.findall(r"STATE_SIZE = (\d+)", FLOW.read_text())[0])
"""Numbers of the units that a flow goes through."""

SECONDS = 2.0
"""CPU seconds of one changed call: a huge count asks for a loop without end, which is no fault of memory."""

NOT_GUARDED = {
    (package, name, 3): "templates: a check of every register and range would take as long as the call"
    for package in ("cascader.ethosu",)
    for name in ("issue", "pairs")
}
"""Arguments by function and place that are not changed, with the reason: a core reads what lies in them without a check."""

HUGE = (1 << 31, 1 << 40, 1 << 62, -(1 << 62), (1 << 63) - 1)
SMALL = (-1, 0, 1, 2)
SHORTER = 0.15
"""Share of the changes that take the last number from an array."""

RESULT, RAISED = (1 << 31).to_bytes(4, "little"), ((1 << 31) + 1).to_bytes(4, "little")
"""Text that a process writes after the number of a call that has ended."""


class Call(NamedTuple):
    """A function of a core by its package and name, and its arguments."""

    package: str
    name: str
    arguments: tuple[Any, ...]


class Outcomes(NamedTuple):
    """Ends of the changed calls: the number of each kind, and the report of each call that a sanitiser or the interpreter stopped."""

    ended: Counter[str]
    reports: list[tuple[str, str]]


def unknown(*arguments: Any) -> Any:
    """Stands in for a function of Python that a core asks. What it was asked stands in the recorded arrays."""
    raise LookupError(f"{arguments} was not asked when the call was recorded")


def kept(value: Any) -> Any:
    """A copy of an argument that no later call changes."""
    if isinstance(value, list):
        return [kept(one) for one in value]
    if value is None or isinstance(value, (int, bytes)):
        return value
    if type(value).__name__ == "PyCapsule":
        # What a core knows of an earlier call is not recorded: the call is made without it.
        return None
    if callable(value):
        return unknown
    view = memoryview(value)
    return array("d" if view.format == "d" else "q" if view.itemsize == 8 else "B", view.tobytes())


@contextmanager
def recording(rng: random.Random, most: int) -> Iterator[list[Call]]:
    """The calls that are made meanwhile: of each function at most so many, each as likely as any other."""
    found: dict[tuple[str, str], list[Call]] = {}
    calls: list[Call] = []
    restored: list[tuple[Any, str, Any]] = []

    def wrapped(package: str, name: str, function: Any) -> Any:
        mine, seen = found.setdefault((package, name), []), 0

        def call(*arguments: Any) -> Any:
            nonlocal seen
            seen += 1
            place = rng.randrange(seen)
            if place >= most:
                return function(*arguments)
            # A function that is asked writes its answers into the arrays.
            asks = any(map(callable, arguments))
            before = () if asks else tuple(map(kept, arguments))
            result = function(*arguments)
            one = Call(package, name, tuple(map(kept, arguments)) if asks else before)
            if len(mine) < most:
                mine.append(one)
            else:
                mine[place] = one
            return result

        return call

    for package, name, function in functions():
        core = native(package)
        restored.append((core, name, function))
        setattr(core, name, wrapped(package, name, function))
    try:
        yield calls
    finally:
        for core, name, function in restored:
            setattr(core, name, function)
        calls.extend(call for some in found.values() for call in some)


def functions() -> Iterator[tuple[str, str, Any]]:
    """Each function of each core."""
    for package in PACKAGES:
        core = native(package)
        if core is None:
            raise SystemExit(f"{package} has no compiled core of this version: build it.")
        for name, function in sorted(vars(core).items()):
            if callable(function) and not name.startswith("_"):
                yield package, name, function


def recorded(rng: random.Random, most: int) -> list[Call]:
    """Calls of the searches, and of the writing and reading of weights."""
    with tempfile.TemporaryDirectory() as folder, recording(rng, most) as calls, redirect_stdout(StringIO()):
        for number, search in enumerate(SEARCHES):
            if main(["schedule", *search, "--jobs", "1", "--output", str(Path(folder, f"{number}.json"))]):
                raise SystemExit(f"The search of {search[0]} failed.")
            if main(["verify", str(Path(folder, f"{number}.json"))]):
                raise SystemExit(f"The schedule of {search[0]} was not verified.")
    with recording(rng, most) as others:
        call_the_others(calls)
    return calls + [call for call in others if call.name in ("decode_weights", "kernel_load", "kernel_flow")]


def call_the_others(calls: list[Call]) -> None:
    """Call what no search calls, with what others were called with: loads of work, their flows, and streams with padding zeros."""
    of = {name: [call.arguments for call in calls if call.name == name] for name in ("block_work", "coupling", "encode_weights")}
    weights, costs = native("npu_model"), native("cascader.ethosu")
    assert weights
    assert costs
    for terms in of["encode_weights"]:
        weights.decode_weights(weights.encode_weights(*terms), -1)
    for terms, pair in zip(of["block_work"], of["coupling"], strict=False):
        load = memoryview(costs.kernel_load(memoryview(weights.block_work(*terms)).cast("q"), 4, 8)).cast("q")
        costs.kernel_flow(load, pair[2], array("d", bytes(8 * UNITS)), 0, load[0], False, 0)


def changed_number(rng: random.Random, value: float) -> float:
    if isinstance(value, float):
        return rng.choice((-value - 1, 0.0, value + 1, value - 1, 1e300, float("inf"), float("nan")))
    return rng.choice((-1 - abs(value), 0, value + 1, value - 1, rng.choice(HUGE), rng.choice(SMALL)))


def changed(rng: random.Random, value: Any) -> Any:
    """An argument with one number in it changed, or an array or a list without its last one."""
    if isinstance(value, (bytes, array, list)) and (not value or rng.random() < SHORTER):
        return value[:-1]
    if isinstance(value, (array, list, bytes)):
        place = rng.randrange(len(value))
        one = rng.randrange(256) if isinstance(value, bytes) or getattr(value, "typecode", "") == "B" else changed(rng, value[place])
        return value[:place] + (bytes((one,)) if isinstance(value, bytes) else type_of(value)([one])) + value[place + 1 :]
    return changed_number(rng, value) if isinstance(value, (int, float)) else rng.choice((None, 0, []))


def type_of(value: Any) -> Callable[[list[Any]], Any]:
    return (lambda numbers: array(value.typecode, numbers)) if isinstance(value, array) else list


def changes(rng: random.Random, calls: list[Call], count: int) -> list[Call]:
    """So many calls with a change each, drawn evenly from the functions and from their arguments."""
    names = sorted({(call.package, call.name) for call in calls if call.arguments})
    of = {name: [call for call in calls if call[:2] == name] for name in names}
    made = []
    for number in range(count):
        call = rng.choice(of[names[number % len(names)]])
        place = rng.choice([place for place in range(len(call.arguments)) if (*call[:2], place) not in NOT_GUARDED])
        arguments = list(call.arguments)
        arguments[place] = changed(rng, arguments[place])
        made.append(Call(call.package, call.name, tuple(arguments)))
    return made


def run_all(calls: list[Call], first: int, progress: int) -> None:
    """Run the calls from one on, each announced before it begins; this process ends with them."""
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
    for number in range(first, len(calls)):
        call = calls[number]
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        os.write(progress, number.to_bytes(4, "little"))
        try:
            getattr(native(call.package), call.name)(*map(kept, call.arguments))
            os.write(progress, RESULT)
        except SystemError:
            raise
        except Exception:  # noqa: BLE001  # any exception is an answer
            os.write(progress, RAISED)


def outcomes(calls: list[Call]) -> Outcomes:
    """Run the calls in processes of their own: a new one begins behind each call that ends its process."""
    ended: Counter[str] = Counter()
    reports: list[tuple[str, str]] = []
    first = 0
    while first < len(calls):
        with tempfile.TemporaryFile() as log, tempfile.TemporaryFile() as progress:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    os.dup2(log.fileno(), 2)
                    run_all(calls, first, progress.fileno())
                    status = 0
                except SystemError:
                    traceback.print_exc()
                finally:
                    sys.stderr.flush()
                    os._exit(status)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            progress.seek(0)
            noted = progress.read()
            log.seek(0)
            report = log.read().decode(errors="replace")
        words = [noted[at : at + 4] for at in range(0, len(noted), 4)]
        ended["result"] += words.count(RESULT)
        ended["exception"] += words.count(RAISED)
        if status == 0:
            break
        last = int.from_bytes(words[-1], "little")
        first = last + 1
        if status == -signal.SIGVTALRM:
            ended["too long"] += 1
            continue
        ended["report"] += 1
        reports.append((f"call {last}: {calls[last].package}.{calls[last].name}", report))
    return Outcomes(ended, reports)


def in_short(report: str) -> str:
    """The report of a sanitiser: its sentence, and the place in the core."""
    said = re.search(r"runtime error: .*|ERROR: \w+: \S+.*|SystemError.*", report)
    where = re.findall(r"#\d+ \S+ in (\S+) (\S+\.[ch]:\d+)", report)
    return f"{said[0] if said else report[-300:]} {' < '.join(f'{name} {Path(place).name}' for name, place in where[:3])}"


def run() -> int:
    """Record, change, run and say how the calls ended; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2200, help="changed calls (default: 2200)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only the functions whose name has this in it")
    parser.add_argument("--verbose", action="store_true", help="print whole reports")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    calls = [call for call in recorded(rng, KEPT) if arguments.only in f"{call.package}.{call.name}"]
    missing = {f"{package}.{name}" for package, name, _ in functions() if arguments.only in f"{package}.{name}"} - {
        f"{call.package}.{call.name}" for call in calls
    }
    as_recorded = outcomes(calls).ended
    found = outcomes(changes(rng, calls, arguments.calls))
    sys.stdout.write(
        f"recorded: {len(calls)} calls, not called: {', '.join(sorted(missing)) or 'none'}; as recorded: {dict(as_recorded)}\n"
    )
    for (package, name, place), reason in NOT_GUARDED.items():
        sys.stdout.write(f"not changed: argument {place} of {package}.{name}: {reason}\n")
    sys.stdout.write(f"changed: {arguments.calls} calls: {dict(found.ended)}\n")
    for name, report in found.reports:
        sys.stdout.write(f"{name}: {report if arguments.verbose else in_short(report)}\n")
    return 1 if found.reports or missing or as_recorded["result"] != len(calls) else 0


if __name__ == "__main__":
    raise SystemExit(run())
