"""Blocks of image networks, each drawn after a map: convolutions and their activations, residuals, gates, branches."""

from __future__ import annotations

from collections.abc import Callable

from validation.builder import NetworkBuilder, TensorHandle
from validation.portfolio.drawn.dice import Dice

Block = Callable[[NetworkBuilder, Dice, TensorHandle], TensorHandle]

WIDTHS = (4, 8, 12, 16, 20, 24, 32, 40, 48)
KERNELS = ((3, 3),) * 5 + ((1, 1),) * 3 + ((5, 5), (1, 3), (3, 1), (2, 2), (7, 7), (1, 5), (4, 4), (3, 5))


def width(dice: Dice) -> int:
    """A number of channels, odd ones among them."""
    return dice.between(3, 37) if dice.chance(20) else dice.pick(*WIDTHS)


def fits(x: TensorHandle, kernel: tuple[int, int]) -> bool:
    """Whether a kernel covers no more than the map."""
    return kernel[0] <= x.shape[1] and kernel[1] <= x.shape[2]


def activated(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    """An activation that is an operator of its own, or none."""
    kind = dice.pick("", "", "leaky", "swish", "hard", "tanh", "logistic", "prelu")
    if kind == "leaky":
        return net.leaky_relu(x)
    if kind == "swish":
        return net.multiply(x, net.logistic(x))
    if kind == "hard" and net.precision != "int16":
        return net.unary("HARD_SWISH", x)
    if kind == "prelu" and net.precision != "int16":
        return net.prelu(x)
    return net.tanh(x) if kind == "tanh" else net.logistic(x) if kind == "logistic" else x


def conv(net: NetworkBuilder, dice: Dice, x: TensorHandle, *, filters: int = 0, strides: tuple[int, int] = (1, 1)) -> TensorHandle:
    """A convolution of any kernel, stride and dilation, with an activation, fused or on its own."""
    kernel = dice.pick(*KERNELS)
    dilation = (dice.pick(1, 2, 3),) * 2 if strides == (1, 1) and dice.chance(12) else (1, 1)
    valid = dice.chance(20) and fits(x, tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)))  # type: ignore[arg-type]
    fused = dice.pick("RELU", "RELU6", "RELU", "NONE")
    padding = "VALID" if valid else "SAME"
    x = net.conv2d(x, filters or width(dice), kernel, strides=strides, dilation=dilation, padding=padding, activation=fused)
    return activated(net, dice, x) if fused == "NONE" else x


