"""Networks that read images: classifiers, U-Nets, detectors, decoders, of drawn sizes, depths and blocks."""

from __future__ import annotations

from collections.abc import Callable

from validation.builder import NetworkBuilder, TensorHandle
from validation.portfolio.drawn.blocks import conv, halved, stage, width
from validation.portfolio.drawn.dice import Dice

Recipe = Callable[[NetworkBuilder, Dice], list[TensorHandle]]
"""Draws a network with dice and returns its outputs."""


def image(net: NetworkBuilder, dice: Dice, low: int = 16, high: int = 56) -> TensorHandle:
    """An input, square or not, sometimes with a stem after it."""
    rows = dice.between(low, high)
    columns = rows if dice.chance(50) else dice.between(low, high)
    batch = 2 if dice.chance(4) else 1
    x = net.input((batch, rows, columns, dice.pick(1, 3, 3, 3, 4, 6)), "image")
    return net.quantize(x) if dice.chance(10) else x


def classifier(net: NetworkBuilder, dice: Dice) -> list[TensorHandle]:
    """Stages with halvings in between, and one or two heads."""
    x = halved(net, dice, image(net, dice, 20, 64))
    taps: list[TensorHandle] = []
    for _ in range(dice.between(2, 4)):
        x = stage(net, dice, x)
        taps.append(x)
        if min(x.shape[1:3]) > 6 and dice.chance(60):
            x = halved(net, dice, x)
    outputs = [_head(net, dice, x)]
    if dice.chance(20):
        outputs.append(_head(net, dice, dice.pick(*taps)))
    if dice.chance(10):
        outputs.append(dice.pick(*taps))
    return list({output.index: output for output in outputs}.values())


