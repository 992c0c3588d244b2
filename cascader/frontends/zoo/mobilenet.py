"""MobileNet v1 and v2, width 1.0, 224x224x3, 1000 classes (arXiv 1704.04861 table 1, arXiv 1801.04381 table 2)."""

from __future__ import annotations

from cascader.frontends.zoo.builder import NetworkBuilder
from cascader.frontends.zoo.recorder import TensorHandle

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
