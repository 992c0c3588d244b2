"""Node data for Model Explorer: the cycles of every layer by the name of its output tensor, shown on the user's own .tflite.

The structure equals ``GraphNodeData`` in ai-edge-model-explorer 0.1.34 (``node_data_builder.py``): keys are names of output tensors.
"""

from __future__ import annotations

import json

from sim.replay import NetworkReplay
from sim.views.layers import layers

_GRADIENT = ((0, "#f5f8ff"), (1, "#d93025"))
"""Colours of the least and the most cycles."""


def node_data_json(network: NetworkReplay) -> str:
    """The document. Layers of nameless tensors are left out; cycles under one name are summed over the Programs."""
    cycles: dict[str, int] = {}
    for layer in layers(network):
        name = next((one.name for one in layer.operations if one.name), "")
        if name:
            cycles[name] = cycles.get(name, 0) + layer.cycles
    document = {
        "name": "NPU cycles",
        "results": {name: {"value": value} for name, value in cycles.items()},
        "gradient": [{"stop": stop, "bgColor": colour} for stop, colour in _GRADIENT],
    }
    return json.dumps(document, indent=1) + "\n"
