"""Outputs that are constants, as anchors beside boxes: Vela's cores lose them, we keep them from schedule to exported file."""

from __future__ import annotations

from functools import cache
from itertools import permutations
from pathlib import Path

import pytest
from asked_for import compare, schedule

from cascader.frontends.vela import CompilerOptions, compile_network
from cascader.frontends.vela.model_changes import without_constant_outputs
from npu_model.compiled.network import read_compiled
from npu_model.errors import InputError
from npu_model.program import ConstantOutput, DataType, in_order
from npu_model.tflite.model import read_tflite
from npu_testbed.proofs.file_verification import verify
from npu_testbed.replays.program_files import export_files, write_files
from npu_testbed.replays.scheduling import write_schedule
from validation.builder import NetworkBuilder
from validation.litert.judge import litert_installed


@cache
def model() -> bytes:
    """Constants first and last among the outputs, the last of them an operand, too."""
    net = NetworkBuilder("anchored")
    first, anchors = net.constant((3, 5), name="first"), net.constant((1, 36, 4), name="anchors")
    x = net.conv2d(net.input((1, 12, 12, 3), "image"), 4, strides=(2, 2))
    return net.finish([first, x, net.add(net.reshape(x, (1, 36, 4)), anchors), anchors])


NAMES = ["first", "conv2d_1", "add_1", "anchors"]


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "anchored.tflite").write_bytes(model())
    return str(tmp_path / "anchored.tflite")


def test_a_schedule_and_the_file_that_it_is_exported_to_have_all_outputs_bit_by_bit(source: str, tmp_path: Path) -> None:
    plan, exported = tmp_path / "plan.json", tmp_path / "plan_vela.tflite"
    write_schedule(schedule(source, "ethos-u55-128"), plan)
    write_files(export_files(plan, exported, model=source))
    written = read_tflite(exported.read_bytes())
    assert [written.tensors[index].name for index in written.outputs] == NAMES
    for path in (plan, exported):
        result = verify(path, source)
        assert result.passed
        assert [row.output for row in result.comparisons[: len(NAMES)]] == NAMES
        assert len(result.comparisons) == len(NAMES) * (2 if litert_installed() else 1)


def test_a_schedule_alone_is_enough_for_the_values_of_constants(source: str, tmp_path: Path) -> None:
    write_schedule(schedule(source, "ethos-u55-128", cascade=False), tmp_path / "plan.json")
    ((_, data),) = export_files(tmp_path / "plan.json", tmp_path / "plan_vela.tflite").items()
    expected, found = read_tflite(model()), read_tflite(data)
    for place in (0, 3):
        assert found.tensors[found.outputs[place]].data == expected.tensors[expected.outputs[place]].data
    assert [one.place for one in read_compiled(data).constant_outputs] == [0, 3]


@pytest.mark.parametrize(("legacy", "said"), [(False, "Output 'first' has no values"), (True, "has no output 'first'")])
def test_verify_names_the_output_that_vela_has_lost(source: str, tmp_path: Path, *, legacy: bool, said: str) -> None:
    path = tmp_path / "of_vela.tflite"
    path.write_bytes(compile_network(model(), CompilerOptions("ethos-u55-128", legacy=legacy)).compiled)
    with pytest.raises(InputError, match=f"{said}.*`npu-testbed compile`, which keeps them"):
        verify(path, source)


def test_both_cores_of_vela_are_compared_without_constants(source: str) -> None:
    found = compare(source, "ethos-u55-128", sweep=0, processes=1)
    assert {point.run.core for point in found.points} == {"C++", "Python"}
    assert not found.failures


def test_formats_that_name_places_in_the_arena_refuse_constants(source: str, tmp_path: Path) -> None:
    write_schedule(schedule(source, "ethos-u55-128", cascade=False), tmp_path / "plan.json")
    for name, kind in (("x.c", "c"), ("x.tar", "mlf"), ("x.npz", "raw")):
        with pytest.raises(InputError, match=r"Output 'first' is a constant: .*export a \.tflite file"):
            export_files(tmp_path / "plan.json", tmp_path / name, kind)


def test_a_network_without_constants_among_its_outputs_stays_and_so_does_one_of_constants_alone() -> None:
    net = NetworkBuilder("plain")
    plain = net.finish([net.conv2d(net.input((1, 8, 8, 3), "image"), 4)])
    assert without_constant_outputs(plain) == (plain, ())
    net = NetworkBuilder("constant")
    net.conv2d(net.input((1, 8, 8, 3), "image"), 4)
    constant = net.finish([net.constant((1, 4))])
    assert without_constant_outputs(constant) == (constant, ())


@pytest.mark.parametrize("places", [(0,), (2,), (0, 2), (0, 1), (1, 3), (0, 1, 2, 3)])
def test_constants_stand_at_their_places_in_whichever_order_they_are_given(places: tuple[int, ...]) -> None:
    every = list("abcd")
    written = [every[number] for number in range(4) if number not in places]
    for order in permutations(places):
        constants = [ConstantOutput(place, every[place], (1,), DataType(8, signed=True), b"\0") for place in order]
        assert in_order(written, constants, [one.name for one in constants]) == every
