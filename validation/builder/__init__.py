"""NetworkBuilder: networks of chosen shapes, strides, padding and number format, written as .tflite files.

Each method adds one operator and returns the handle of its output. Weights are seeded and scales are calibrated, so that every network runs
with realistic values. The same calls give the same bytes everywhere.
"""

from __future__ import annotations

from validation.builder.moves import Moves
from validation.builder.pieces import Pieces
from validation.builder.pointwise import Pointwise
from validation.builder.recorder import TensorHandle
from validation.builder.recurrent import Recurrent
from validation.builder.reductions import Reductions
from validation.builder.resampling import Resampling
from validation.builder.streaming import Streaming

__all__ = ["NetworkBuilder", "TensorHandle"]


class NetworkBuilder(Pointwise, Recurrent, Reductions, Resampling, Streaming, Moves, Pieces):
    """Builds one network from nearly every operator that Vela runs on the Ethos-U55, and some that stay on the CPU."""
