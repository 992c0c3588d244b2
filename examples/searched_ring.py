"""The convolution of examples.tiled_convolution once more: no ring is built, the cascader finds one.

The network is that one convolution, at once, with its image and its result at home in the external memory. The search has forms of it in
which the DMA brings and takes rows away while kernels run, some rows ahead. Rows of a job, rows ahead and buffers are its own choice.

    python -m examples.searched_ring --side 2048
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from msgspec.structs import replace
from tabulate import tabulate

from cascader import NetworkSource, Request, schedule
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.network.network import EthosuPart, Network, Port, Segment
from cascader.ethosu.search.task import Choice
from cascader.graph.cascader_graph import CascaderGraph, Part, Tensor, TensorKind
from examples import ended
from examples.tiled_convolution import CHANNELS, CONSTANTS, HALO, HEADERS, INT8, WAYS, Chip, check_sizes, feature_map, memory_system, row
from npu_model.accelerator import DEFAULT_ACCELERATOR
from npu_model.program import Program
from sim import quick_cycles, quick_replay

RING = WAYS[-1]
HOMES = "input=ext", "output=ext"


def network(chip: Chip, side: int) -> Network:
    """The convolution as a network of one part, all of it in the arena, its constants at home."""
    kernel = chip.kernel(feature_map(0, side + HALO, side + HALO), feature_map(0, side, side))
    weights, scales = (replace(span, region=CONSTANTS) for span in (chip.weights, chip.scales))
    kernel = replace(kernel, weights=(weights,), scales=(scales,))
    sizes, kinds = {"image": side + HALO, "result": side}, {"image": TensorKind.INPUT, "result": TensorKind.OUTPUT}
    tensors = tuple(Tensor.dense(name, kinds[name], (size, size, CHANNELS)) for name, size in sizes.items())
    image, result = (Port(name, name, 0, (1, size, size, CHANNELS), INT8) for name, size in sizes.items())
    part = Part("convolve", ("image",), ("result",), EthosuPart(kernel, "image", "result", layer="convolve"))
    segment = Segment(("convolve",), (image,), (result,))
    return Network(CascaderGraph((part,), tensors), (segment,), (image,), (result,), chip.constants)


def found(chip: Chip, side: int, budget: int | None = None) -> Choice:
    """The search's answer in an arena of ``budget`` bytes (None: any number); InputError if none fits."""
    source = NetworkSource("ring", network(chip, side))
    return schedule(Request(source, chip.device.name, memory_system(), budget, homes=HOMES), quick_cycles)


def program(choice: Choice) -> Program:
    """The stream of a schedule, which has one."""
    (made,) = lower(choice.point.schedule).programs
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the ring that is built by hand, and below it what the search finds; InputError on bad input."""
    parser = argparse.ArgumentParser(description="A ring for a 3 x 3 convolution: by hand, and found by the search.")
    parser.add_argument("--side", type=int, default=2048, help="rows and columns of the result (default 2048)")
    parser.add_argument("--rows", type=int, default=4, help="rows of a band of the ring by hand (default 4)")
    parser.add_argument("--arena-cache-size", type=int, help="most bytes for the search (default: any number)")
    parser.add_argument("--accelerator-config", default=DEFAULT_ACCELERATOR, help=f"default {DEFAULT_ACCELERATOR}")
    options = parser.parse_args(arguments)
    check_sizes(options.side, 1, options.rows)
    chip = Chip.of(options.accelerator_config)
    by_hand, started = RING.build(chip, options.side, 1, options.rows), time.perf_counter()
    choice = found(chip, options.side, options.arena_cache_size)
    sys.stderr.write(f"searched in {time.perf_counter() - started:.0f} s\n")
    programs = {f"by hand, bands of {options.rows} rows": by_hand, "found by the search": program(choice)}
    table = [row(title, made, quick_replay(made, memory_system()).cycles) for title, made in programs.items()]
    print(tabulate(table, HEADERS, intfmt=",", colalign=("left", *("right",) * (len(HEADERS) - 1))))


if __name__ == "__main__":
    raise SystemExit(ended(main))
