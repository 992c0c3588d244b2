"""The zoo: networks the package builds itself, with standard topologies and seeded weights, so that it works with no download."""

from __future__ import annotations

from validation.zoo.networks import build, zoo_names

__all__ = ["build", "zoo_names"]
