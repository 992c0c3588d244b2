"""Image classifiers as Keras and PyTorch exporters write them: their blocks, at sizes of microcontrollers."""

from __future__ import annotations

from functools import partial

from validation.builder import NetworkBuilder, TensorHandle
from validation.portfolio.entry import PortfolioNetwork


def _image(net: NetworkBuilder, size: int = 32, channels: int = 3) -> TensorHandle:
    return net.input((1, size, size, channels), "image")


def _head(net: NetworkBuilder, x: TensorHandle, classes: int = 10) -> list[TensorHandle]:
    """Global mean, fully connected layer, softmax."""
    return [net.softmax(net.fully_connected(net.mean(x), classes, spread="LOGITS", name="logits"), name="probabilities")]


def _mnist_small(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.max_pool(net.conv2d(_image(net, 28, 1), 32, padding="VALID", activation="RELU"))
    x = net.max_pool(net.conv2d(x, 64, padding="VALID", activation="RELU"))
    return [net.softmax(net.fully_connected(net.flatten(x), 10, spread="LOGITS"))]


def _lenet(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.average_pool(net.tanh(net.conv2d(_image(net, 32, 1), 6, (5, 5), padding="VALID")), (2, 2))
    x = net.average_pool(net.tanh(net.conv2d(x, 16, (5, 5), padding="VALID")), (2, 2))
    x = net.tanh(net.fully_connected(net.flatten(x), 120))
    return [net.fully_connected(net.tanh(net.fully_connected(x, 84)), 10)]


def _pytorch(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.transpose(net.input((1, 3, 32, 32), "nchw"), (0, 2, 3, 1))
    x = net.max_pool(net.conv2d(net.pad(x, 1, 1, 1, 1), 16, padding="VALID", activation="RELU"))
    x = net.max_pool(net.conv2d(net.pad(x, 1, 1, 1, 1), 32, padding="VALID", activation="RELU"))
    return [net.fully_connected(net.flatten(net.transpose(x, (0, 3, 1, 2))), 10)]


def _resnet_stem(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.pad(_image(net, 64), 3, 3, 3, 3)
    x = net.conv2d(x, 16, (7, 7), strides=(2, 2), padding="VALID", activation="RELU")
    x = net.max_pool(net.pad(x, 1, 1, 1, 1), (3, 3), strides=(2, 2))
    y = net.conv2d(net.conv2d(x, 16, activation="RELU"), 16)
    return _head(net, net.add(x, y, activation="RELU"))


def _bottleneck(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(_image(net, 48), 32, strides=(2, 2), activation="RELU")
    y = net.conv2d(net.conv2d(x, 16, (1, 1), activation="RELU"), 16, strides=(2, 2), activation="RELU")
    y = net.conv2d(y, 64, (1, 1))
    return _head(net, net.add(net.conv2d(x, 64, (1, 1), strides=(2, 2)), y, activation="RELU"))


def _inception(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(_image(net), 32, activation="RELU6")
    narrow = net.conv2d(x, 16, (1, 1), activation="RELU6")
    middle = net.conv2d(net.conv2d(x, 16, (1, 1), activation="RELU6"), 32, activation="RELU6")
    wide = net.conv2d(net.conv2d(x, 8, (1, 1), activation="RELU6"), 16, (5, 5), activation="RELU6")
    pooled = net.conv2d(net.max_pool(x, (3, 3), strides=(1, 1), padding="SAME"), 16, (1, 1), activation="RELU6")
    return _head(net, net.conv2d(net.concat([narrow, middle, wide, pooled]), 32, strides=(2, 2), activation="RELU6"))


def _densenet(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(_image(net), 16, activation="RELU6")
    for _ in range(4):
        x = net.concat([x, net.conv2d(net.conv2d(x, 32, (1, 1), activation="RELU6"), 8, activation="RELU6")])
    x = net.average_pool(net.conv2d(x, 24, (1, 1), activation="RELU6"), (2, 2))
    return _head(net, x)


def _squeezenet(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.max_pool(net.conv2d(_image(net, 48), 32, strides=(2, 2), activation="RELU6"), (3, 3), strides=(2, 2))
    for squeezed, expanded in ((8, 32), (16, 48)):
        x = net.conv2d(x, squeezed, (1, 1), activation="RELU6")
        x = net.concat([net.conv2d(x, expanded, (1, 1), activation="RELU6"), net.conv2d(x, expanded, activation="RELU6")])
    return [net.softmax(net.mean(net.conv2d(x, 10, (1, 1))))]


def _squeeze_excite(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(_image(net), 32, activation="RELU")
    gate = net.conv2d(net.mean(x, keep=True), 8, (1, 1), activation="RELU")
    x = net.multiply(x, net.logistic(net.conv2d(gate, 32, (1, 1))))
    return _head(net, net.conv2d(x, 32, strides=(2, 2), activation="RELU"))


def _mobilenet_v3(net: NetworkBuilder) -> list[TensorHandle]:
    stem = net.unary("HARD_SWISH", net.conv2d(_image(net, 64), 16, strides=(2, 2)))
    x = net.unary("HARD_SWISH", net.conv2d(stem, 48, (1, 1)))
    x = net.unary("HARD_SWISH", net.depthwise(x, (5, 5)))
    gate = net.conv2d(net.average_pool(x), 16, (1, 1), activation="RELU")
    x = net.multiply(x, net.unary("RELU_0_TO_1", net.conv2d(gate, 48, (1, 1))))
    return _head(net, net.add(stem, net.conv2d(x, 16, (1, 1))))


def _shufflenet(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.max_pool(net.conv2d(_image(net), 32, strides=(2, 2), activation="RELU6"))
    for _ in range(2):
        kept, worked = net.split(x, 2)
        worked = net.depthwise(net.conv2d(worked, 16, (1, 1), activation="RELU6"))
        x = net.concat([kept, net.conv2d(worked, 16, (1, 1), activation="RELU6")])
        _, height, width, depth = x.shape
        x = net.transpose(net.reshape(x, (1, height, width, 2, depth // 2)), (0, 1, 2, 4, 3))
        x = net.reshape(x, (1, height, width, depth))
    return _head(net, x)


def _shuffled_image(net: NetworkBuilder) -> list[TensorHandle]:
    """A shuffle of the channels of 28 x 28 pixels, which Vela cuts into a kernel a pixel."""
    x = net.conv2d(_image(net, 56), 24, strides=(2, 2), activation="RELU6")
    _, height, width, depth = x.shape
    x = net.transpose(net.reshape(x, (1, height, width, 2, depth // 2)), (0, 1, 2, 4, 3))
    return _head(net, net.conv2d(net.reshape(x, (1, height, width, depth)), 32, strides=(2, 2), activation="RELU6"))


def _shared_weights(net: NetworkBuilder) -> list[TensorHandle]:
    left, right = (net.input((1, 32, 32, 3), name) for name in ("left", "right"))
    both = net.concat([left, right], 0)
    x = net.conv2d(net.conv2d(both, 16, activation="RELU"), 16, strides=(2, 2), activation="RELU")
    first, second = net.split(net.fully_connected(net.flatten(x), 16), 2, 0)
    return [net.subtract(first, second)]


def _patches(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 64, 64, 3), "image"), 24, (4, 4), strides=(4, 4), padding="VALID")
    y = net.unary("GELU", net.conv2d(net.depthwise(x, (7, 7)), 48, (1, 1)))
    x = net.add(x, net.conv2d(y, 24, (1, 1)))
    return [net.fully_connected(net.mean(net.conv2d(x, 32, (2, 2), strides=(2, 2), padding="VALID")), 10)]


def _coarse_pools(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.max_pool(net.conv2d(net.input((1, 64, 64, 3), "image"), 16, activation="RELU"), (4, 4), strides=(4, 4))
    x = net.average_pool(net.conv2d(x, 24, activation="RELU"), (4, 4), strides=(4, 4))
    return [net.fully_connected(net.flatten(x), 10)]


_of = partial(PortfolioNetwork, group="classifiers")

NETWORKS = (
    _of("mnist_two_pools", "Keras' newer MNIST example: two convolutions, a pool after each", _mnist_small),
    _of("lenet", "LeNet-5 with tanh and average pools", _lenet),
    _of("pytorch_nchw", "PyTorch export: transposed input, stand-alone pads, transpose before flatten", _pytorch, sampled=True),
    _of("resnet_stem", "ResNet stem: pad 3, 7x7 of stride 2, pad 1, pool, one block", _resnet_stem),
    _of("bottleneck", "ResNet bottleneck with a strided projection", _bottleneck),
    _of("inception", "Inception block: four branches, concatenated", _inception, sampled=True),
    _of("densenet", "DenseNet block: every layer reads all before it", _densenet),
    _of("squeezenet", "SqueezeNet's fire modules", _squeezenet),
    _of("squeeze_excite", "squeeze-and-excite: a map times its channels' gates", _squeeze_excite, sampled=True),
    _of("mobilenet_v3", "MobileNetV3 block: hard swish, depthwise 5x5, gate", _mobilenet_v3),
    _of("shufflenet", "ShuffleNet v2 units: split, concat, channel shuffle by reshape and transpose", _shufflenet),
    _of("shuffled_image", "the shuffle of the channels of a whole image", _shuffled_image),
    _of("patches", "ConvNeXt's stem and a block: patches of 4x4, depthwise 7x7, GELU", _patches, sampled=True),
    _of("coarse_pools", "a maximum and an average over 4x4, each in steps of 4", _coarse_pools),
    _of("siamese_batch", "two inputs through shared weights as a batch of two", _shared_weights),
)
