"""The zoo: networks the package builds itself, with standard topologies and seeded weights, so that it works with no download."""

from __future__ import annotations

from cascader.frontends.zoo.builder import NetworkBuilder
from cascader.frontends.zoo.networks import build, zoo_names
from cascader.frontends.zoo.recorder import TensorHandle

__all__ = ["NetworkBuilder", "TensorHandle", "build", "zoo_names"]
