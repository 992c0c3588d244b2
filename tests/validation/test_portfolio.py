"""The portfolio's networks: the same bytes everywhere, taken by LiteRT and by Vela, with every operator of the NPU among them."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asked_for import schedule

from cascader.frontends.vela import CompilerOptions, compile_network
from npu_model.errors import InputError
from npu_model.tflite.model import read_tflite
from npu_testbed.models.sources import load_model
from npu_testbed.proofs.file_verification import verify
from npu_testbed.replays.scheduling import write_schedule
from validation.builder import NetworkBuilder
from validation.portfolio import NETWORKS, PortfolioNetwork, build, portfolio_network
from validation.portfolio.chains import CHAINS
from validation.portfolio.operators import BETWEEN, ENDS

DIGESTS = {
    "named figures": "200dddd3b63c8dd58ec9286bdac0b01a",
    "classifiers": "519a6fe4597bb11322534060519e97d7",
    "dense outputs": "61b23e538a00bf7b0ebefcf491c90b3c",
    "sequences": "178c47abcbbf5e1b19496d0656c08253",
    "states and chains": "0f6910e4f9b4584a275181c6a202758f",
    "on the CPU": "12dafc553d7033057769ba4fefae7389",
    "shapes and ends": "82a97248f7b02bb32f2f93b1ad11951a",
    "long reaches": "b376a454ecb01033e556b073eece4f71",
    "ends off the arena": "c5b4837ea704d303d54d99db683946ec",
    "number formats": "f732cc7b9d61647be6b63dd376fe3213",
    "between convolutions": "3491c4c15956908cc17d3c15a338042c",
    "first and last": "6d2a961186a14101e6316f2116566f58",
}
"""SHA-256 (its first half) of all networks of a group, one after the other: they are the same on every platform."""

NO_KERNEL = {"conv_elu_conv", "elu_at_ends"}
"""LiteRT's reference kernels have no ELU for integers."""


@cache
def network(name: str) -> bytes:
    return build(name)


def test_there_are_networks_of_every_kind_and_a_sample_of_each_but_the_ends() -> None:
    groups = {entry.group for entry in NETWORKS}
    assert len(NETWORKS) >= 80
    assert len({entry.name for entry in NETWORKS}) == len(NETWORKS)
    assert {entry.group for entry in NETWORKS if entry.sampled} == groups - {ENDS}
    assert sum(entry.sampled for entry in NETWORKS) <= len(NETWORKS) // 6
    assert all(re.fullmatch(r"[a-z0-9_]+", entry.name) for entry in NETWORKS)


def test_every_network_has_the_bytes_that_it_had() -> None:
    found = defaultdict(hashlib.sha256)
    for entry in NETWORKS:
        found[entry.group].update(network(entry.name))
    assert {group: digest.hexdigest()[:32] for group, digest in found.items()} == DIGESTS


def test_a_network_is_the_same_when_it_is_built_again() -> None:
    assert [entry.build() for entry in NETWORKS[::7]] == [network(entry.name) for entry in NETWORKS[::7]]


def test_a_model_is_named_with_the_portfolio_before_it() -> None:
    assert load_model("portfolio:mnist").data == network("mnist")
    with pytest.raises(InputError, match=r"no network 'minst'.*did you mean mnist.*--list. names all"):
        load_model("portfolio:minst")


def test_a_schedule_of_a_network_of_the_portfolio_records_what_it_is_verified_with(tmp_path: Path) -> None:
    write_schedule(schedule("portfolio:skip_over_cpu", cascade=False), tmp_path / "skip.json")
    assert verify(tmp_path / "skip.json").passed


