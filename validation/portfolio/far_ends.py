"""Inputs and outputs outside the arena: networks with some of them in another memory, such as a camera's or a display's frame."""

from __future__ import annotations

from functools import partial

from validation.builder import NetworkBuilder, TensorHandle
from validation.portfolio.entry import Draw, PortfolioNetwork

GROUP = "ends off the arena"


def _camera_and_pose(net: NetworkBuilder) -> list[TensorHandle]:
    """Features of a frame joined to a pose, whose few bytes stay in the arena."""
    x = net.conv2d(net.input((1, 72, 96, 3), "camera"), 8, strides=(2, 2), activation="RELU6")
    x = net.conv2d(net.depthwise(x, strides=(2, 2), activation="RELU6"), 16, (1, 1), activation="RELU6")
    pose = net.fully_connected(net.input((1, 6), "pose"), 16, activation="RELU6")
    return [net.fully_connected(net.concat([net.fully_connected(net.mean(x), 16, activation="RELU6"), pose]), 4)]


def _frames(net: NetworkBuilder) -> list[TensorHandle]:
    """Motion between the frame before, in the arena, and the one that a camera writes elsewhere; the map goes to a display."""
    before, now = (net.conv2d(net.input((1, 40, 56, 3), name), 8, strides=(2, 2), activation="RELU6") for name in ("before", "now"))
    x = net.conv2d(net.concat([before, now]), 16, activation="RELU6")
    return [net.conv2d(net.resize_nearest(x), 2), net.fully_connected(net.mean(x), 3)]


def _stem(blocks: int, net: NetworkBuilder) -> list[TensorHandle]:
    """Large maps in front of blocks of small ones, as in a mobile network: the frame off the arena, the front is cut into tiles."""
    x = net.conv2d(net.input((1, 64, 96, 3), "camera"), 12, strides=(2, 2), activation="RELU6")
    x = net.conv2d(net.depthwise(x, activation="RELU6"), 48, (1, 1), activation="RELU6")
    x = net.conv2d(net.depthwise(x, strides=(2, 2), activation="RELU6"), 12, (1, 1))
    for _ in range(blocks):
        wide = net.depthwise(net.conv2d(x, 36, (1, 1), activation="RELU6"), activation="RELU6")
        x = net.add(x, net.conv2d(wide, 12, (1, 1)))
    return [net.conv2d(net.mean(net.conv2d(x, 64, (1, 1), activation="RELU6"), keep=True), 5, (1, 1))]


def _filter(net: NetworkBuilder) -> list[TensorHandle]:
    """An image in, an image out, neither in the arena."""
    head = x = net.conv2d(net.input((1, 48, 64, 3), "camera"), 16, activation="RELU")
    for _ in range(4):
        x = net.conv2d(x, 16, activation="RELU")
    return [net.conv2d(net.add(x, head), 3)]


def _narrow_sums(net: NetworkBuilder) -> list[TensorHandle]:
    """Sums of 4 channels on large maps, which run as sums of 16: the frame off the arena, tiles go through both shapes."""
    x = net.conv2d(net.conv2d(net.input((1, 96, 192, 3), "camera"), 8, strides=(2, 2), activation="RELU6"), 4, (1, 1))
    x = net.add(x, net.conv2d(net.depthwise(net.conv2d(x, 8, (1, 1), activation="RELU6"), activation="RELU6"), 4, (1, 1)))
    x = net.conv2d(net.depthwise(net.conv2d(x, 24, (1, 1), activation="RELU6"), strides=(2, 2), activation="RELU6"), 8, (1, 1))
    x = net.conv2d(net.depthwise(net.conv2d(x, 24, (1, 1), activation="RELU6"), strides=(2, 2), activation="RELU6"), 8, (1, 1))
    return [net.conv2d(net.depthwise(x, strides=(2, 2), activation="RELU6"), 18, (1, 1))]


def _of(name: str, idiom: str, draw: Draw, homes: tuple[str, ...], precision: str = "int8", *, sampled: bool = False) -> PortfolioNetwork:
    return PortfolioNetwork(name, idiom, draw, precision, group=GROUP, sampled=sampled, homes=homes)


_CAMERA, _BOTH = ("camera=axi1",), ("input=axi1", "output=axi1")

NETWORKS = (
    _of("camera_and_pose", "a frame in DRAM beside a pose in the arena", _camera_and_pose, _CAMERA, sampled=True),
    _of("frame_and_last_one", "a frame in DRAM, the last one in the arena, an output in DRAM", _frames, ("now=axi1", "output=axi1")),
    *(
        _of(f"camera_stem_{kind}", f"a mobile network whose frame is in DRAM, in {kind}", partial(_stem, 3), _CAMERA, kind)
        for kind in ("int8", "uint8", "int16")
    ),
    _of("camera_in_second_sram", "a mobile network whose frame is in an SRAM behind AXI0", partial(_stem, 1), ("camera=axi0",)),
    _of("narrow_sums", "a detector of few channels whose frame is in DRAM", _narrow_sums, _CAMERA, sampled=True),
    _of("filter_of_frames", "an image filter with both ends in DRAM", _filter, _BOTH, sampled=True),
    _of("filter_of_frames_int16", "the same in 16 bits", _filter, _BOTH, "int16"),
)
