"""Files with regions of their own for inputs and outputs: Vela's are read and run, ours are written for the driver or refused."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cascades import outputs
from msgspec.structs import replace
from scheduling import DEFAULT, model_bytes, network

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.network.homes import with_homes
from cascader.ethosu.network.wanted_homes import Wanted
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import CompilerOptions, compile_network
from npu_model.command_stream import build_payload, build_second, parse_payload
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.errors import InputError
from npu_model.export import export_c, export_raw, export_tflite
from npu_model.export.tflite_file import payload_of
from npu_model.program import RegionRole
from npu_model.shapes import round_up
from npu_model.tflite.model import read_tflite
from sim.functional import require_defined
from validation.portfolio import build

NAME = "tiny_conv"


def compiled(*homes: str) -> CompiledNetwork:
    form = with_homes(network(NAME), [Wanted(one, "ext", 1) for one in homes])
    return lower(schedule_layer_by_layer(form, DEFAULT))


def inner_tensor() -> str:
    return next(tensor.name for tensor in network(NAME).graph.tensors if tensor.kind.value == "intermediate")


def vela(*, separate: bool) -> bytes:
    options = CompilerOptions(DEFAULT, optimise="Size", debug_database=False, separate_io_regions=separate)
    return compile_network(model_bytes(NAME), options).compiled


def test_velas_separate_regions_are_read_and_run_as_its_one_arena_is() -> None:
    apart, together = read_compiled(vela(separate=True)), read_compiled(vela(separate=False))
    assert [binding.region for binding in (*apart.inputs, *apart.outputs)] == [3, 4]
    assert [region.role for region in apart.programs[0].regions[3:]] == [RegionRole.HOME] * 2
    assert apart.arena_size < together.arena_size
    require_defined(apart)
    assert outputs(apart) == outputs(together)


def test_velas_regions_of_several_inputs_and_outputs_hold_them_one_behind_the_other() -> None:
    model = build("frame_and_last_one")
    apart, together = (
        read_compiled(compile_network(model, CompilerOptions(DEFAULT, debug_database=False, separate_io_regions=separate)).compiled)
        for separate in (True, False)
    )
    assert [binding.region for binding in (*apart.inputs, *apart.outputs)] == [3, 3, 4, 4]
    first, second = apart.inputs
    assert second.byte_range.start == first.byte_range.end
    assert [region.size for region in apart.programs[0].regions[3:]] == [
        round_up(max(one.byte_range.end for one in ends), 16) for ends in (apart.inputs, apart.outputs)
    ]
    require_defined(apart)
    assert outputs(apart) == outputs(together)


def test_a_cop2_payload_is_velas_own_but_for_the_id_word() -> None:
    model = read_tflite(vela(separate=True))
    data = bytes(model.tensors[model.operators[0].inputs[0]].data)
    arena = model.tensors[model.operators[0].inputs[2]].shape[0]
    found = parse_payload(data)
    made = build_second(found.words, found.accelerator, arena, separate=True)
    assert made[:44] + made[48:] == data[:44] + data[48:]
    assert parse_payload(made).words == found.words


@pytest.mark.parametrize("change", [slice(4, 8), slice(8, 12), slice(20, 24), slice(28, 32)])
def test_a_cop2_payload_of_another_layout_is_refused(change: slice) -> None:
    data = bytearray(build_second((1, 2, 3), DEFAULT, 64, separate=True))
    data[change] = b"\x99\x99\x99\x99"
    with pytest.raises(InputError, match="not laid out as Vela"):
        parse_payload(bytes(data))
    with pytest.raises(InputError, match="not laid out as Vela"):
        parse_payload(bytes(data[:40]))


@pytest.mark.parametrize("cop_format", ["COP1", "COP2"])
@pytest.mark.parametrize("homes", [("input",), ("output",), ("input", "output")])
def test_an_exported_file_has_the_regions_that_a_runtime_binds(homes: tuple[str, ...], cop_format: str) -> None:
    ours = compiled(*homes)
    read = read_compiled(export_tflite(ours, cop_format=cop_format))
    assert read.programs[0].operations == ours.programs[0].operations
    assert [binding.region for binding in (*read.inputs, *read.outputs)] == [3 if "input" in homes else 1, 4 if "output" in homes else 1]
    assert read.arena_size == ours.arena_size
    assert outputs(read) == outputs(ours)


@pytest.mark.parametrize("homes", [("input",), ("output",), ("input", "output")])
def test_each_of_several_npu_operators_is_handed_its_own_inputs_and_outputs(homes: tuple[str, ...]) -> None:
    form = with_homes(network("cpu"), [Wanted(one, "ext", 1) for one in homes])
    ours = lower(schedule_layer_by_layer(form, DEFAULT))
    read = read_compiled(export_tflite(ours, model_bytes("cpu")))
    assert len(ours.programs) == 2
    assert [one.operations for one in read.programs] == [one.operations for one in ours.programs]
    assert [one.inputs + one.outputs for one in read.programs] == [one.inputs + one.outputs for one in ours.programs]
    homed = [[region for region in one.regions if region.role is RegionRole.HOME] for one in ours.programs]
    assert [[region for region in one.regions if region.role is RegionRole.HOME] for one in read.programs] == homed
    assert (read.arena_size, read.inputs, read.outputs) == (ours.arena_size, ours.inputs, ours.outputs)


def test_payloads_are_cop1_unless_the_other_form_is_asked_for() -> None:
    (program,) = compiled("input").programs
    assert payload_of(program).startswith(b"COP1")
    assert payload_of(program, "COP2", 64).startswith(b"COP2")
    with pytest.raises(InputError, match="COP3"):
        payload_of(program, "COP3")
    assert parse_payload(build_payload((7,), DEFAULT)).words == parse_payload(build_second((7,), DEFAULT, 0, separate=False)).words


def test_a_tensor_that_no_runtime_hands_on_is_not_written_without_a_word() -> None:
    ours = compiled(inner_tensor())
    with pytest.raises(InputError, match=r"Region 5 holds a tensor outside the arena .* export the C format"):
        export_tflite(ours)
    with pytest.raises(InputError, match="three base addresses"):
        export_raw(compiled("input"))
    assert "#define NET_HOME_5_SIZE" in export_c(ours, "net")["net.h"]


def test_a_binding_beyond_its_home_region_is_refused() -> None:
    ours = compiled("input")
    wrong = replace(ours, inputs=tuple(replace(one, address=16) for one in ours.inputs))
    with pytest.raises(InputError, match="of region 3"):
        export_tflite(wrong)


def test_the_c_sources_say_where_homes_are_bound(tmp_path: Path) -> None:
    plain, homed = export_c(compiled(), "net"), export_c(compiled("input", "output"), "net")
    assert "homes" not in plain["net.h"] + plain["net.c"]
    assert "base[3] = (uint64_t)(uintptr_t)homes[0];" in homed["net.c"]
    assert "#define NET_REGIONS 5u" in homed["net.h"]
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed, so that the exported sources cannot be compiled")
    for name, text in homed.items():
        (tmp_path / name).write_text(text, encoding="ascii")
    command = [compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", "-c", "net.c", "-o", "net.o"]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0  # the compiler that was found
