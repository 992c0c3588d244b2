"""The exported C sources, compiled and linked; the Model Library Format archive; and the one way to all formats."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scheduling import model_bytes, schedule

from cascader.ethosu.codegen.lowering import lower
from npu_model.command_stream import parse_payload
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.errors import InputError
from npu_model.export import c_identifier, export_c, export_mlf
from npu_model.export.c_source import MAX_RANK
from npu_model.export.model_library import parameter_file
from npu_model.export.tflite_file import payload_of
from npu_model.program import Binding, DataType, Quantisation, Region, RegionRole
from npu_model.program.text import to_text
from npu_testbed.replays.exports import FORMATS, export

WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wpedantic", "-Wconversion")
MAIN = """\
#include <stdio.h>
#include <string.h>
#include "net.h"

static uint64_t arena[(NET_ARENA_SIZE + 7u) / 8u];

static void describe(const char *side, const net_tensor *tensor)
{
    printf("%s %zu %zu %u %u %.9g %d %u", side, tensor->offset, tensor->size, tensor->bits, tensor->is_signed,
           (double)tensor->scale, tensor->zero_point, tensor->rank);
    for (unsigned axis = 0; axis < tensor->rank; ++axis)
        printf(" %d", tensor->shape[axis]);
    printf(" ");
    for (const char *c = tensor->name; *c; ++c)
        printf("%02x", (unsigned char)*c);
    printf("\\n");
}

static void dump(const char *what, const void *data, size_t size)
{
    printf("%s %zu %u ", what, size, (unsigned)((uintptr_t)data % NET_ALIGNMENT));
    for (size_t i = 0; i < size; ++i)
        printf("%02x", ((const unsigned char *)data)[i]);
    printf("\\n");
}

int main(void)
{
    uint64_t base[NET_REGIONS];
    size_t size[NET_REGIONS];
    printf("%s %u\\n", NET_ACCELERATOR, NET_ARENA_SIZE);
    for (size_t i = 0; i < NET_INPUTS; ++i)
        describe("input", &net_inputs[i]);
    for (size_t i = 0; i < NET_OUTPUTS; ++i)
        describe("output", &net_outputs[i]);
    for (size_t job = 0; job < NET_JOBS; ++job) {
        net_bind(job, arena, base, size);
        dump("payload", net_jobs[job].payload, net_jobs[job].payload_size);
        dump("constants", (const void *)(uintptr_t)base[0], size[0]);
        printf("arena %d %zu %zu\\n", base[1] == (uintptr_t)arena && base[2] == base[1], size[1], size[2]);
    }
    return 0;
}
"""


def lowered(name: str) -> CompiledNetwork:
    return lower(schedule(name))


def build(folder: Path, network: CompiledNetwork, *flags: str) -> Path:
    """The linked test program, or a skip if there is no compiler."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed, so that the exported sources cannot be compiled")
    for file, text in (*export_c(network, "net").items(), ("main.c", MAIN)):
        (folder / file).write_text(text, encoding="ascii")
    for source in ("net.c", "main.c"):
        command = [compiler, *WARNINGS, "-std=c99", *flags, "-c", source]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    subprocess.run([compiler, "net.o", "main.o", "-o", "net"], cwd=folder, check=True, timeout=120)
    return folder / "net"


def described(side: str, binding: Binding) -> str:
    """The line that the test program prints of an array."""
    quantisation = binding.quantisation or Quantisation(0.0, 0)
    fields = [side, binding.address, binding.size, binding.dtype.bits, int(binding.dtype.signed), f"{quantisation.scale:.9g}"]
    fields += [quantisation.zero_point, len(binding.shape), *binding.shape, binding.name.encode().hex()]
    return " ".join(map(str, fields))


def expected(network: CompiledNetwork) -> list[str]:
    lines = [f"{network.programs[0].accelerator} {network.arena_size}"]
    lines += [described("input", binding) for binding in network.inputs] + [described("output", binding) for binding in network.outputs]
    for program in network.programs:
        payload, constants = payload_of(program), program.region(0).content
        lines += [f"payload {len(payload)} 0 {payload.hex()}", f"constants {len(constants)} 0 {constants.hex()}"]
        lines.append(f"arena 1 {network.arena_size} {network.arena_size}")
    return lines


