"""Networks of plain 3x3 convolutions with large feature maps: a VGG, a U-Net and a super-resolution network."""

from __future__ import annotations

from cascader.frontends.zoo.builder import NetworkBuilder
from cascader.frontends.zoo.recorder import TensorHandle

# VGG-11 (arXiv 1409.1556, configuration A) at half width: the filters of the convolutions between two pools.
_VGG_STAGES = ((32,), (64,), (128, 128), (256, 256), (256, 256))

_UNET_FILTERS = (16, 32, 64, 128)
_BODY_LAYERS = 6


def vgg() -> bytes:
    """VGG-11 at half width on 96x96x3: eight 3x3 convolutions, five max pools, three fully connected layers, 100 classes."""
    net = NetworkBuilder("vgg")
    x = net.input((1, 96, 96, 3), "image")
    for stage, widths in enumerate(_VGG_STAGES, start=1):
        for number, filters in enumerate(widths, start=1):
            x = net.conv2d(x, filters, activation="RELU", name=f"stage_{stage}/conv_{number}")
        x = net.max_pool(x, name=f"stage_{stage}/pool")
    x = net.reshape(x, (1, x.shape[1] * x.shape[2] * x.shape[3]), name="flatten")
    x = net.fully_connected(x, 256, activation="RELU", name="dense_1")
    x = net.fully_connected(x, 256, activation="RELU", name="dense_2")
    x = net.fully_connected(x, 100, spread="LOGITS", name="logits")
    return net.finish([net.softmax(x, name="probabilities")])


def _two_convolutions(net: NetworkBuilder, x: TensorHandle, name: str, filters: int) -> TensorHandle:
    x = net.conv2d(x, filters, activation="RELU6", name=f"{name}/conv_1")
    return net.conv2d(x, filters, activation="RELU6", name=f"{name}/conv_2")


def unet() -> bytes:
    """U-Net (arXiv 1505.04597) on 128x128x3 with padded convolutions: three levels down and up, a concat skip at each."""
    net = NetworkBuilder("unet")
    x = net.input((1, 128, 128, 3), "image")
    skips = []
    for level, filters in enumerate(_UNET_FILTERS[:-1]):
        x = _two_convolutions(net, x, f"down_{level}", filters)
        skips.append(x)
        x = net.max_pool(x, name=f"down_{level}/pool")
    x = _two_convolutions(net, x, "bottom", _UNET_FILTERS[-1])
    for level in range(len(skips) - 1, -1, -1):
        filters = _UNET_FILTERS[level]
        # ReLU6 fixes the scale, so that both parts of the concatenation share it and nothing has to be requantised.
        x = net.conv2d(net.resize_nearest(x, name=f"up_{level}/resize"), filters, activation="RELU6", name=f"up_{level}/reduce")
        x = _two_convolutions(net, net.concat([skips[level], x], name=f"up_{level}/concat"), f"up_{level}", filters)
    return net.finish([net.conv2d(x, 4, (1, 1), name="classes")])


def super_resolution() -> bytes:
    """64x64x3 to 128x128x3: a body of 32-channel convolutions under one long skip (EDSR's, arXiv 1707.02921), resize, convolution.

    A nearest-neighbour resize takes the place of depth-to-space, which has no NPU operator.
    """
    net = NetworkBuilder("super_resolution")
    head = net.conv2d(net.input((1, 64, 64, 3), "image"), 32, name="head")
    x = head
    for number in range(1, _BODY_LAYERS):
        x = net.conv2d(x, 32, activation="RELU", name=f"body_{number}")
    x = net.add(head, net.conv2d(x, 32, name=f"body_{_BODY_LAYERS}"), name="long_skip")
    x = net.conv2d(net.resize_nearest(x, name="upscale"), 16, activation="RELU", name="refine")
    return net.finish([net.conv2d(x, 3, name="high_resolution")])