def separable(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    """Depthwise, then 1x1."""
    strides = (dice.pick(1, 1, 2),) * 2
    x = net.depthwise(x, dice.pick((3, 3), (3, 3), (5, 5), (3, 1), (7, 7)), strides=strides, activation="RELU6")
    return net.conv2d(x, width(dice), (1, 1), activation=dice.pick("RELU6", "NONE"))


def residual(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    """Two convolutions and a skip, with a strided projection now and then."""
    strides, filters = (dice.pick(1, 1, 2),) * 2, dice.pick(x.shape[3], width(dice))
    y = net.conv2d(x, width(dice), activation="RELU", strides=strides)
    y = net.conv2d(y, filters, dice.pick((3, 3), (1, 1)))
    if strides != (1, 1) or filters != x.shape[3]:
        x = net.conv2d(x, filters, (1, 1), strides=strides)
    return net.add(x, y, activation=dice.pick("RELU", "NONE"))


def inverted(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    """MobileNetV2's block, with a gate now and then."""
    stride, filters = dice.pick(1, 1, 2), dice.pick(x.shape[3], width(dice))
    y = net.conv2d(x, x.shape[3] * dice.pick(2, 3, 4), (1, 1), activation="RELU6")
    y = net.depthwise(y, dice.pick((3, 3), (5, 5)), strides=(stride, stride), activation="RELU6")
    y = net.conv2d(gate(net, dice, y) if dice.chance(30) else y, filters, (1, 1))
    return net.add(x, y) if stride == 1 and filters == x.shape[3] else y


def gate(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    """Squeeze-and-excite, by convolutions or by fully connected layers."""
    depth = x.shape[3]
    if dice.chance(50) or x.shape[0] > 1:
        mean = net.mean(x, keep=True) if dice.chance(50) else net.average_pool(x)
        squeezed = net.conv2d(net.conv2d(mean, max(depth // 4, 1), (1, 1), activation="RELU"), depth, (1, 1))
    else:
        flat = net.fully_connected(net.mean(x), max(depth // 4, 1), activation="RELU")
        squeezed = net.reshape(net.fully_connected(flat, depth), (1, 1, 1, depth))
    return net.multiply(x, net.logistic(squeezed))


def branches(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    """Branches of different kernels, concatenated: inception, fire modules, ASPP."""
    found = []
    for _ in range(dice.between(2, 4)):
        kind = dice.pick("narrow", "wide", "pooled", "dilated", "same")
        y = net.max_pool(x, (3, 3), strides=(1, 1), padding="SAME") if kind == "pooled" else x
        if kind == "wide":
            y = net.conv2d(x, width(dice), (1, 1), activation="RELU6")
        kernel = dice.pick((3, 3), (5, 5)) if kind == "wide" else (1, 1) if kind != "dilated" else (3, 3)
        dilation = (2, 2) if kind == "dilated" else (1, 1)
        found.append(net.conv2d(y, width(dice), kernel, dilation=dilation, activation="RELU6"))
    return net.concat(found)


def dense(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    """Layers that each read all before them."""
    x, grown = net.conv2d(x, width(dice), (1, 1), activation="RELU6"), dice.pick(4, 8, 12)
    for _ in range(dice.between(2, 3)):
        x = net.concat([x, net.conv2d(x, grown, activation="RELU6")])
    return x


def grouped(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    """A grouped convolution between two 1x1 ones, as ResNeXt has it."""
    groups, each = dice.pick(2, 4), dice.pick(4, 8)
    y = net.conv2d(x, groups * each, (1, 1), activation="RELU")
    y = net.conv2d(y, groups * dice.pick(4, 8), groups=groups, activation="RELU")
    y = net.conv2d(y, x.shape[3], (1, 1))
    return net.add(x, y, activation="RELU")


def split(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    """Half of the channels worked on, the rest kept (CSP, ShuffleNet)."""
    half = dice.pick(4, 8, 12)
    x = net.conv2d(x, 2 * half, (1, 1), activation="RELU6")
    kept, worked = net.split(x, 2)
    for _ in range(dice.between(1, 2)):
        worked = net.conv2d(worked, half, activation="RELU6")
    x = net.concat(dice.shuffled([kept, worked]))
    if dice.chance(50) or x.shape[0] > 1:
        return x
    _, rows, columns, depth = x.shape
    x = net.transpose(net.reshape(x, (1, rows, columns, 2, depth // 2)), (0, 1, 2, 4, 3))
    return net.reshape(x, (1, rows, columns, depth))


def pooled(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    """A pool, of any window that fits."""
    kernel = dice.pick((2, 2), (2, 2), (3, 3), (2, 1), (1, 2))
    if not fits(x, kernel):
        return x
    strides = dice.pick(kernel, (2, 2), (1, 1))
    pool = net.max_pool if dice.chance(65) else net.average_pool
    return pool(x, kernel, strides=strides, padding=dice.pick("SAME", "VALID"))


def padded(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    """PyTorch's way: a pad of its own, then a valid convolution, strided or not."""
    edge, stride = dice.between(1, 3), dice.pick(1, 2)
    kernel = (2 * edge + 1,) * 2
    x = net.pad(x, *dice.pick((edge,) * 4, (0, edge, 0, edge)))
    if not fits(x, kernel):
        kernel = (1, 1)
    return net.conv2d(x, width(dice), kernel, strides=(stride, stride), padding="VALID", activation="RELU")


BLOCKS: tuple[Block, ...] = (conv, conv, conv, separable, residual, residual, inverted, branches, dense, grouped, split, pooled, padded)
"""The kinds of a stage of an image network; a kind that stands several times is drawn more often."""


def stage(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    """One block, drawn; gated now and then."""
    x = dice.pick(*BLOCKS)(net, dice, x)
    return gate(net, dice, x) if dice.chance(8) else x


def halved(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    """The map at half its size, by a strided convolution or a pool."""
    if dice.chance(50):
        return net.conv2d(x, width(dice), dice.pick((3, 3), (3, 3), (5, 5), (2, 2)), strides=(2, 2), activation="RELU6")
    return net.conv2d(net.max_pool(x, padding="SAME"), width(dice), activation="RELU6")
