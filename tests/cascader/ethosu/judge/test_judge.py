"""The judge says what the replay of the lowered schedule says: row by row, to the cycle, for schedules of every kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, islice, pairwise

import pytest
from asked_for import load_task
from cascades import cascade, cuts
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from schedule_drafts import draft_of
from scheduling import DEFAULT, network

from cascader.draft.replayed_moves import with_later_copies
from cascader.ethosu.cascade import Cascader
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.cost.blockdep import Dependency, block_distance
from cascader.ethosu.job.draft_kernels import DraftKernels
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.job.staging import staged_bytes, staged_content
from cascader.ethosu.judge import tables as module
from cascader.ethosu.judge.judge import Judge
from cascader.ethosu.judge.replay import Replayer, flat_replay
from cascader.ethosu.judge.tables import HAS_CORE, Tables, Works
from cascader.ethosu.network.homes import on_ports, with_homes
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.wanted_homes import wanted_home
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.plan.jobs import Copy
from npu_model.accelerator import accelerator
from npu_model.command_stream.registers import PAYLOAD_BIT, Cmd0, Cmd1
from npu_model.command_stream.u55.encode import over_earlier_values, set_kernel
from npu_model.command_stream.writer import RegisterWriter
from npu_model.compiled.network import CompiledNetwork
from npu_model.memory.system import MemorySystem
from npu_model.memory.timing_adapter import profile
from npu_model.program import DmaOperation
from npu_model.program.alignment import ALIGNMENT
from npu_model.timing import DEFAULT_TIMING
from sim import quick_cycles
from sim.fast.compiled import compiled_cache

SYSTEM = profile("u55_high_end").memory_system()
REPLAY = Replayer(quick_cycles, SYSTEM)
DEVICES = tuple(f"ethos-u55-{macs}" for macs in (32, 64, 128, 256))
NETWORKS = "tiny_residual", "ds_cnn", "cpu"
needs_core = pytest.mark.skipif(not HAS_CORE or flat_replay(REPLAY, DEFAULT) is None, reason="the cores were not built")


@cache
def schedules(name: str) -> tuple[Schedule, ...]:
    """Schedules of a network in arenas of several sizes, some with a copy issued later, the first once more in the end."""

    def made() -> Iterator[Schedule]:
        plans = Cascader(network(name), DEFAULT, SYSTEM)
        limits = plans.limits()
        for limit in (limits[0], limits[len(limits) // 2], limits[-1]):
            for draft in plans.drafts_at(limit)[:2]:
                later = (one for _, one in islice(with_later_copies(draft), 2))
                yield from map(plans.schedule, (draft, *later))

    found = tuple(made())
    return *found, found[0]


def require_same_rows(plans: Sequence[Schedule], system: MemorySystem = SYSTEM) -> None:
    """One after the other the drafts of some schedules of a network have the rows of what these are lowered to, and its cycles."""
    form, device = plans[0].network, accelerator(plans[0].accelerator)
    replay, compiled = Replayer(quick_cycles, system), compiled_cache(device, system, DEFAULT_TIMING)
    flat = flat_replay(replay, device.name)
    assert flat is not None
    tables, works = Tables(form, device), Works(form, device, flat)
    for plan in plans:
        issued, lowered = tables.issued(draft_of(plan), works), lower(plan, checked=False)
        assert issued is not None
        assert [list(one.rows) for one in issued] == [compiled.rows(program) for program in lowered.programs]
        assert sum(flat.cycles(one.rows, one.works) for one in issued) == quick_cycles(lowered, system)


@needs_core
@settings(max_examples=15)
@given(st.sampled_from(("tiny_residual", "tiny_conv", "ds_cnn", "resnet8")), st.sampled_from(DEVICES), st.data())
def test_a_cascade_has_the_rows_and_cycles_of_what_it_is_lowered_to(name: str, device: str, data: st.DataObject) -> None:
    count = len(network(name, device).graph.parts)
    borders = data.draw(st.lists(st.integers(1, count - 1), unique=True, max_size=3))
    groups = cuts(name, borders, data.draw(st.sampled_from((1, 2, 3, 8))))
    staged = data.draw(st.lists(st.integers(0, count - 1), unique=True, max_size=count))
    plan = cascade(name, groups, staged=staged, ahead=data.draw(st.integers(0, 4)), accelerator=device)
    require_same_rows((plan,))


@needs_core
@pytest.mark.parametrize("most", [module.MOST, 3])
@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_known_of_other_schedules_changes_no_row(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", most)
    assert len({made.copies for made in schedules(name)}) > 1 or name == "cpu"
    require_same_rows(schedules(name))


KINDS = {
    "uint8_softmax": "look-up tables",
    "conv_tanh_conv": "a table between convolutions",
    "stream_lines": "transfers within the arena",
    "cpu_in_a_row": "several segments",
    "residual_int16": "elements of 16 bits",
    "conv1d": "columns",
}


def forms_of(name: str, device: str) -> tuple[tuple[Network, MemorySystem], ...]:
    task = load_task(f"portfolio:{name}", device)
    return tuple((origin.network, task.system) for origin in task.variants()[:2])


@needs_core
@pytest.mark.parametrize("name", KINDS)
def test_schedules_of_every_kind_have_the_rows_and_cycles_of_what_they_are_lowered_to(name: str) -> None:
    device = DEVICES[list(KINDS).index(name) % len(DEVICES)]
    for form, system in forms_of(name, device):
        plans = Cascader(form, device, system)
        limits = plans.limits()
        found = [plans.schedule(draft) for limit in (limits[0], limits[-1]) for draft in plans.drafts_at(limit)[:2]]
        require_same_rows((*found, schedule_layer_by_layer(form, device)), system)


@needs_core
def test_parts_that_share_a_copy_read_it() -> None:
    plan = schedule_layer_by_layer(load_task("portfolio:lstm_short").network, DEFAULT)
    contents: dict[tuple[bytes, ...], list[str]] = {}
    for name, kernel in plan.network.kernels.items():
        contents.setdefault(staged_content(kernel.operation, plan.network.constants), []).append(name)
    names = max((names for content, names in contents.items() if content), key=len)
    step = next(step for step, job in enumerate(plan.jobs) if job.part in names)
    require_same_rows((plan, *(replace(plan, copies=(Copy(names[0], at, plan.arena_size, tuple(names[1:])),)) for at in (0, step + 1))))


@needs_core
def test_tables_that_a_long_copy_would_hold_up_come_before_it_where_two_transfers_are_outstanding() -> None:
    """An Ethos-U65 has two, so that a copy need not wait until each table is there."""
    before: dict[str, int] = {}
    for device in (DEFAULT, "ethos-u65-256"):
        plan = schedule_layer_by_layer(network("rnnoise_INT8", device), device)
        sizes = {name: staged_bytes(kernel.operation) for name, kernel in plan.network.kernels.items()}
        late = max(sizes, key=lambda name: sizes[name])
        plan = replace(plan, copies=(Copy(late, 1, plan.arena_size),), arena_size=plan.arena_size + sizes[late])
        transfers = [one for one in lower(plan).programs[0].operations if isinstance(one, DmaOperation)]
        before[device] = next(number for number, one in enumerate(transfers) if not one.to_shram)
        system = SYSTEM if device == DEFAULT else profile("u65_high_end").memory_system()
        judged = Judge(plan.network, device, Replayer(quick_cycles, system)).cycles(draft_of(plan))
        assert judged == quick_cycles(lower(plan, checked=False), system)
    assert before["ethos-u65-256"] > before[DEFAULT]


@needs_core
@pytest.mark.parametrize("homes", [("input=ext",), ("input=sram", "output=ext")])
def test_tensors_outside_the_arena_are_read_and_written_through_their_own_ports(homes: tuple[str, ...]) -> None:
    form = with_homes(network("ds_cnn"), [wanted_home(text, SYSTEM) for text in homes])
    system = on_ports(SYSTEM, form.homes)
    plans = Cascader(form, DEFAULT, system)
    require_same_rows([plans.schedule(draft) for draft in plans.drafts_at(plans.limits()[-1])], system)


def test_a_replay_that_knows_networks_alone_judges_as_well() -> None:
    def replay(lowered: CompiledNetwork) -> int:
        return quick_cycles(lowered, SYSTEM) + 1

    plans = schedules("cpu")
    ours, theirs = (Judge(plans[0].network, DEFAULT, one) for one in (REPLAY, replay))
    for plan in plans[:3]:
        assert ours.cycles(draft_of(plan)) + 1 == theirs.cycles(draft_of(plan))


def test_where_the_core_of_the_replay_is_missing_the_judge_repeats_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.fast.compiled._CORE", None)
    plan = schedules("tiny_residual")[0]
    draft = replace(draft_of(plan), cycles=1234)
    assert Judge(plan.network, DEFAULT, REPLAY).cycles(draft) == 1234
    own = Judge(plan.network, DEFAULT, lambda lowered: quick_cycles(lowered, SYSTEM))
    assert own.cycles(draft) == quick_cycles(lower(plan), SYSTEM)


def test_where_the_tables_have_no_answer_the_lowering_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = schedules("tiny_residual")[0]
    judge = Judge(plan.network, DEFAULT, REPLAY)
    cycles = judge.cycles(draft_of(plan))
    monkeypatch.setattr(Tables, "issued", lambda *_: None)
    assert judge.cycles(draft_of(plan)) == cycles


@needs_core
@pytest.mark.parametrize("name", NETWORKS)
def test_two_kernels_of_a_known_pair_are_coupled_as_the_pair_was(name: str) -> None:
    """Schedules of several arenas have the same kernels at other addresses, some of which meet there alone."""
    device, known, again = accelerator(DEFAULT), dict[int, tuple[int, int]](), 0
    form = schedules(name)[0].network
    tables, makers = Tables(form, device), DraftKernels(form)
    for made in schedules(name):
        shift = replace(made, buffers=tuple(replace(one, address=one.address + ALIGNMENT) for one in made.buffers))
        for plan in (made, shift):
            own = draft_of(replace(plan, jobs=tuple(replace(job, block=None) for job in plan.jobs)))
            kernels = [makers.kernel(own, step) for step in range(len(plan.jobs))]
            for pair, (before, after) in zip(tables.pairs(own), chain([(None, None)], pairwise(kernels)), strict=True):
                assert (pair < 0) == (before is None or after is None)
                if before is not None and after is not None:
                    coupled = block_distance(before, after, device), Dependency(before, after).limit
                    again += pair in known
                    assert known.setdefault(pair, coupled) == coupled
    assert again or name == "cpu"


@needs_core
def test_pairs_that_were_forgotten_have_other_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 0)
    plan = schedules("tiny_residual")[0]
    tables, draft = Tables(plan.network, accelerator(DEFAULT)), draft_of(plan)
    first, second = ({pair for pair in tables.pairs(draft) if pair >= 0} for _ in range(2))
    assert first
    assert first.isdisjoint(second)


@pytest.mark.parametrize("name", [*NETWORKS, "resnet8"])
def test_registers_of_a_first_operation_are_those_that_are_not_set_over_earlier_values_alone(name: str) -> None:
    """Once behind nothing, and once behind whatever has SET them."""
    optional = set[object]()
    for operation in (kernel.operation for kernel in network(name).kernels.values()):
        first, later = RegisterWriter(), RegisterWriter()
        later.registers.set_short(Cmd0.IFM2_IB_START, -1)
        later.registers.set_long(Cmd1.OFM_SCALE, -1, -1)
        later.registers.set_short(Cmd0.PARALLEL_MODE, -1)
        for writer in (first, later):
            set_kernel(writer, operation)
        numbers = {one.value | (PAYLOAD_BIT if isinstance(one, Cmd1) else 0) for one in over_earlier_values(operation)}
        assert {number: value for number, value in later.settings(but=-1).items() if number not in numbers} == first.settings(but=-1)
        optional |= over_earlier_values(operation)
    assert optional
