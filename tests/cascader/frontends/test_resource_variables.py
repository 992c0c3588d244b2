"""Resource variables: state that a runtime keeps by name is scheduled, kept between inferences, verified and exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite
from asked_for import schedule
from command_line import call, refusal
from few_examples import few_cases
from msgspec.structs import replace
from state_networks import with_state

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.schedule.file import from_json, to_json
from cascader.frontends.vela import CompilerOptions, compile_network, legalised, named_network
from cascader.frontends.vela.known_tensors import prepared
from npu_model.compiled.network import CpuOperator, read_compiled
from npu_model.tflite.model import read_tflite
from npu_model.tflite.records import OperatorRecord
from npu_model.tflite.writer import write_tflite
from npu_testbed.proofs.verification import functional_outputs, seeded_inputs
from sim.functional import NetworkState, run
from validation.litert.judge import litert_installed
from validation.portfolio import build

needs_litert = pytest.mark.skipif(not litert_installed(), reason="LiteRT's reference kernels are not installed")
NAMES = ("stream_wake_word", "stream_lines")


@pytest.mark.parametrize("name", NAMES)
def test_an_inference_begins_with_what_the_one_before_has_left(name: str) -> None:
    network = lower(schedule(f"portfolio:{name}", cascade=False))
    first, second = seeded_inputs(network, 2, 0)
    ((output, alone),) = run(network, first).items()
    state = NetworkState(network)
    run(network, second, state=state)
    assert not np.array_equal(run(network, first, state=state)[output], alone)
    assert np.array_equal(run(network, first)[output], alone)


@needs_litert
@pytest.mark.law
@pytest.mark.parametrize(("name", "how"), few_cases(NAMES, ["--effort quick", "--disable-cascading", "--optimise Size --effort quick"]))
def test_inferences_in_a_row_are_litert_s_and_the_file_runs_as_the_schedule(name: str, how: str, tmp_path: Path) -> None:
    assert call("compile", f"portfolio:{name}", *how.split(), "--enable-debug-db", "--output-dir", tmp_path).status == 0
    for words in ((f"{name}_schedule.json",), (f"{name}_vela.tflite", "--model", f"portfolio:{name}")):
        outcome = call("verify", tmp_path / words[0], *words[1:], "--inferences", 5)
        assert outcome.status == 0, outcome


@needs_litert
@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_velas_own_files_run_as_litert(name: str, legacy: bool, tmp_path: Path) -> None:  # noqa: FBT001  # a parameter of the test
    path = tmp_path / "net_vela.tflite"
    path.write_bytes(compile_network(build(name), CompilerOptions(legacy=legacy)).compiled)
    assert call("verify", path, "--model", f"portfolio:{name}", "--inferences", 4).status == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_file_says_what_the_states_are_and_begins_them_before_they_are_read(name: str, tmp_path: Path) -> None:
    assert call("compile", f"portfolio:{name}", "--disable-cascading", "--output-dir", tmp_path).status == 0
    exported = (tmp_path / f"{name}_vela.tflite").read_bytes()
    codes = [operator.name for operator in read_tflite(exported).operators]
    assert codes[0] == "CALL_ONCE"
    assert codes.index("VAR_HANDLE") < codes.index("READ_VARIABLE") < codes.index("ethos-u") < codes.index("ASSIGN_VARIABLE")
    ours, velas = read_compiled(exported), read_compiled(compile_network(build(name)).compiled)
    assert {one.name: one.content for one in ours.resources} == {one.name: one.content for one in velas.resources}
    assert all(one.content for one in ours.resources)


def test_a_schedule_file_holds_states_and_the_summary_counts_them(tmp_path: Path) -> None:
    plan = schedule("portfolio:stream_wake_word", cascade=False)
    again = from_json(to_json(plan))
    assert again.network.resources == plan.network.resources
    assert len(plan.network.resources) == 3
    path = tmp_path / "s.json"
    path.write_text(to_json(plan))
    size = sum(one.size for one in plan.network.resources)
    shown = call("simulate", "schedule", path, "--no-advice", "--show-cpu-operations").output
    assert f"{size:,} bytes in 3 resource variables" in shown
    assert "the NPU has no operator READ_VARIABLE" in shown


@needs_litert
@pytest.mark.law
@pytest.mark.parametrize(("order", "handles"), few_cases(["ra", "rra", "rar", "raa", "ar", "rarar"], [1, 2]))
def test_a_state_is_read_and_assigned_in_the_order_of_the_network(order: str, handles: int, tmp_path: Path) -> None:
    source = tmp_path / "net.tflite"
    source.write_bytes(with_state(order, handles=handles))
    assert call("compile", source, "--disable-cascading", "--enable-debug-db", "--output-dir", tmp_path).status == 0
    for words in (("net_schedule.json",), ("net_vela.tflite",)):
        outcome = call("verify", tmp_path / words[0], "--model", source, "--inferences", 4)
        assert outcome.status == 0, outcome


def test_a_network_that_reads_before_it_assigns_is_not_changed() -> None:
    for order in ("ra", "rra"):
        model = with_state(order)
        assert prepared(model)[0] is model


@needs_litert
def test_every_stream_of_such_a_network_has_its_states_in_order() -> None:
    found = legalised(with_state("rarar"))
    codes = [step.code for step in found.stream.steps if isinstance(step, CpuOperator) and step.resource]
    assert codes == ["READ_VARIABLE", "ASSIGN_VARIABLE"]
    network = named_network(found.result)
    assert functional_outputs(network, seeded_inputs(network, 2, 0))


def broken(how: str) -> bytes:
    """A network whose state is not one that is known here."""
    model = with_state("ra")
    from npu_model.tflite.record_reader import read_records  # noqa: PLC0415  # of these tests alone

    records = read_records(model)
    begin = records.others[0]
    if how == "computed":
        wide = replace(begin.tensors[1], name="sum", data=b"")
        add = OperatorRecord(tflite.BuiltinOperator.FLOOR_MOD, 1, (1, 1), (2,), "FloorModOptions")
        assign = replace(begin.operators[1], inputs=(0, 2))
        begin = replace(begin, tensors=(*begin.tensors, wide), operators=(begin.operators[0], add, assign))
    elif how == "size":
        begin = replace(begin, tensors=(begin.tensors[0], replace(begin.tensors[1], shape=(1, 2, 4, 8), data=bytes(64))))
    else:
        operators = tuple(one for one in records.operators if one.code != tflite.BuiltinOperator.CALL_ONCE)
        records = replace(records, operators=operators)
    return write_tflite(replace(records, others=(begin,)))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("computed", "works out what the resource variable 'state' begins with"),
        ("size", "has 64 bytes and"),
        ("elsewhere", "only those of subgraph 0 are kept here"),
    ],
)
def test_what_is_not_known_of_a_state_is_said_as_a_limit_of_ours(how: str, said: str, tmp_path: Path) -> None:
    source = tmp_path / "net.tflite"
    source.write_bytes(broken(how))
    sentence = refusal("schedule", source, "--no-cascade", "-o", tmp_path / "s.json")
    assert said in sentence
    assert "wrong stream" not in sentence


@pytest.mark.parametrize("number", range(3))
def test_an_operator_of_state_without_its_tensors_is_refused_as_damaged(number: int, tmp_path: Path) -> None:
    from npu_model.tflite.record_reader import read_records  # noqa: PLC0415  # of this test alone

    records = read_records(with_state("ra"))
    codes = (tflite.BuiltinOperator.READ_VARIABLE, tflite.BuiltinOperator.ASSIGN_VARIABLE)
    changes: tuple[dict[str, Any], ...] = ({"inputs": ()}, {"outputs": ()}, {"inputs": (-1, -1)})
    operators = tuple(replace(one, **changes[number]) if one.code in codes else one for one in records.operators)
    source = tmp_path / "net.tflite"
    source.write_bytes(write_tflite(replace(records, operators=operators)))
    assert refusal("schedule", source, "--no-cascade", "-o", tmp_path / "s.json")