def _head(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    kind, classes = dice.pick("mean", "mean", "flatten", "conv", "pool", "max"), dice.pick(2, 4, 10, 12, 35)
    if kind == "conv":
        return net.softmax(net.mean(net.conv2d(x, classes, (1, 1))))
    if kind == "mean" or x.shape[0] * x.shape[1] * x.shape[2] * x.shape[3] > 8192:
        flat = net.mean(x)
    elif kind == "pool":
        flat = net.flatten(net.average_pool(x))
    else:
        flat = net.flatten(net.max_pool(x, padding="SAME") if kind == "max" else x)
    if dice.chance(40):
        flat = net.fully_connected(flat, dice.pick(16, 32, 50), activation="RELU")
    last = net.fully_connected(flat, classes, spread="LOGITS")
    return ended(net, last, dice.pick("softmax", "softmax", "logistic", ""))


def ended(net: NetworkBuilder, x: TensorHandle, kind: str) -> TensorHandle:
    """An output's last operator: softmax, logistic, tanh, or none."""
    if kind == "softmax":
        return net.softmax(x) if x.shape[-1] > 1 else net.logistic(x)
    return net.logistic(x) if kind == "logistic" else net.tanh(x) if kind == "tanh" else x


def unet(net: NetworkBuilder, dice: Dice) -> list[TensorHandle]:
    """Down and up again, with skips that are concatenated or added; odd sizes are cropped or padded to meet."""
    x = image(net, dice, 16, 48)
    skips: list[TensorHandle] = []
    for _ in range(dice.between(2, 3)):
        x = net.conv2d(stage(net, dice, x) if skips and dice.chance(40) else x, width(dice), activation="RELU6")
        skips.append(x)
        x = net.max_pool(x, padding=dice.pick("SAME", "VALID"))
    x = net.conv2d(x, width(dice), activation="RELU6")
    for skip in reversed(skips):
        x = joined(net, dice, raised(net, dice, x), skip)
        x = conv(net, dice, x) if dice.chance(50) else net.conv2d(x, width(dice), activation="RELU6")
    x = net.conv2d(x, dice.pick(1, 2, 5), (1, 1))
    return [ended(net, x, dice.pick("logistic", "tanh", "softmax", ""))]


def raised(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    """A map at twice its size."""
    kind = dice.pick("transposed", "transposed", "nearest", "bilinear", "half")
    if kind == "transposed":
        return net.transpose_conv(x, width(dice), dice.pick((2, 2), (3, 3), (4, 4)), activation="RELU6")
    x = net.conv2d(x, width(dice), (1, 1), activation="RELU6")
    return net.resize_nearest(x) if kind == "nearest" else net.resize_bilinear(x, half_pixel=kind == "half")


def joined(net: NetworkBuilder, dice: Dice, x: TensorHandle, skip: TensorHandle) -> TensorHandle:
    """Two RELU6 maps of about one size as one: the larger is cropped or the smaller padded, then they are concatenated or added."""
    rows, columns = min(x.shape[1], skip.shape[1]), min(x.shape[2], skip.shape[2])
    if x.shape[1] < skip.shape[1] or x.shape[2] < skip.shape[2]:
        if dice.chance(50):
            x = net.pad(x, 0, max(skip.shape[1] - x.shape[1], 0), 0, max(skip.shape[2] - x.shape[2], 0))
            rows, columns = min(x.shape[1], skip.shape[1]), min(x.shape[2], skip.shape[2])
        skip = _cropped(net, skip, rows, columns)
    x = _cropped(net, x, rows, columns)
    if dice.chance(65):
        return net.concat(dice.shuffled([x, skip]))
    return net.add(net.conv2d(x, skip.shape[3], (1, 1)), skip, activation=dice.pick("RELU", "NONE"))


def _cropped(net: NetworkBuilder, x: TensorHandle, rows: int, columns: int) -> TensorHandle:
    if x.shape[1:3] == (rows, columns):
        return x
    top, left = (x.shape[1] - rows) // 2, (x.shape[2] - columns) // 2
    return net.slice(x, (0, top, left, 0), (x.shape[0], rows, columns, x.shape[3]))


def detector(net: NetworkBuilder, dice: Dice) -> list[TensorHandle]:
    """A backbone whose maps of several sizes have heads: boxes and scores, joined or each an output, with a pyramid now and then."""
    x, maps = halved(net, dice, image(net, dice, 32, 64)), []
    depth = dice.pick(16, 24, 32)
    for _ in range(dice.between(2, 3)):
        x = stage(net, dice, x)
        x = net.conv2d(x, depth, strides=(2, 2), activation="RELU6")
        maps.append(x)
    if dice.chance(50):
        for level in reversed(range(len(maps) - 1)):
            maps[level] = net.conv2d(joined(net, dice, net.resize_nearest(maps[level + 1]), maps[level]), depth, activation="RELU6")
    anchors, classes = dice.pick(1, 2, 3), dice.pick(1, 3, 8)
    heads = [_box_heads(net, dice, one, anchors, classes) for one in maps]
    outputs: list[TensorHandle] = []
    for found in zip(*heads, strict=True):
        if dice.chance(30):
            outputs += found
        else:
            outputs.append(net.concat([_flat(net, one, anchors) for one in found], 1) if maps[0].shape[0] == 1 else found[0])
    return outputs if dice.chance(60) else [outputs[0], *(net.logistic(one) for one in outputs[1:])]


def _box_heads(net: NetworkBuilder, dice: Dice, x: TensorHandle, anchors: int, classes: int) -> tuple[TensorHandle, TensorHandle]:
    shared = net.depthwise(x, activation="RELU6") if dice.chance(40) else x
    kernel = dice.pick((1, 1), (3, 3))
    return (
        net.conv2d(shared, 4 * anchors, kernel, activation="RELU6"),
        net.conv2d(shared, (classes + 1) * anchors, kernel, activation="RELU6"),
    )


def _flat(net: NetworkBuilder, x: TensorHandle, anchors: int) -> TensorHandle:
    return net.reshape(x, (1, x.shape[1] * x.shape[2] * anchors, x.shape[3] // anchors))


def decoder(net: NetworkBuilder, dice: Dice) -> list[TensorHandle]:
    """Super-resolution, autoencoders, style transfer: blocks at one size, then up."""
    x = net.conv2d(image(net, dice, 12, 32), width(dice), dice.pick((3, 3), (5, 5)), activation="RELU6")
    first = x
    for _ in range(dice.between(1, 3)):
        x = stage(net, dice, x)
    if x.shape[1:3] == first.shape[1:3] and dice.chance(50):
        x = net.add(net.conv2d(x, first.shape[3]), first)
    for _ in range(dice.between(1, 2)):
        if dice.chance(25) and net.precision != "int16":
            x = net.depth_to_space(net.conv2d(x, 4 * dice.pick(1, 2, 4)))
        else:
            x = raised(net, dice, x)
    kind = dice.pick("tanh", "logistic", "")
    return [ended(net, net.conv2d(x, dice.pick(1, 3)), kind)]
