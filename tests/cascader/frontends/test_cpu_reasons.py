"""Why an operator is on the CPU: what Vela says reaches the user, and the remedy that is named works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import call, refusal
from msgspec.structs import replace

from cascader.frontends.vela import CompilerOptions, compile_network, import_network
from cascader.frontends.vela.cpu_reasons import reason_of, said_reasons
from cascader.frontends.vela.remedies import RULES, nothing_left, remedy
from npu_model.compiled.cpu_reason import CpuReason
from npu_model.compiled.network import CpuOperator
from npu_model.errors import InputError
from npu_model.tflite.model import read_tflite
from validation.builder import NetworkBuilder, TensorHandle

Draw = Callable[[NetworkBuilder, TensorHandle], TensorHandle]


def model(draw: Draw, *, alone: bool = False, name: str = "asked") -> bytes:
    """The operators between convolutions, or ``alone``."""
    net = NetworkBuilder(name)
    x = net.input((1, 24, 24, 8), "image")
    if alone:
        return net.finish([draw(net, x)])
    return net.finish([draw(net, net.conv2d(x, 8, name="before"))])


CASES: dict[str, tuple[Draw, str, str, Draw | None]] = {
    "SPACE_TO_DEPTH": (
        lambda net, x: net.space_to_depth(x, name="asked"),
        "no operator SPACE_TO_DEPTH",
        "CONV_2D whose kernel",
        lambda net, x: net.conv2d(x, 32, (2, 2), strides=(2, 2), padding="VALID"),
    ),
    "DEPTH_TO_SPACE": (
        lambda net, x: net.depth_to_space(x, name="asked"),
        "no operator DEPTH_TO_SPACE",
        "TRANSPOSE_CONV 2x2",
        lambda net, x: net.transpose_conv(x, 2, (2, 2)),
    ),
    "GATHER": (
        lambda net, x: net.gather(x, range(0, 24, 2), 1, name="asked"),
        "no operator GATHER",
        "STRIDED_SLICE",
        lambda net, x: net.strided_slice(x, (0, 0, 0, 0), (1, 24, 24, 8), (1, 2, 1, 1)),
    ),
    "RESIZE_BILINEAR": (
        lambda net, x: net.resize_bilinear(x, 3, name="asked"),
        "scale-factor=3",
        "by 2, 4 or 8",
        lambda net, x: net.slice(net.resize_bilinear(x, 4), (0, 0, 0, 0), (1, 72, 72, 8)),
    ),
    "MEAN": (
        lambda net, x: net.mean(x, (3,), keep=True, name="asked"),
        "Unsupported depth-reduction. IFM: 1, 24, 24, 8",
        "CONV_2D 1x1",
        lambda net, x: net.conv2d(x, 1, (1, 1)),
    ),
    "TRANSPOSE_CONV": (
        lambda net, x: net.transpose_conv(x, 4, (3, 3), strides=(3, 3), name="asked"),
        "stride out of range: (3,3)",
        "1x1 or 2x2",
        lambda net, x: net.transpose_conv(net.transpose_conv(x, 4, (2, 2)), 4, (2, 2)),
    ),
}


@pytest.mark.parametrize("kind", CASES)
def test_the_value_the_bound_and_the_remedy_are_told_and_the_remedy_works(kind: str) -> None:
    draw, value, change, better = CASES[kind]
    network = import_network(model(draw))
    (on_cpu,) = (part.payload for part in network.graph.parts if isinstance(getattr(part.payload, "reason", None), CpuReason))
    assert on_cpu.code == kind
    assert value in on_cpu.reason.value
    assert on_cpu.reason.bound
    assert change in remedy(kind, on_cpu.reason)
    if better is not None:
        steps = import_network(model(better)).graph.parts
        assert not [part for part in steps if hasattr(part.payload, "code")], "the remedy leaves something on the CPU"


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("kind", ["SPACE_TO_DEPTH", "MEAN", "RESIZE_BILINEAR"])
def test_both_cores_say_why(kind: str, legacy: bool) -> None:  # noqa: FBT001  # a parameter of the test
    said = said_reasons(compile_network(model(CASES[kind][0]), CompilerOptions(legacy=legacy)).said)
    reason = reason_of(kind, ["asked"], said)
    assert reason is not None
    assert reason.value
    assert remedy(kind, reason)


def test_where_nothing_is_left_the_error_says_why() -> None:
    with pytest.raises(InputError, match=r"only operator on the CPU\. TRANSPOSE_CONV 'asked': stride out of range: \(3,3\).*use strides"):
        compile_network(model(CASES["TRANSPOSE_CONV"][0], alone=True))


def test_operators_of_one_reason_are_told_together() -> None:
    net = NetworkBuilder("heads")
    x = net.input((1, 24, 24, 8), "image")
    data = net.finish([net.gather(x, range(number + 1, 9), 1, name=f"head_{number}") for number in range(8)])
    with pytest.raises(InputError) as caught:
        compile_network(data)
    assert "GATHER 'head_0', 'head_1', 'head_2', 'head_3', 'head_4', 'head_5' and 2 more: the NPU has no operator GATHER" in str(
        caught.value
    )


def test_what_the_user_leaves_to_the_cpu_is_told_as_such(tmp_path: Path) -> None:
    source = tmp_path / "net.tflite"
    source.write_bytes(model(lambda net, x: net.conv2d(net.max_pool(x, name="asked"), 4)))
    shown = call("compile", source, "--ignore-ops", "MAX_POOL_2D", "--show-cpu-operations", "--output-dir", tmp_path / "out").output
    assert "MAX_POOL_2D 'asked': left to the CPU by --ignore-ops" in " ".join(shown.split())


def test_a_schedule_and_a_compiled_file_say_why_long_after_vela_ran(tmp_path: Path) -> None:
    source, plan = tmp_path / "net.tflite", tmp_path / "net.json"
    source.write_bytes(model(CASES["MEAN"][0]))
    assert call("compile", source, "--disable-cascading", "--output-dir", tmp_path).status == 0
    assert call("schedule", source, "--no-cascade", "--report", tmp_path / "net.html", "-o", plan).status == 0
    for file in (plan, tmp_path / "net_vela.tflite"):
        (line,) = (line for line in call("inspect", file).output.splitlines() if line.startswith("cpu "))
        assert line.startswith("cpu MEAN 'asked': Unsupported depth-reduction. IFM: 1, 24, 24, 8 (Reduction over depth is only supported")
    assert "Unsupported depth-reduction" in (tmp_path / "net.html").read_text(encoding="utf-8")
    for words in (("schedule", plan), ("vela", tmp_path / "net_vela.tflite"), ("vela", source)):
        shown = call("simulate", *words, "--show-cpu-operations", "--no-advice").output
        assert "Unsupported depth-reduction. IFM: 1, 24, 24, 8" in shown


def test_what_vela_says_is_read_whatever_the_names_are() -> None:
    text = (
        "\nWarning (supported operators) operator: CONV_2D, ofm: 'a'b\n'\nReason: stride out of range: (4,4)\n"
        "Kernel constraints:\n  - IF padding=VALID:\n    - at most 256\n\n"
        "Warning: CONV_2D 'c. d' is not supported on the NPU. Placing on CPU instead\n - Stride values must be 1 to 3\n   Op has 4\n"
    )
    first, second = said_reasons(text)
    assert (first.output, first.reason) == (
        "a'b\n",
        CpuReason("stride out of range: (4,4)", "Kernel constraints: IF padding=VALID: at most 256"),
    )
    assert (second.output, second.reason) == ("c. d", CpuReason("Op has 4", "Stride values must be 1 to 3"))


def test_without_a_word_of_vela_the_general_sentence_is_left() -> None:
    parsed = read_tflite(model(CASES["MEAN"][0]))
    assert nothing_left(parsed, "") == "Vela left all 2 operators on the CPU: use quantised operators that the NPU supports."
    one = replace(parsed, operators=parsed.operators[:1])
    assert nothing_left(one, "") == "Vela left the only operator on the CPU: use quantised operators that the NPU supports."
    assert CpuOperator("MEAN", (), ()).reason is None


def test_every_remedy_is_a_clause() -> None:
    for rule in RULES:
        assert rule.remedy[0].islower()
        assert not rule.remedy.endswith(".")


def test_a_limit_of_ours_is_not_told_as_a_wrong_stream_of_velas(tmp_path: Path) -> None:
    """Two signatures, each with a convolution: Vela compiles both, and one network at a time is scheduled here."""
    from npu_model.tflite.record_reader import read_records  # noqa: PLC0415  # of this test alone
    from npu_model.tflite.records import SignatureRecord, SubgraphRecord  # noqa: PLC0415  # of this test alone
    from npu_model.tflite.writer import write_tflite  # noqa: PLC0415  # of this test alone

    first = read_records(model(lambda net, x: net.conv2d(x, 4, name="asked")))
    other = SubgraphRecord("enc", first.tensors, first.operators, first.inputs, first.outputs)
    signatures = tuple(
        SignatureRecord(key, (("x", first.inputs[0]),), (("y", first.outputs[0]),), number) for number, key in enumerate(("dec", "enc"))
    )
    path = tmp_path / "two.tflite"
    path.write_bytes(write_tflite(replace(first, others=(other,), signatures=signatures)))
    for words in (("compile", path, "--output-dir", tmp_path / "out"), ("schedule", path, "-o", tmp_path / "s.json")):
        said = refusal(*words)
        assert "only those of subgraph 0 are scheduled and simulated; make each signature or branch a model of its own" in said
        assert "wrong stream" not in said
        assert "Error" not in said.removeprefix("npu-testbed: error:")
