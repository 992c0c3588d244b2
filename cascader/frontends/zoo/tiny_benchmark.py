"""The keyword-spotting DS-CNN and the image-classification ResNet-8 in the shapes of the MLPerf Tiny benchmark."""

from __future__ import annotations

from cascader.frontends.zoo.builder import NetworkBuilder
from cascader.frontends.zoo.mobilenet import classifier
from cascader.frontends.zoo.recorder import TensorHandle


def ds_cnn() -> bytes:
    """DS-CNN (arXiv 1711.07128, small): 49 frames of 10 MFCCs, four depthwise separable pairs of 64 channels, 12 words."""
    net = NetworkBuilder("ds_cnn")
    x = net.conv2d(net.input((1, 49, 10, 1), "mfcc"), 64, (10, 4), strides=(2, 2), activation="RELU", name="stem")
    for number in range(1, 5):
        x = net.depthwise(x, activation="RELU", name=f"depthwise_{number}")
        x = net.conv2d(x, 64, (1, 1), activation="RELU", name=f"pointwise_{number}")
    return classifier(net, x, 12)


def _basic_block(net: NetworkBuilder, x: TensorHandle, name: str, filters: int, stride: int) -> TensorHandle:
    """Two 3x3 convolutions beside the identity, or beside a strided 1x1 convolution where the shape changes."""
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
