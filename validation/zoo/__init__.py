"""The zoo: networks the package builds itself, with standard topologies and seeded weights, so that it works with no download."""

from __future__ import annotations

from validation.zoo.builder import NetworkBuilder
from validation.zoo.networks import build, zoo_names
from validation.zoo.recorder import TensorHandle

__all__ = ["NetworkBuilder", "TensorHandle", "build", "zoo_names"]