def two_jobs() -> CompiledNetwork:
    """Two programs with one content of constants, and names and numbers that C finds hard."""
    network = lowered("tiny_conv")
    (program,) = network.programs
    odd = replace(network.inputs[0], name='a"b\\c??/d\n*/é', quantisation=Quantisation(struct.unpack("f", struct.pack("f", 1e-05))[0], -7))
    plain = replace(network.outputs[0], name="", quantisation=None, shape=(network.outputs[0].size,))
    return replace(network, steps=(program, program), inputs=(odd,), outputs=(plain, network.outputs[0]))


@pytest.mark.parametrize("name", ["tiny_residual", "rnnoise_INT8"])
def test_the_compiled_sources_hold_the_payload_constants_arena_and_arrays_of_the_network(name: str, tmp_path: Path) -> None:
    program = build(tmp_path, lowered(name))
    assert subprocess.check_output([program], text=True, timeout=60).splitlines() == expected(lowered(name))


def test_names_of_any_characters_and_several_jobs_survive_the_compiler(tmp_path: Path) -> None:
    program = build(tmp_path, two_jobs(), "-trigraphs")
    assert subprocess.check_output([program], text=True, timeout=60).splitlines() == expected(two_jobs())
    assert export_c(two_jobs(), "net")["net.c"].count("static const uint8_t constants_") == 1


def test_a_network_with_state_comes_with_a_function_that_begins_it(tmp_path: Path) -> None:
    network = lower(schedule("tiny_conv"))
    states = tuple(
        Binding(name, 1, address, (1, 8), dtype, Quantisation(0.5, -4))
        for name, address, dtype in (("h", 0, DataType(8, signed=True)), ("cell", 16, DataType(16, signed=True)))
    )
    sources = export_c(replace(network, variables=states), "net")
    plain = export_c(network, "net")
    assert "net_reset" not in plain["net.h"] + plain["net.c"]
    for name, text in sources.items():
        (tmp_path / name).write_text(text)
    steps = (
        "for (i = 0; i < 64; ++i) arena[i] = 0xaa;",
        "net_reset(arena);",
        'for (i = 0; i < 40; ++i) printf("%02x", arena[i]);',
        "return 0;",
    )
    main = '#include <stdio.h>\n#include "net.h"\nstatic uint8_t arena[64];\nint main(void) { int i; ' + " ".join(steps) + " }\n"
    (tmp_path / "main.c").write_text(main)
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler is installed")
    subprocess.run([compiler, "-std=c99", *WARNINGS, "main.c", "net.c", "-o", "net"], cwd=tmp_path, check=True, timeout=60)
    found = subprocess.run([tmp_path / "net"], capture_output=True, text=True, check=True, timeout=60).stdout
    assert found == "fc" * 8 + "aa" * 8 + "00" * 16 + "aa" * 8


