# ruff: noqa: INP001  # a script of its own, no package
"""Worth of each switch, form and move: what every answer becomes with that one off, and all others on.

    python benchmarks/bench_switches.py [MODEL ...] [--every 9] [--only NAME ...]

A network is searched for the fewest cycles, for the fewest bytes, and for the fewest cycles in the geometric mean of both arenas.
``--every N`` adds each Nth network of the zoo and the portfolio. If a switch changes no form of a network, its answers stay the same, and
nothing is searched again. Moves of the search (other rows, groups, copies, blocks) leave the forms, so that each is searched without them.
A form (``form NAME``) is left out where an answer is of it: other answers stay. The column of networks counts these then.
A row per switch: the number of networks whose forms it changes, and the answers (cycles or bytes) without it in multiples of the answers
with it. Above 1 the switch is worth something. The row has the geometric mean over all networks, and the most lost and won.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import import_module
from math import isqrt, prod

from msgspec import Struct
from msgspec.structs import replace
from tabulate import tabulate

from cascader.ethosu.forms.table import FORMS, Recipe
from cascader.ethosu.network.network import Network
from cascader.ethosu.search.request import OPTIMISE, Request, Source
from cascader.ethosu.search.task import Origin, Point, Task
from cascader.verbs import chosen
from npu_model.errors import InputError
from npu_testbed.asked.request import requested
from npu_testbed.models.legalise import load_task
from validation.portfolio import NETWORKS as PORTFOLIO
from validation.zoo import zoo_names


def _same(task: Task) -> Task:
    return task


class Switch(Struct, frozen=True):
    """A switch turned off: the options that it changes, or the constant of a module and the value at which it does nothing.

    One that ``moves`` changes what the search tries of each form, and not the forms. One of a ``form`` leaves it out of the table.
    """

    label: str
    turned: Callable[[Task], Task] = _same
    constant: tuple[str, str, object] | None = None
    moves: bool = False
    form: str = ""

    @property
    def kind(self) -> str:
        """The word for all switches like this one."""
        return "moves" if self.moves else "forms" if self.form else "rewrites"

    @contextmanager
    def off(self, task: Task) -> Iterator[Task]:
        """The task without it."""
        if self.constant is None:
            yield self.turned(task)
            return
        module, name, neutral = self.constant
        place = import_module(module)
        before = getattr(place, name)
        setattr(place, name, neutral)
        try:
            yield task
        finally:
            setattr(place, name, before)


def _option(name: str, value: object = False) -> Switch:  # noqa: FBT002  # the value that most options have when they are off
    return Switch(name, lambda task: replace(task, options=replace(task.options, **{name: value})))


def _move(name: str, value: object = False, group: str | None = None) -> Switch:  # noqa: FBT002  # as above
    """A move of the search turned off: an option, or one of a group of options."""

    def turned(task: Task) -> Task:
        own = {name: value} if group is None else {group: replace(getattr(task.options, group), **{name: value})}
        return replace(task, options=replace(task.options, **own))

    return Switch(name if group is None else f"{group}.{name}", turned, moves=True)


def _constant(module: str, name: str, neutral: object) -> Switch:
    return Switch(f"{module}.{name}", constant=(f"cascader.ethosu.forms.{module}", name, neutral))


def _form(recipe: Recipe) -> Switch:
    rest = tuple(one for one in FORMS if one is not recipe)
    return Switch(f"form {recipe.name}", constant=("cascader.ethosu.forms.making", "FORMS", rest), form=recipe.name)


SWITCHES = (
    *map(_form, FORMS),
    *(_option(name) for name in ("long_steps", "recode", "trim", "table_slots", "row_shapes", "transfers", "wide_copies", "phases")),
    *(_option(name) for name in ("fold", "spare_copies", "turn", "reblock", "slices", "fine_slices")),
    *(_option(name) for name in ("constant_places", "columns", "streamed_pools", "quick_means", "small_forms")),
    *(_option(name, value) for name, value in (("recompute", Fraction(1)), ("dense", 0))),
    Switch("others", lambda task: replace(task, others=())),
    *(_constant("transposed", name, value) for name, value in (("WORTHWHILE", 1.0), ("_TRIED", 1))),
    *(_constant("reblock", name, value) for name, value in (("GAIN", 1.0), ("FOLLOWED", 1))),
    *(_constant("sizes", name, value) for name, value in (("_SLICES", (12,)), ("_FINER", Fraction(1)))),
    _constant("wide_copies", "_WORTHWHILE", 1),
    *(_move(name) for name in ("choose_blocks", "change_by_replays", "change_blocks", "other_costs", "overlap")),
    _move("fine_rows", ()),
    *(_move(name, value, "drafts") for name, value in (("regroupings", 0), ("moves", 1), ("prefetch", False), ("ends", False))),
)


@dataclass
class Row:
    """Row of the table: the answers without one switch."""

    ratios: list[float] = field(default_factory=list)
    changed: int = 0
    lost: tuple[float, str] = (1.0, "")
    won: tuple[float, str] = (1.0, "")

    def add(self, ratio: float, where: str) -> None:
        """One more answer."""
        self.ratios.append(ratio)
        self.lost = max(self.lost, (ratio, where))
        self.won = min(self.won, (ratio, where))


class Answers(Struct, frozen=True):
    """The answers to one network: the fewest cycles, the fewest bytes, and the fewest cycles in ``middle`` bytes.

    ``networks`` are those of which the answers are schedules: each is a form.
    """

    numbers: tuple[int, int, int]
    middle: int
    networks: tuple[Network, Network, Network]


def networks_of(task: Task) -> tuple[tuple[Network, bool], ...]:
    """All forms that are searched."""
    return tuple((one.network, one.smaller) for one in task.variants())


def _answer(task: Task, budget: int | None, optimise: str) -> Point:
    return chosen(task, Request(Source(""), task.accelerator, task.system, budget, optimise)).point


def answers(task: Task, middle: int | None = None) -> Answers:
    """The answers of a task, the last one in ``middle`` bytes (None: between the arenas of the others)."""
    fastest, smallest = (_answer(task, None, optimise) for optimise in OPTIMISE)
    size = isqrt(smallest.memory * fastest.memory) // 16 * 16 if middle is None else middle
    between = _answer(task, max(size, smallest.memory), OPTIMISE[0])
    networks = (fastest.schedule.network, smallest.schedule.network, between.schedule.network)
    return Answers((fastest.cycles, smallest.memory, between.cycles), size, networks)


def _is_changed(switch: Switch, task: Task, forms: tuple[Origin, ...], own: Answers) -> bool:
    """Whether any answer may be another one without a switch."""
    if switch.moves:
        return True
    if switch.form:
        return any(form.name == switch.form and form.network in own.networks for form in forms)
    with switch.off(task) as without:
        return networks_of(without) != tuple((one.network, one.smaller) for one in forms)


def measure(source: str, rows: dict[str, Row], switches: list[Switch]) -> None:
    """Add the answers of one network."""
    task = load_task(requested(source))
    forms, own = task.variants(), answers(task)
    kinds = ("cycles", "bytes", f"cycles in {own.middle:,}")
    for switch in switches:
        if not _is_changed(switch, task, forms, own):
            rows[switch.label].ratios += [1.0] * 3
            continue
        with switch.off(task) as without:
            turned = answers(without, own.middle)
        rows[switch.label].changed += 1
        ratios = [after / before for after, before in zip(turned.numbers, own.numbers, strict=True)]
        for ratio, kind in zip(ratios, kinds, strict=True):
            rows[switch.label].add(ratio, f"{source.rpartition('/')[2]}, {kind}")
        sys.stderr.write(f"{source} {switch.label} {' '.join(f'{ratio:.4f}' for ratio in ratios)}\n")


def table(rows: dict[str, Row]) -> str:
    """The table."""
    lines = []
    for label, row in rows.items():
        mean = prod(row.ratios) ** (1 / len(row.ratios)) if row.ratios else 1.0
        lost, won = (f"{ratio:.4f} ({where})" if where else "" for ratio, where in (row.lost, row.won))
        lines.append([f"`{label}`", row.changed, f"{mean:.4f}", lost, won])
    return tabulate(lines, ["switch", "networks", "mean", "most lost", "most won"], tablefmt="pipe", disable_numparse=True)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--every", type=int, default=0)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these switches alone, or all 'forms', 'moves' or 'rewrites'")
    options = parser.parse_args()
    built = [*(f"zoo:{name}" for name in zoo_names()), *(f"portfolio:{network.name}" for network in PORTFOLIO)]
    models = [*options.models, *(built[:: options.every] if options.every else ())]
    wanted = None if options.only is None else set(options.only)
    switches = [switch for switch in SWITCHES if wanted is None or wanted & {switch.label, switch.kind}]
    rows = {switch.label: Row() for switch in switches}
    for model in models:
        try:
            measure(model, rows, switches)
        except InputError as error:  # noqa: PERF203  # one network of many cannot be scheduled
            sys.stderr.write(f"{model}: {error}\n")
    sys.stdout.write(table(rows) + f"\n\n{len(models)} networks\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
