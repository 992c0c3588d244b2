"""Compiled networks as people have them: ExecuTorch's `.pte`, and C arrays."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from command_line import call, refusal
from delegates import U85_SYSTEM, block, pte, raw_network, stream

from cascader.frontends.vela import CompilerOptions, compile_network
from npu_model.compiled.c_array import c_arrays
from npu_model.compiled.executorch import ARENA, MAGIC, RUNTIME, _tensors, read_executorch
from npu_model.compiled.network import CpuOperator, Program, read_compiled
from npu_model.errors import InputError
from validation.zoo import build

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    return raw_network(tmp_path_factory.mktemp("raw"))


def test_a_delegate_is_the_program_that_vela_writes_into_a_tflite(raw: dict[str, np.ndarray]) -> None:
    (program,) = read_executorch(pte(stream(raw))).programs
    (expected,) = read_compiled(compile_network(build("tiny_residual"), CompilerOptions("ethos-u55-128")).compiled).programs
    assert program.operations == expected.operations
    assert program.regions[0].content == expected.regions[0].content
    assert [b.byte_range for b in program.inputs + program.outputs] == [b.byte_range for b in expected.inputs + expected.outputs]


@pytest.mark.parametrize("file_format", ["c", "raw"])
def test_a_delegate_whose_fast_scratch_has_no_bytes_is_written_in_other_forms(file_format: str, tmp_path: Path) -> None:
    deployed = ROOT / "tests" / "golden" / "two_inputs_executorch.pte"
    there = tmp_path / ("a.c" if file_format == "c" else "a.npz")
    call("export", deployed, "--format", file_format, "-o", there)
    said = [call("simulate", "vela", file, "--no-advice").output.partition(" on ")[2].splitlines()[0] for file in (deployed, there)]
    assert said[0] == said[1]
    assert "21,697 cycles" in said[0]


def test_a_pte_is_replayed_to_the_cycles_of_the_tflite_and_its_arena_drawn(raw: dict[str, np.ndarray], tmp_path: Path) -> None:
    path = tmp_path / "n.pte"
    path.write_bytes(pte(stream(raw)))
    picture = tmp_path / "m.svg"
    found = json.loads(call("simulate", "vela", path, "--json", "--sram-map", picture).output)
    expected = json.loads(call("simulate", "vela", "zoo:tiny_residual", "--json").output)
    assert found["summary"] == expected["summary"]
    assert picture.read_bytes().startswith(b"<svg")
    assert call("inspect", path).output == call("inspect", path).output != ""


@pytest.mark.parametrize(("macs", "mode"), [(256, "Sram_Only"), (1024, "Sram_Only"), (256, "Dedicated_Sram_384KB")])
def test_a_delegate_of_a_u85_is_the_program_of_its_tflite(macs: int, mode: str, tmp_path: Path) -> None:
    """Its fast scratch, of which the stream says nothing, is what the operations use."""
    device = f"ethos-u85-{macs}"
    arrays = raw_network(tmp_path, *U85_SYSTEM, mode, device=device)
    path = tmp_path / "n.pte"
    path.write_bytes(pte(stream(arrays)))
    (program,) = read_executorch(path.read_bytes()).programs
    config = CompilerOptions(device, system_config="Ethos_U85_SYS_DRAM_Mid", memory_mode=mode)
    compiled = compile_network((tmp_path / "n.tflite").read_bytes(), config).compiled
    (expected,) = read_compiled(compiled).programs
    assert (program.accelerator, program.operations) == (device, expected.operations)
    assert (program.regions[2].size > 0) == (mode != "Sram_Only")
    plain, source = tmp_path / "n_vela.tflite", tmp_path / "n.cc"
    plain.write_bytes(compiled)
    source.write_text(c_source(path.read_bytes()))
    ours, theirs, array = (json.loads(call("simulate", "vela", file, "--json").output)["summary"] for file in (path, plain, source))
    assert ours["cycles"] == theirs["cycles"] == array["cycles"]
    assert call("check", path, "--max-cycles", ours["cycles"]).status == 0
    assert device in call("inspect", path).output


def test_a_pte_of_executorchs_own_writers_is_the_program_of_its_tflite() -> None:
    """`vela_compile` of ExecuTorch 1.5.1 packed the delegate, with Vela 5.2.0, and its `serialize_pte_binary` wrote the file.

    Torch was not there, so that the program around the delegate, which calls it once, is made by hand.
    """
    (program,) = read_executorch((ROOT / "tests" / "golden" / "keyword_spotter_executorch.pte").read_bytes()).programs
    found = compile_network((ROOT / "examples" / "keyword_spotter.tflite").read_bytes(), CompilerOptions("ethos-u55-128"))
    if found.version != "5.2.0":
        pytest.skip(f"Vela {found.version} is installed, and the file was written with 5.2.0")
    (expected,) = read_compiled(found.compiled).programs
    assert program.operations == expected.operations
    assert program.regions[0].content == expected.regions[0].content
    assert [b.byte_range for b in program.inputs + program.outputs] == [b.byte_range for b in expected.inputs + expected.outputs]


def test_several_delegates_run_one_after_the_other_in_the_larger_arena(raw: dict[str, np.ndarray], tmp_path: Path) -> None:
    one = read_executorch(stream(raw))
    two = read_executorch(pte(stream(raw), stream(raw, scratch_size=struct.pack("<I", one.arena_size + 4096))))
    assert [type(step) for step in two.steps] == [Program, CpuOperator, Program]
    assert two.arena_size == one.arena_size + 4096
    path = tmp_path / "two.pte"
    path.write_bytes(pte(stream(raw), stream(raw)))
    document = json.loads(call("simulate", "vela", path, "--json").output)
    single = json.loads(call("simulate", "vela", "zoo:tiny_residual", "--json").output)
    assert document["summary"]["cycles"] == 2 * single["summary"]["cycles"]
    assert document["summary"]["cpu_operators"] == {RUNTIME: 1}


def test_a_stream_whose_blocks_lie_elsewhere_is_refused(raw: dict[str, np.ndarray]) -> None:
    moved = stream(raw).replace(block("weight_data", raw["weight_data"].tobytes()), block("weight_data", b"0" * 64, elsewhere=True))
    with pytest.raises(InputError, match="is kept outside it"):
        read_executorch(moved)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"inputs": b"\xff\xff\xff\x7f"}, "claims 2147483647 inputs"),
        ({"inputs": b""}, "claims -1 inputs"),
        ({"inputs": struct.pack("<9i", 1, 1, 1, 1, 1, 1, 1, 1, 0)}, "claims 1 inputs in 36 bytes"),
        ({"outputs": struct.pack("<10i", 1, 1, 1, 1, 1, 1, 0, 1, 0, 1)}, "has an output of shape"),
        ({"scratch_size": b"1"}, "scratch_size of 1 bytes"),
        ({"cmd_data": b"COP3    "}, "only these are read"),
    ],
)
def test_a_damaged_stream_is_refused(raw: dict[str, np.ndarray], changed: dict[str, bytes], says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_executorch(stream(raw, **changed))


def test_a_stream_cut_off_anywhere_is_refused(raw: dict[str, np.ndarray]) -> None:
    whole = stream(raw)
    for end in range(len(MAGIC), len(whole) - 32, 101):
        with pytest.raises(InputError):
            read_executorch(whole[:end])


def c_source(data: bytes, declaration: str = "alignas(16) static const unsigned char network_tflite[]") -> str:
    return f"/* {{0x00}} */\n{declaration} = {{\n" + ",\n".join(f"0x{byte:02x}" for byte in data) + "\n};\nunsigned int n = 3;\n"


DECLARATIONS = ("unsigned char n[]", "const uint8_t nn_model[] __attribute__((aligned(16)))", "static const int8_t g_model[4096u]")


@pytest.mark.parametrize("declaration", DECLARATIONS)
def test_a_c_array_of_a_compiled_network_is_replayed_as_the_network(declaration: str, tmp_path: Path) -> None:
    compiled = compile_network(build("tiny_conv"), CompilerOptions("ethos-u55-128")).compiled
    path = tmp_path / "model.cc"
    path.write_text(c_source(compiled, declaration))
    found = json.loads(call("simulate", "vela", path, "--json").output)
    expected = json.loads(call("simulate", "vela", "zoo:tiny_conv", "--json").output)
    assert found["summary"] == expected["summary"]


def test_a_c_array_of_a_network_that_is_not_compiled_is_compiled_first(tmp_path: Path) -> None:
    path = tmp_path / "model.h"
    path.write_text(c_source(build("tiny_conv")))
    assert json.loads(call("simulate", "vela", path, "--json").output)["planner"].startswith("Vela ")


def test_numbers_of_any_base_and_sign_are_bytes() -> None:
    assert list(c_arrays(b"uint8_t a[3] = {0x1F, 7, -1}; char b[] = {};")) == [b"\x1f\x07\xff", b""]
    with pytest.raises(InputError, match="holds 256"):
        list(c_arrays(b"uint8_t a[] = {256};"))


def test_a_c_source_of_no_network_or_of_two_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.c"
    path.write_text("const uint8_t a[] = {1, 2, 3};")
    assert "has 0 arrays of bytes with a .tflite" in refusal("simulate", "vela", path)
    compiled = compile_network(build("tiny_conv"), CompilerOptions("ethos-u55-128")).compiled
    path.write_text(c_source(compiled) * 2)
    assert "has 2 arrays" in refusal("simulate", "vela", path)


@pytest.mark.parametrize("piece", [b"/*", b"//", b"char[", b"{", b"char a[]={", b"=", b"/", b"char a[] = {}"])
def test_a_source_of_any_text_is_looked_at_in_linear_time(piece: bytes) -> None:
    start = time.process_time()
    list(c_arrays(piece * 100_000))
    assert time.process_time() - start < 5


@pytest.mark.parametrize("size", [1, 2, 4])
def test_tensors_of_a_delegate_have_elements_of_one_two_or_four_bytes(size: int) -> None:
    (found,) = _tensors(struct.pack("<iiiiiiiiii", 1, 1, 1, 1, 4, 4, 8, size, 64, ARENA), "input", 0)
    assert (found.dtype.bits, found.shape, found.address) == (8 * size, (1, 4, 4, 8), 64)


@pytest.mark.parametrize(("size", "offset", "extent"), [(3, 64, 4), (0, 64, 4), (8, 64, 4), (1, -16, 4), (1, 64, 0)])
def test_other_tensors_of_a_delegate_are_refused(size: int, offset: int, extent: int) -> None:
    with pytest.raises(InputError, match=f"elements of {size} bytes at {offset} of region"):
        _tensors(struct.pack("<iiiiiiiiii", 1, 1, 1, 1, extent, 4, 8, size, offset, ARENA), "input", 0)