def test_the_sources_are_also_cpp(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not installed, so that the exported sources cannot be compiled as C++")
    for file, text in export_c(lowered("tiny_conv"), "net").items():
        (tmp_path / file).write_text(text, encoding="ascii")
    command = [compiler, *WARNINGS, "-x", "c++", "-std=c++11", "-c", "net.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_network_without_constants_compiles_and_counts_none(tmp_path: Path) -> None:
    network = lowered("tiny_conv")
    (program,) = network.programs
    bare = replace(program, operations=program.operations[-1:], words=program.words[-1:], names=())
    bare = replace(bare, regions=(Region(0, RegionRole.CONSTANTS, 0), program.region(1)))
    empty = replace(network, steps=(bare,))
    assert subprocess.check_output([build(tmp_path, empty)], text=True, timeout=60).splitlines() == expected(empty)


def test_the_placement_of_the_large_arrays_is_the_users(tmp_path: Path) -> None:
    program = build(tmp_path, lowered("tiny_conv"), '-DNET_PLACEMENT=__attribute__((aligned(16),section("weights")))')
    assert b"weights" in program.read_bytes()
    assert subprocess.check_output([program], text=True, timeout=60).splitlines() == expected(lowered("tiny_conv"))


@given(st.text())
def test_any_text_makes_a_c_identifier(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", c_identifier(text))


@pytest.mark.parametrize("name", ["", "9net", "a-b", "a b", "é", "a\n"])
def test_a_name_that_is_no_identifier_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="cannot name things in C"):
        export_c(lowered("tiny_conv"), name)


def test_what_c_cannot_run_is_refused_by_name() -> None:
    network = lowered("tiny_conv")
    (program,) = network.programs
    apart = replace(program, regions=(*program.regions, Region(2, RegionRole.FAST_SCRATCH, 64)))
    other = replace(program, accelerator="ethos-u55-256", operations=program.operations[-1:], words=program.words[-1:], names=())
    deep = replace(network.inputs[0], shape=(1,) * (MAX_RANK + 1), quantisation=None)
    for broken, pattern in [
        (lowered("cpu"), "runs DEPTH_TO_SPACE on the CPU: the C format has no kernels for it; export a .tflite file"),
        (replace(network, steps=(apart,)), "compile for Shared_Sram"),
        (replace(network, steps=(program, other)), "different accelerators"),
        (replace(network, inputs=()), "0 inputs and 1 outputs"),
        (replace(network, inputs=(deep,)), "9 dimensions: 8"),
    ]:
        with pytest.raises(InputError, match=pattern):
            export_c(broken, "net")


# The Model Library Format.


def unpacked(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        files = {entry.name: archive.extractfile(entry) for entry in archive.getmembers()}
        return {name: file.read() for name, file in files.items() if file is not None}


def test_the_archive_has_the_places_of_the_model_library_format() -> None:
    network = lowered("rnnoise_INT8")
    files = unpacked(export_mlf(network, "noise"))
    assert sorted(files) == [
        "codegen/host/include/noise.h",
        "codegen/host/src/noise.c",
        "metadata.json",
        "parameters/noise.params",
        "src/noise.program.txt",
    ]
    sources = export_c(network, "noise")
    assert files["codegen/host/include/noise.h"].decode() == sources["noise.h"]
    assert files["codegen/host/src/noise.c"].decode() == sources["noise.c"]
    assert files["src/noise.program.txt"].decode() == to_text(network.programs[0])


def test_the_archives_metadata_gives_the_memory_that_the_schedule_planned() -> None:
    network = lowered("rnnoise_INT8")
    metadata = json.loads(unpacked(export_mlf(network, "noise"))["metadata.json"])
    module = metadata["modules"]["noise"]
    (main,) = module["memory"]["functions"]["main"]
    assert metadata["version"] == 7
    assert (module["model_name"], module["style"], module["executors"]) == ("noise", "full-model", ["aot"])
    assert main["workspace_size_bytes"] == schedule("rnnoise_INT8").arena_size
    assert main["constants_size_bytes"] == len(network.programs[0].region(0).content)
    assert main["io_size_bytes"] == sum(binding.size for binding in network.inputs + network.outputs)
    assert main["inputs"] == {b.name: {"dtype": "int8", "size": b.size} for b in network.inputs}
    assert list(main["outputs"]) == sorted(b.name for b in network.outputs)
    assert [job["function_name"] for job in module["memory"]["functions"]["operator_functions"]] == ["noise_job_0"]


def test_inputs_of_one_name_are_refused_in_the_archive_whose_metadata_tells_them_by_name() -> None:
    network = lowered("tiny_conv")
    with pytest.raises(InputError, match="2 inputs are called 'image'"):
        export_mlf(replace(network, inputs=network.inputs * 2), "net")


def read_parameters(data: bytes) -> dict[str, bytes]:
    """A reader of TVM's parameter files that knows one-dimensional uint8 arrays."""
    magic, reserved, count = struct.unpack_from("<QQQ", data)
    assert (magic, reserved) == (0xF7E58D4F05049CB7, 0)
    position, names, arrays = 24, [], []
    for _ in range(count):
        (length,) = struct.unpack_from("<Q", data, position)
        names.append(data[position + 8 : position + 8 + length].decode())
        position += 8 + length
    assert struct.unpack_from("<Q", data, position) == (count,)
    position += 8
    for _ in range(count):
        head = struct.unpack_from("<QQiiiBBHqq", data, position)
        assert head[:8] == (0xDD5E40F096B4A13F, 0, 1, 0, 1, 1, 8, 1)
        assert head[8] == head[9]
        position += 48
        arrays.append(data[position : position + head[9]])
        position += head[9]
    assert position == len(data)
    return dict(zip(names, arrays, strict=True))


def test_the_archives_parameters_are_the_constants() -> None:
    network = lowered("rnnoise_INT8")
    parameters = read_parameters(unpacked(export_mlf(network, "noise"))["parameters/noise.params"])
    assert parameters == {"constants_0": network.programs[0].region(0).content}
    assert read_parameters(parameter_file({})) == {}
    assert read_parameters(parameter_file({"a": b"", "bb": b"xyz"})) == {"a": b"", "bb": b"xyz"}


# The one way to all formats.


def test_a_schedule_and_its_lowered_network_export_to_the_same_files() -> None:
    for file_format in FORMATS:
        files = export(schedule("tiny_conv"), file_format, name="net 1.0")
        assert files == export(lowered("tiny_conv"), file_format, name="net 1.0")
    assert set(export(schedule("tiny_conv"), name="net 1.0")) == {"net 1.0.tflite"}
    assert set(export(schedule("tiny_conv"), "c", name="net 1.0")) == {"net_1_0.h", "net_1_0.c"}
    assert set(export(schedule("tiny_conv"), "mlf", name="net 1.0")) == {"net 1.0.tar"}


def test_each_format_carries_the_same_payload() -> None:
    expected_payload = payload_of(lowered("tiny_conv").programs[0])
    assert expected_payload in export(schedule("tiny_conv"))["network.tflite"]
    assert parse_payload(expected_payload).words
    rows = re.search(r"payload_0\[\d+\] \w+ = \{\n(.*?)\};", export(schedule("tiny_conv"), "c")["network.c"].decode(), re.DOTALL)
    assert rows is not None
    assert bytes(int(byte, 16) for byte in re.findall(r"0x(\w\w)", rows[1])) == expected_payload
    assert read_compiled(export(schedule("tiny_conv"))["network.tflite"]).programs[0].words == lowered("tiny_conv").programs[0].words


def test_a_model_with_another_hash_than_the_schedules_is_refused() -> None:
    model = model_bytes("cpu")
    recorded = replace(schedule("cpu").provenance, model="cpu.tflite", model_sha256=hashlib.sha256(model).hexdigest())
    plan = replace(schedule("cpu"), provenance=recorded)
    assert export(plan, model=model) == export(schedule("cpu"), model=model)
    with pytest.raises(InputError, match=r"was made from 'cpu.tflite' with SHA-256 [0-9a-f]{16}\.\.\. but the model given has"):
        export(plan, model=model_bytes("tiny_conv"))


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"'elf' is unknown: choose tflite, c, mlf"):
        export(schedule("tiny_conv"), "elf")


DIGEST = """
import hashlib, sys
sys.path[:0] = sys.argv[1:]
from scheduling import schedule
from npu_testbed.replays.exports import FORMATS, export
files = [export(schedule("tiny_residual"), name) for name in FORMATS]
print(hashlib.sha256(repr(files).encode()).hexdigest())
"""


def test_two_hash_seeds_give_the_same_bytes_in_every_format() -> None:
    folders = [str(Path(__file__).parents[2]), str(Path(__file__).parents[3])]
    digests = {
        subprocess.check_output([sys.executable, "-c", DIGEST, *folders], env={"PYTHONHASHSEED": seed}, timeout=120, text=True)
        for seed in ("1", "2")
    }
    assert len(digests) == 1
