"""Plans of stripes for two convolutions of TVM RFC 0037 and for a chain of three: bytes against work. Then plans as schedules of the NPU.

python -m examples.stripe_plans
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from msgspec.structs import replace
from tabulate import tabulate

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.network.propagators import affine_graph
from cascader.ethosu.striped.choice import striped_schedule
from cascader.frontends.vela import import_network
from cascader.graph.cascader_graph import CascaderGraph, Operand, Part, Tensor, TensorKind
from cascader.graph.propagator import InputAxis, Propagator, window
from cascader.graph.stripe_config import StripeConfig
from cascader.plan.plan import BufferMode
from cascader.plan.proposals import Proposal, frontier
from cascader.plan.stripe_plans import StripeOptions, all_plans, plan
from cascader.plan.stripe_trace import StripedGroup, interior
from examples import ended
from npu_model.accelerator import accelerator
from npu_model.memory.timing_adapter import profile
from npu_testbed.models.sources import load_model
from sim import quick_cycles

Shape = tuple[int, int, int, int]


def convolution(channels: int, taps: int, pad: int) -> Propagator:
    """A square window of stride 1 over an NHWC array of so many channels."""
    return Propagator.of_axes((InputAxis(0), window(1, taps=taps, pad=pad), window(2, taps=taps, pad=pad), InputAxis(None, 0, channels)), 4)


def chain(shapes: Sequence[Shape], taps: Sequence[int], *, pad: bool) -> CascaderGraph:
    """Convolutions one after the other, of int8 arrays of these shapes; work is counted in multiply-accumulates."""
    kinds = [TensorKind.INPUT, *[TensorKind.INTERMEDIATE] * (len(taps) - 1), TensorKind.OUTPUT]
    tensors = tuple(Tensor.dense(f"t{i}", kind, shape) for i, (kind, shape) in enumerate(zip(kinds, shapes, strict=True)))
    parts = []
    for index, size in enumerate(taps):
        channels = shapes[index][3]
        operand = Operand(f"t{index}", convolution(channels, size, size // 2 if pad else 0))
        parts.append(Part.striped(f"conv{index + 1}", (operand,), f"t{index + 1}", shapes[index + 1], work=size * size * channels))
    return CascaderGraph(tuple(parts), tensors)


def rfc_table() -> str:
    """The RFC's two convolutions: what stripes of the output leave of the 18,432 bytes between them."""
    graph = chain([(1, 26, 26, 3), (1, 24, 24, 32), (1, 24, 24, 8)], [3, 1], pad=False)
    rows = []
    for shape in ((1, 24, 24, 8), (1, 6, 24, 8), (1, 1, 24, 8), (1, 6, 6, 8)):
        config = StripeConfig.even((1, 24, 24, 8), shape)
        for mode in (BufferMode.RECOMPUTE, BufferMode.ROLLING):
            made = plan(graph, StripedGroup(0, 1, config, {"t1": mode}))
            rows.append((shape, config.count, mode.value, made.buffers[0].size, made.memory, int(made.work)))
    return str(tabulate(rows, ("output stripe", "stripes", "mode", "bytes between", "bytes in all", "MACs"), intfmt=","))


def chain_table() -> str:
    """Three 3 x 3 convolutions, 32 x 32, of 1, 8, 8 and 1 channels: the frontier of each set of options."""
    graph = chain([(1, 32, 32, 1), (1, 32, 32, 8), (1, 32, 32, 8), (1, 32, 32, 1)], [3, 3, 3], pad=True)
    rows = []
    for title, options in (
        ("layer by layer", StripeOptions(group_length=1)),
        ("rolling", StripeOptions(recompute=False)),
        ("recompute", StripeOptions(rolling=False)),
        ("both, one axis at a time", StripeOptions(several_axes=False)),
        ("both", StripeOptions()),
    ):
        rows += [(title, point.memory, point.cycles, _modes(point)) for point in frontier(all_plans(graph, options))]
    return str(tabulate(rows, ("options", "bytes", "MACs", "stripe of each group's output, modes inside"), intfmt=","))


