"""The adapter that Model Explorer finds in this package: files of npu-testbed as graphs."""

from __future__ import annotations

from typing import Any

from model_explorer import Adapter, AdapterMetadata, ModelExplorerGraphs, graph_builder

from .graph import Drawing, Node, drawing


def _node(one: Node) -> Any:
    return graph_builder.GraphNode(
        id=one.name,
        label=one.name,
        namespace=one.group,
        attrs=[graph_builder.KeyValue(key=key, value=value) for key, value in one.facts],
        incomingEdges=[graph_builder.IncomingEdge(sourceNodeId=name) for name in one.reads],
        outputsMetadata=[
            graph_builder.MetadataItem(id="0", attrs=[graph_builder.KeyValue(key="tensor_name", value=one.name)]),
        ],
        style=graph_builder.GraphNodeStyle(backgroundColor=one.colour),
    )


def _graph(found: Drawing) -> Any:
    return graph_builder.Graph(
        id=found.title,
        nodes=[_node(one) for one in found.nodes],
        groupNodeAttributes={"": dict(found.facts)},
    )


class ScheduleAdapter(Adapter):  # type: ignore[misc]  # the package has no types
    """Schedules of npu-testbed and compiled networks, replayed, layer by layer."""

    metadata = AdapterMetadata(
        id="npu_testbed",
        name="NPU testbed",
        description="Replays a schedule or a compiled network on a simulated Ethos-U55, and shows cycles, bounds and SRAM by layer.",
        fileExts=["json", "tflite", "pte"],
    )

    def convert(self, model_path: str, settings: dict[str, Any]) -> ModelExplorerGraphs:  # noqa: ARG002  # Model Explorer's signature
        """The graph of a file."""
        return {"graphs": [_graph(drawing(model_path))]}
