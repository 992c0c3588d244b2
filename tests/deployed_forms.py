"""Deployed forms of a compiled network, as Edge Impulse's EON compiler, Renesas' RUHMI and our own export write them."""

from __future__ import annotations

from functools import cache

from cascader.frontends.vela import CompilerOptions, compile_network
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.export import export_c
from npu_model.export.regions import constants_of
from npu_model.export.tflite_file import payload_of
from validation.zoo import build

SOURCES = OWN, EON, RUHMI, WORDS = "own", "eon", "ruhmi", "words"


@cache
def compiled_network(name: str) -> CompiledNetwork:
    """A network of the zoo, as Vela compiles it for 128 MACs."""
    return read_compiled(compile_network(build(name), CompilerOptions("ethos-u55-128")).compiled)


def _numbers(data: bytes, form: str) -> str:
    return ", ".join(form.format(byte) for byte in data)


def source_of(kind: str, network: CompiledNetwork) -> bytes:
    """The C source of a network in one of the forms."""
    if kind == OWN:
        return export_c(network, "n")["n.c"].encode("ascii")
    (program,) = network.programs
    payload, constants = payload_of(program), constants_of(program)
    if kind == WORDS:
        values = [int.from_bytes(payload[at : at + 4], "little") for at in range(0, len(payload), 4)]
        words = ", ".join(map(hex, values))
        text = f"const uint32_t commands[] = {{ {words} }};\nstatic const uint8_t weights[] = {{ {_numbers(constants, '{:#x}')} }};\n"
        return text.encode("ascii")
    if kind == EON:
        aligned = "const __attribute__((aligned(16))) uint8_t"
        arrays = ((1, payload), (2, constants))
        text = "".join(f"{aligned} tensor_data{at}[{len(data)}] = {{ {_numbers(data, '{}')}, }};\n" for at, data in arrays)
        head = f"#include <stdint.h>\nuint8_t tensor_arena[{network.arena_size}] __attribute__((aligned(16)));\n"
        return (head + text).encode("ascii")
    parts = (("command_stream", payload), ("model_data", constants))
    text = "".join(
        f"const size_t sub_0000_{name}_size = {len(data)};\n"
        f"__attribute__((aligned(16))) const uint8_t sub_0000_{name}[{len(data)}] = {{\n{_numbers(data, '0x{:02x}')}\n}};\n"
        for name, data in parts
    )
    return f"{text}__attribute__((aligned(16))) uint8_t sub_0000_arena[{network.arena_size}];\n".encode("ascii")