def _modes(point: Proposal[StripedGroup]) -> str:
    """The stripe of each group's output in a proposal, with the modes of the tensors inside."""
    groups = []
    for made in point.plans:
        modes = ", ".join(mode.value for mode in made.group.modes.values())
        shape = "x".join(map(str, made.group.stripes.shape[1:]))
        groups.append(f"{shape} ({modes})" if modes else shape)
    return "; ".join(groups)


def npu_table(source: str) -> str:
    """A network of the NPU as one group, in stripes of its output: what is planned beside the schedule and its replay."""
    network, memory, device = import_network(load_model(source).data), profile("u55_high_end").memory_system(), accelerator("ethos-u55-128")
    graph = affine_graph(network)
    last, rows = len(graph.parts) - 1, []
    batch, height, width, channels = graph.tensor(graph.parts[last].output).shape
    for shape in ((height, width), (2, width), (height, 2), (4, 4)):
        config = StripeConfig.even((batch, height, width, channels), (batch, *shape, channels))
        modes = dict.fromkeys(interior(graph, 0, last), BufferMode.ROLLING if shape[1] == width else BufferMode.RECOMPUTE)
        made = plan(graph, StripedGroup(0, last, config, modes))
        schedule = striped_schedule(network, [made], device, Sources.direct(memory))
        inside = sum(buffer.size for buffer in made.buffers)
        cycles = quick_cycles(lower(schedule), system=memory)
        rows.append((shape, config.count, inside, made.memory, schedule.arena_size, schedule.network.macs, cycles))
    return str(
        tabulate(rows, ("output stripe", "stripes", "bytes inside", "planned bytes", "arena", "MACs", "replayed cycles"), intfmt=",")
    )


def beginning(graph: CascaderGraph, parts: int) -> CascaderGraph:
    """The first parts of a graph; what they make for later ones is their output."""
    first, rest = graph.parts[:parts], graph.parts[parts:]
    later = {operand.tensor for part in rest for operand in part.operands}
    made = {part.output for part in first}
    used = made | {operand.tensor for part in first for operand in part.operands}
    outputs = {name for name in made & later if graph.tensor(name).kind is TensorKind.INTERMEDIATE}
    tensors = (tensor for tensor in graph.tensors if tensor.name in used)
    return CascaderGraph(first, tuple(replace(t, kind=TensorKind.OUTPUT) if t.name in outputs else t for t in tensors))


def model_table(source: str, parts: int, options: StripeOptions) -> str:
    """The frontier of a model's first parts, in which all tensors inside a group have the same mode."""
    graph = affine_graph(import_network(load_model(source).data))
    found = frontier(all_plans(beginning(graph, parts or len(graph.parts)), options))
    rows = [
        (
            point.memory,
            point.cycles,
            f"{point.cycles / found[-1].cycles:.2f}",
            [made.group.last + 1 - made.group.first for made in point.plans],
        )
        for point in found
    ]
    return str(tabulate(rows, ("bytes", "MACs", "of the least", "parts of each group"), intfmt=","))


def main() -> None:
    """Print the tables of the examples, or a model's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="a .tflite or zoo:NAME (default: the examples)")
    parser.add_argument("--parts", type=int, default=0, help="only the first parts of the model (default 0: all)")
    parser.add_argument("--group-length", type=int, default=8, help="most parts of a group (default 8)")
    parser.add_argument("--factors", type=int, default=5, help="stripes of 1, 1/2, ... and the least, so many (default 5)")
    parser.add_argument("--several-axes", action="store_true", help="cut several axes at once")
    given = parser.parse_args()
    if given.model is None:
        print(rfc_table(), chain_table(), npu_table("zoo:tiny_residual"), sep="\n\n")
        return
    options = StripeOptions(group_length=given.group_length, factors=given.factors, several_axes=given.several_axes, orders=False, mixed=0)
    print(model_table(given.model, given.parts, options))


if __name__ == "__main__":
    raise SystemExit(ended(main))
