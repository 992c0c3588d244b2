"""Two convolutions written as Tensor Expressions, scheduled in a quarter of their memory, and held to what TVM makes of them.

python -m examples.tensor_expressions
npu-testbed schedule examples/tensor_expressions.py:make_graph --optimise Size -o two.json
"""

from __future__ import annotations

import numpy as np

import npu_testbed
from cascader.frontends.te import Graph, ethosu_conv2d, graph_of, scale_records
from cascader.tensorir.compat import load
from examples import ended


def make_graph() -> Graph:
    """(26, 26, 3) to (24, 24, 32) to (24, 24, 8), the example of TVM's pre-RFC, with seeded weights."""
    te, random = load().te, np.random.default_rng(0)
    image = te.placeholder((1, 26, 26, 3), "int8", name="image")
    constants, last = {}, image
    for name, shape in (("first", (32, 3, 3, 3)), ("second", (8, 1, 1, 32))):
        weight = te.placeholder(shape, "int8", name=f"{name}_weight")
        records = te.placeholder((shape[0], 10), "uint8", name=f"{name}_scale_bias")
        constants[weight] = random.integers(-127, 128, shape, np.int8)
        constants[records] = scale_records(random.integers(-500, 500, shape[0]), ifm_scale=0.05, weight_scales=0.02, ofm_scale=0.05)
        last = ethosu_conv2d(last, weight, records, ifm_scale=0.05, ofm_scale=0.05, name=name)
    return graph_of(image, last, constants)


def main() -> None:
    """Schedule, say what was found, and compare its bytes with those of the expressions on this machine."""
    graph = make_graph()
    for aim in ("Performance", "Size"):
        made = npu_testbed.schedule(graph, optimise=aim)
        print(f"{aim}: {made.arena_bytes:,} bytes, {made.cycles:,} cycles, {len(made.schedule.jobs)} jobs")
    print(npu_testbed.verify(made, model=graph))


if __name__ == "__main__":
    raise SystemExit(ended(main))
