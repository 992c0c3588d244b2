"""Parts that share the rows of a result: at the end of a network nobody reads them, and they are run side by side all the same."""

from __future__ import annotations

from asked_for import load_task

from cascader.ethosu.cascade import Cascader
from cascader.ethosu.network.rows import row_graph
from cascader.graph.cascader_graph import TensorKind


def test_an_upscaled_image_needs_no_whole_input_beside_it() -> None:
    """A half-pixel resize to twice the size writes its rows and columns by four kernels: Vela holds the input until the last is done."""
    task = load_task("portfolio:resize_bilinear_half_at_ends")
    (result,) = (tensor for tensor in task.network.graph.tensors if tensor.kind is TensorKind.OUTPUT)
    cascader = Cascader(task.network, task.accelerator, task.system, task.options, task.provenance)
    assert cascader.smallest().memory < result.size * 1.05


def test_the_last_writer_of_a_result_asks_the_others_and_no_part_asks_itself_for_less() -> None:
    graph = row_graph(load_task("portfolio:resize_bilinear_half_at_ends").network)
    result = next(index for index, tensor in enumerate(graph.tensors) if tensor.kind is TensorKind.OUTPUT)
    writers = [writer for writer, _ in graph.writers()[result]]
    assert (len(writers), [reader for reader, _ in graph.readers()[result]]) == (4, [writers[-1]])