def interpreted(data: bytes) -> dict[int, np.ndarray]:
    """Outputs of LiteRT for seeded noise, by the index of the tensor: of its reference kernels, but of its built-in SUM.

    The reference kernel of SUM does not hold the sum of 8 or 16 bits.
    """
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT (ai-edge-litert) is not installed")
    sums = any(operator.code == "SUM" for operator in read_tflite(data).operators)
    kernels = litert.OpResolverType.BUILTIN if sums else litert.OpResolverType.BUILTIN_REF
    interpreter = litert.Interpreter(model_content=data, experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    random = np.random.default_rng(1)
    for entry in interpreter.get_input_details():
        limits = np.iinfo(entry["dtype"])
        values = random.integers(limits.min, limits.max + 1, entry["shape"])
        interpreter.set_tensor(entry["index"], values.astype(entry["dtype"]))
    interpreter.invoke()
    return {entry["index"]: interpreter.get_tensor(entry["index"]) for entry in interpreter.get_output_details()}


@pytest.mark.parametrize("group", sorted({entry.group for entry in NETWORKS}))
def test_litert_runs_every_network_in_the_shapes_that_were_written_and_gives_lively_outputs(group: str) -> None:
    for entry in NETWORKS:
        if entry.group != group or entry.name in NO_KERNEL:
            continue
        data = network(entry.name)
        outputs = interpreted(data)
        written = read_tflite(data)
        assert {index: values.shape for index, values in outputs.items()} == {i: written.tensors[i].shape for i in written.outputs}, entry
        for index, values in outputs.items():
            distinct = len(np.unique(values))
            assert entry.exception or distinct >= min(4, values.size), (entry.name, written.tensors[index].name, distinct)


def test_litert_has_no_kernel_for_what_is_said_to_have_none() -> None:
    for name in sorted(NO_KERNEL):
        assert portfolio_network(name).unverifiable
        with pytest.raises(ValueError, match="Didn't find op for builtin opcode 'ELU'"):
            interpreted(network(name))


def operators(entry: PortfolioNetwork) -> set[str]:
    return {operator.code for operator in read_tflite(network(entry.name)).operators}


def test_every_operator_that_vela_puts_on_the_u55_is_between_convolutions_and_at_an_end(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ethosu.vela", "--supported-ops-report"]
    subprocess.run(command, check=True, capture_output=True, timeout=60, cwd=tmp_path)
    text = (tmp_path / "SUPPORTED_OPS.md").read_text(encoding="utf-8")
    table = text.partition("## Ethos-U55 and Ethos-U65 TFLite Summary Table")[2].partition("\n## ")[0]
    supported = set(re.findall(r"^\| ([A-Z_0-9]+) \|", table, flags=re.MULTILINE))
    assert len(supported) > 50
    between, ends = (set.union(*(operators(entry) for entry in NETWORKS if entry.group == group)) for group in (BETWEEN, ENDS))
    assert supported - between == {"ARG_MAX"}  # nothing reads its numbers of channels
    assert supported - ends == set()


@pytest.mark.parametrize(
    ("name", "on_cpu"),
    [
        ("mnist", []),
        ("unet_cropped", []),
        ("lstm_short", []),
        ("residual_int16", []),
        ("batch_2", []),
        ("cpu_beside", ["SPACE_TO_DEPTH"]),
        ("conv_reverse_rows_conv", ["REVERSE_V2"]),
    ],
)
def test_vela_leaves_on_the_cpu_what_a_network_is_made_for_and_nothing_else(name: str, on_cpu: list[str]) -> None:
    compiled = read_tflite(compile_network(network(name), CompilerOptions(debug_database=False)).compiled)
    codes = [operator.custom_code or operator.code for operator in compiled.operators]
    assert "ethos-u" in codes
    assert [code for code in codes if code != "ethos-u"] == on_cpu


@pytest.mark.parametrize(
    ("name", "size"),
    [("mnist", 22_800), ("flatten_fc", 45_056), ("skip_over_cpu", 49_152), ("pair_pad_pool", 107_072), ("lstm_long", 17_408)],
)
def test_the_named_figures_are_of_networks_on_which_vela_size_takes_these_bytes(name: str, size: int) -> None:
    assert compile_network(network(name), CompilerOptions(optimise="Size", debug_database=False)).summary.sram_memory_used == size


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda net, x: net.transpose(x, (0, 1, 2)), "each axis once"),
        (lambda net, x: net.squeeze(x, 1), "extent 1"),
        (lambda net, x: net.expand_dims(x, 4), "from -4 to 3"),
        (lambda net, x: net.tile(x, (1, 2)), "4 numbers"),
        (lambda net, x: net.gather(x, [8], 1), "from 0 to 7"),
        (lambda net, x: net.pack([x, net.max_pool(x)], 1), "differ in shape or scale"),
        (lambda net, x: net.pad_all(x, ((1, 1),)), "4 pairs"),
        (lambda net, x: net.slice(x, (0, 4, 0, 0), (1, 5, 8, 4)), "stay within the tensor"),
        (lambda net, x: net.strided_slice(x, (0,) * 4, x.shape, (1, 0, 1, 1)), "at least 1"),
        (lambda net, x: net.split(x, 3, 1), "divisor of 8"),
        (lambda net, x: net.split_at(x, (3, 4), 1), "add up to 8"),
        (lambda net, x: net.space_to_depth(x, 3), "divisor of both"),
        (lambda net, x: net.space_to_batch(x, (3, 3), ((0, 0), (0, 0))), "divisor of each"),
        (lambda net, x: net.batch_to_space(x, (2, 1), ((0, 0), (0, 0))), "divides it"),
        (lambda net, x: net.unary("SWISH", x), "ABS, NEG"),
        (lambda net, x: net.maximum(x, net.conv2d(x, 4)), "differ in scale"),
        (lambda net, x: net.transpose_conv(x, 4, strides=(0, 2)), "at least 1 of each"),
        (lambda net, x: net.mean(x, (1, 1)), "each axis once"),
        (lambda net, x: net.batch_matmul(x, net.max_pool(x)), "matrices of equal depth"),
        (lambda net, x: net.lstm(x, 8), "batch, time, features"),
        (lambda net, x: net.svdf(x, 8, 4), "batch, features"),
        (lambda net, _: net.constant((0,)), "at least 1"),
    ],
)
def test_arguments_that_make_no_operator_are_refused_in_one_sentence(make: Any, message: str) -> None:
    net = NetworkBuilder("refused")
    x = net.input((1, 8, 8, 4), "x")
    with pytest.raises(InputError, match=message) as caught:
        make(net, x)
    assert str(caught.value).count(". ") == 0


def test_recurrent_operators_are_made_for_int8_alone() -> None:
    net = NetworkBuilder("refused", "int16")
    with pytest.raises(InputError, match="in a network of int16"):
        net.lstm(net.input((1, 4, 8)), 8)


def test_every_chain_is_in_networks_of_its_name() -> None:
    names = {entry.name for entry in NETWORKS}
    assert all({f"conv_{name}_conv", f"{name}_at_ends"} <= names or f"{name}_at_end" in names for name in CHAINS)
