"""The zoo's networks: standard topologies at full size, the shapes of MLPerf Tiny, and a few operators for tests and first steps."""

from __future__ import annotations

from collections.abc import Callable

from npu_model.errors import InputError, did_you_mean
from validation.builder import NetworkBuilder
from validation.builder.recorder import TensorHandle

# MobileNet v1: (output channels, stride) of each depthwise separable pair.
_V1_PAIRS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))

# MobileNet v2: (expansion, output channels, repeats, stride of the first) of each group of inverted residuals.
_V2_GROUPS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

CLASSES = 1000


def classifier(net: NetworkBuilder, x: TensorHandle, classes: int) -> bytes:
    """Global average pool, fully connected layer and softmax on top of ``x``: the finished file."""
    pooled = net.average_pool(x, name="global_pool")
    flat = net.reshape(pooled, (1, pooled.shape[3]), name="flatten")
    logits = net.fully_connected(flat, classes, spread="LOGITS", name="logits")
    return net.finish([net.softmax(logits, name="probabilities")])


def mobilenet_v1() -> bytes:
    """MobileNet v1 1.0 224: 28 layers with weights, 568.7 million MACs."""
    net = NetworkBuilder("mobilenet_v1")
    x = net.conv2d(net.input((1, 224, 224, 3), "image"), 32, strides=(2, 2), activation="RELU6", name="stem")
    for number, (filters, stride) in enumerate(_V1_PAIRS, start=1):
        x = net.depthwise(x, strides=(stride, stride), activation="RELU6", name=f"depthwise_{number}")
        x = net.conv2d(x, filters, (1, 1), activation="RELU6", name=f"pointwise_{number}")
    return classifier(net, x, CLASSES)


def _inverted_residual(net: NetworkBuilder, x: TensorHandle, name: str, expansion: int, filters: int, stride: int) -> TensorHandle:
    """Expand, depthwise, project; a skip where input and output have one shape."""
    y = x
    if expansion > 1:
        y = net.conv2d(x, x.shape[3] * expansion, (1, 1), activation="RELU6", name=f"{name}/expand")
    y = net.depthwise(y, strides=(stride, stride), activation="RELU6", name=f"{name}/depthwise")
    y = net.conv2d(y, filters, (1, 1), name=f"{name}/project")
    return net.add(x, y, name=f"{name}/add") if y.shape == x.shape else y


def mobilenet_v2() -> bytes:
    """MobileNet v2 1.0 224: 17 inverted residuals, 10 skips, 300.8 million MACs."""
    net = NetworkBuilder("mobilenet_v2")
    x = net.conv2d(net.input((1, 224, 224, 3), "image"), 32, strides=(2, 2), activation="RELU6", name="stem")
    number = 0
    for expansion, filters, repeats, first_stride in _V2_GROUPS:
        for repeat in range(repeats):
            x = _inverted_residual(net, x, f"block_{number}", expansion, filters, first_stride if repeat == 0 else 1)
            number += 1
    x = net.conv2d(x, 1280, (1, 1), activation="RELU6", name="head")
    return classifier(net, x, CLASSES)


def ds_cnn() -> bytes:
    """DS-CNN (arXiv 1711.07128, small): 49 frames of 10 MFCCs, four depthwise separable pairs of 64 channels, 12 words."""
    net = NetworkBuilder("ds_cnn")
    x = net.conv2d(net.input((1, 49, 10, 1), "mfcc"), 64, (10, 4), strides=(2, 2), activation="RELU", name="stem")
    for number in range(1, 5):
        x = net.depthwise(x, activation="RELU", name=f"depthwise_{number}")
        x = net.conv2d(x, 64, (1, 1), activation="RELU", name=f"pointwise_{number}")
    return classifier(net, x, 12)


def _basic_block(net: NetworkBuilder, x: TensorHandle, name: str, filters: int, stride: int) -> TensorHandle:
    """Two 3x3 convolutions next to the identity, or next to a strided 1x1 convolution if the shape changes."""
    y = net.conv2d(x, filters, strides=(stride, stride), activation="RELU", name=f"{name}/conv_1")
    y = net.conv2d(y, filters, name=f"{name}/conv_2")
    skip = x if y.shape == x.shape else net.conv2d(x, filters, (1, 1), strides=(stride, stride), name=f"{name}/skip")
    return net.add(skip, y, activation="RELU", name=f"{name}/add")


def resnet8() -> bytes:
    """ResNet-8 for 32x32x3 images (CIFAR-10): a stem and three residual blocks of 16, 32 and 64 channels, 10 classes."""
    net = NetworkBuilder("resnet8")
    x = net.conv2d(net.input((1, 32, 32, 3), "image"), 16, activation="RELU", name="stem")
    for number, (filters, stride) in enumerate(((16, 1), (32, 2), (64, 2)), start=1):
        x = _basic_block(net, x, f"block_{number}", filters, stride)
    return classifier(net, x, 10)


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
        # ReLU6 fixes the scale, so both parts of the concatenation share it and need no requantisation.
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


def tiny_conv() -> bytes:
    """Three convolutions on 16x16x8: pointwise, 3x3, and 3x3 with stride 2."""
    net = NetworkBuilder("tiny_conv")
    x = net.conv2d(net.input((1, 16, 16, 8), "image"), 16, (1, 1), activation="RELU", name="pointwise")
    x = net.conv2d(x, 16, activation="RELU", name="full")
    return net.finish([net.conv2d(x, 32, strides=(2, 2), name="strided")])


def tiny_residual() -> bytes:
    """One residual block on 24x24x3: stem, two convolutions next to the identity, add, average pool."""
    net = NetworkBuilder("tiny_residual")
    stem = net.conv2d(net.input((1, 24, 24, 3), "image"), 16, activation="RELU", name="stem")
    x = net.depthwise(stem, activation="RELU", name="depthwise")
    x = net.add(stem, net.conv2d(x, 16, name="conv"), activation="RELU", name="add")
    return net.finish([net.average_pool(x, (2, 2), name="pool")])


_NETWORKS: dict[str, Callable[[], bytes]] = {
    "mobilenet_v1": mobilenet_v1,
    "mobilenet_v2": mobilenet_v2,
    "ds_cnn": ds_cnn,
    "resnet8": resnet8,
    "vgg": vgg,
    "unet": unet,
    "super_resolution": super_resolution,
    "tiny_conv": tiny_conv,
    "tiny_residual": tiny_residual,
}


def zoo_names() -> tuple[str, ...]:
    """The names ``build`` knows, without the ``zoo:`` prefix of the command line."""
    return tuple(_NETWORKS)


def build(name: str) -> bytes:
    """The .tflite file of the zoo network ``name``: the same bytes at every call, on every platform.

    Raises InputError, which lists the names, if there is no such network.
    """
    if name not in _NETWORKS:
        raise InputError(f"The zoo has no network {name!r}{did_you_mean(name, _NETWORKS)}: use one of {', '.join(_NETWORKS)}.")
    return _NETWORKS[name]()
