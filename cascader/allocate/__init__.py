"""Addresses for buffers whose live bytes may move over time; a fixed buffer is the constant case."""

from cascader.allocate.extents import Extent, Extents, live_bytes
from cascader.allocate.moving import allocate, placements

__all__ = ["Extent", "Extents", "allocate", "live_bytes", "placements"]
