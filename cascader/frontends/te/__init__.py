"""Tensor Expressions as a network of the NPU: TVM's Ethos-U operators, and the way from their graph to a :class:`Network`."""

from cascader.frontends.te.graph import Graph, graph_of
from cascader.frontends.te.moves import concatenate, reshape, strided_slice
from cascader.frontends.te.network import import_graph
from cascader.frontends.te.operators import (
    ethosu_binary_elementwise,
    ethosu_conv2d,
    ethosu_depthwise_conv2d,
    ethosu_identity,
    ethosu_pooling,
    ethosu_unary_elementwise,
)
from cascader.frontends.te.scaling import scale_records

__all__ = [
    "Graph",
    "concatenate",
    "ethosu_binary_elementwise",
    "ethosu_conv2d",
    "ethosu_depthwise_conv2d",
    "ethosu_identity",
    "ethosu_pooling",
    "ethosu_unary_elementwise",
    "graph_of",
    "import_graph",
    "reshape",
    "scale_records",
    "strided_slice",
]
