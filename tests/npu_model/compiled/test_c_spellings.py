"""One network reads the same however a generator spells its arrays in C or C++."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import call
from deployed_forms import compiled_network
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_model.compiled.c_array import named_arrays
from npu_model.compiled.deployed import read_deployed, stream_names
from npu_model.compiled.network import CpuOperator
from npu_model.compiled.payload_network import APPLICATION
from npu_model.errors import InputError
from npu_model.export.regions import constants_of
from npu_model.export.tflite_file import payload_of

BEFORE = (
    "static const",
    "const",
    "constexpr",
    "inline constexpr",
    "alignas(16) static const",
    "const __attribute__((aligned(16)))",
    '__attribute__((section(".nor{0}"), aligned(16))) const',
    "[[gnu::aligned(16)]] extern const",
    "const EI_ALIGN(16)",
    "__declspec(align(32)) static const",
    "_Alignas(16)",
)
BEHIND = (
    "",
    "PROGMEM",
    '__attribute__((section(".rodata;,\\"a\\"")))',
    "DEFINE_SECTION(STRINGIZE_VALUE_OF(EI_LOCATION))",
    "[[maybe_unused]]",
)
TYPES = {
    1: ("uint8_t", "unsigned char", "std::uint8_t", "int8_t", "signed char", "char", "u8", "BYTE", "octet_t", "raw_t", "WEIGHT"),
    2: ("uint16_t", "unsigned short"),
    4: ("uint32_t", "unsigned int", "unsigned long", "std::uint32_t"),
    8: ("uint64_t", "unsigned long long"),
}
GAPS = (",", ", ", ",\n", ",\r\n\t", ', /* {;} " */ ', ", // } next ' one\n", ",\\\n  ", "\n,")
NUMBERS: tuple[Callable[[int, int], str], ...] = (
    lambda value, _: str(value),
    lambda value, _: f"0x{value:02x}",
    lambda value, _: f"0X{value:X}u",
    lambda value, _: f"0{value:o}",
    lambda value, _: f"0b{value:b}",
    lambda value, _: f"{value}UL",
    lambda value, size: f"(uint{8 * size}_t)0x{value:x}",
    lambda value, size: f"static_cast<uint{8 * size}_t>({value})",
    lambda value, size: str(value - (1 << 8 * size)) if value >> 8 * size - 1 else str(value),
    lambda value, size: f"'\\x{value:02x}'" if size == 1 else f"{value:_}".replace("_", "'"),
    lambda value, size: f"'{chr(value)}'" if size == 1 and chr(value) in 'COP1ab{};,"' else str(value),
)
HEADS = (
    "#include <stdint.h> // {\n",
    "typedef unsigned char octet_t;\nusing raw_t = const std::uint8_t;\n#define WEIGHT uint8_t\n",
    "#if defined(__GNUC__)\n#define EI_ALIGN(x) __attribute__((aligned(x))) \\\n  const {\n#else\n#define EI_ALIGN(x)\n#endif\n",
    'static const char *const where = "http://a.b/{c}; // \\"";\n',
    "static int twice(const uint8_t values[]) { for (int i = 0; i < 2; ++i) { (void)values[i]; } return 2; }\n",
    "const TfArray<4, int> tensor_dimension0 = { 4, { 1,96,96,3 } };\nconst float scale[1] = { 0.0078f, };\n",
    'struct tensor { const char *name; int dims[4]; } table[] = { { "in{", { 1, 2, 3, 4 } }, };\n',
    "const int32_t shape[4] = { 1, -16, 16, 8 };\nconst uint8_t labels[] = { };\n",
)
AROUND = (
    ("", ""),
    ("namespace {\n", "}  // namespace\n"),
    ("namespace ei { namespace impl {\n", "} }\n"),
    ('#ifdef __cplusplus\nextern "C" {\n#endif\n', "#ifdef __cplusplus\n}\n#endif\n"),
    ("#if 1\n", "#else\nconst uint8_t tensor_data1[4] = { 67, 79, 80, 49 };\n#endif\n"),
    ("#if 0\n#if A\nconst uint8_t tensor_data1[4] = { 67, 79, 80, 49 };\n#endif\n#else\n", "#endif\n"),
)


def spelled(name: str, data: bytes, rng: random.Random) -> str:
    """An array in one of the spellings."""
    size = rng.choice([1, 1, 1, 2, 4, 8]) if len(data) % 8 == 0 else 1
    values = [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]
    styles = rng.choice([[rng.choice(NUMBERS)], [rng.choice(NUMBERS) for _ in range(3)]])
    texts = [rng.choice(styles)(value, size) for value in values]
    gap = rng.choice(GAPS)
    half = len(texts) // 2
    nested = rng.random() < 0.2 and len(texts) % 2 == 0
    body = f"{{{gap.join(texts[:half])}}}, {{{gap.join(texts[half:])}}}" if nested else gap.join(texts) + rng.choice(["", ",", "\n"])
    kind = rng.choice(TYPES[size])
    before, behind = rng.choice(BEFORE), rng.choice(BEHIND)
    if rng.random() < 0.2:
        return f"{before} std::array<{kind}, {len(values)}> {name} = {{{{ {body} }}}};\n"
    extent = f"[2][{half}]" if nested else rng.choice(["[]", f"[{len(values)}]", f"[ {len(values)}u ]", "[kSize + 1]"])
    return f"{before} {kind} {name}{extent} {behind} = {{ {body} }};\n"


@settings(max_examples=60)
@given(st.integers(0, 1 << 32), st.binary(min_size=1, max_size=64), st.binary(min_size=8, max_size=8))
def test_an_array_has_the_same_bytes_in_every_spelling(seed: int, some: bytes, other: bytes) -> None:
    rng = random.Random(seed)
    heads = [one for one in HEADS if rng.random() < 0.6 or "WEIGHT" in one]
    rng.shuffle(heads)
    start, end = rng.choice(AROUND)
    source = "".join((*heads, start, spelled("tensor_data1", some, rng), spelled("tensor_data2", other, rng), end))
    found = [(name, content) for name, content in named_arrays(source.encode("latin-1")) if name.startswith("tensor_data")]
    assert found == [("tensor_data1", some), ("tensor_data2", other)], source


@settings(max_examples=8)
@given(
    st.integers(0, 1 << 32),
    st.sampled_from([("tensor_data1", "tensor_data2"), ("sub_0000_command_stream", "sub_0000_model_data"), ("a", "b")]),
)
def test_a_stream_is_the_same_program_in_every_spelling(seed: int, names: tuple[str, str]) -> None:
    (expected,) = compiled_network("tiny_conv").programs
    rng = random.Random(seed)
    arrays = [spelled(name, data, rng) for name, data in zip(names, (payload_of(expected), constants_of(expected)), strict=True)]
    rng.shuffle(arrays)
    start, end = rng.choice(AROUND[:4])
    (found,) = read_deployed("".join((*HEADS, start, *arrays, end)).encode("latin-1")).programs
    assert (found.operations, found.region(0).content) == (expected.operations, expected.region(0).content)


def subgraphs(*names: str) -> str:
    """A source with the same program for each name, as RUHMI writes subgraphs."""
    (program,) = compiled_network("tiny_conv").programs
    rng = random.Random(1)
    parts = (("command_stream", payload_of(program)), ("model_data", constants_of(program)))
    return "".join(spelled(f"{name}_{part}", data, rng) for name in names for part, data in parts)


def test_several_streams_are_named_and_run_one_after_the_other(tmp_path: Path) -> None:
    source = subgraphs("sub_0000", "sub_0001", "sub_0002")
    network = read_deployed(source.encode())
    (expected,) = compiled_network("tiny_conv").programs
    assert stream_names(source.encode()) == ("sub_0000", "sub_0001", "sub_0002")
    assert [one.operations for one in network.programs] == 3 * [expected.operations]
    assert [one.code for one in network.steps if isinstance(one, CpuOperator)] == [APPLICATION, APPLICATION]
    assert [one.name for one in network.programs[1].inputs] == ["sub_0001_input_0"]
    assert [one.size for one in network.programs[1].inputs] == [one.size for one in compiled_network("tiny_conv").inputs]
    path = tmp_path / "n.c"
    path.write_text(source)
    for words in (("inspect", path), ("simulate", "vela", path, "--no-advice"), ("verify", path), ("check", path, "--max-bytes", "1MiB")):
        outcome = call(*words)
        assert outcome.status == 0, outcome
        assert "n.c holds 3 command streams (sub_0000, sub_0001, sub_0002), which run one after the other" in outcome.errors
    refused = call("verify", path, "--model", "zoo:tiny_conv")
    assert (refused.status, refused.output) == (2, "")
    assert "has 3 command streams: leave --model out" in refused.errors


def test_a_stream_in_two_branches_is_refused_by_its_name() -> None:
    source = f"#ifdef MACS_256\n{subgraphs('net')}#else\n{subgraphs('net')}#endif\n"
    with pytest.raises(InputError, match="defines 'net_command_stream' more than once: keep one definition, such as one branch"):
        read_deployed(source.encode())
