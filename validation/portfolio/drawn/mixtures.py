"""Networks of any operators: maps that are moved, cut, joined, resized and read by several, with the CPU in between."""

from __future__ import annotations

from collections.abc import Callable

from validation.builder import NetworkBuilder, TensorHandle
from validation.portfolio.drawn.blocks import activated, conv, pooled, stage, width
from validation.portfolio.drawn.dice import Dice

Step = Callable[[NetworkBuilder, Dice, TensorHandle], TensorHandle]

LARGEST = 36_000
"""Elements of a map up to which it may grow further."""


def _pad(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    return net.pad(x, dice.between(0, 3), dice.between(0, 3), dice.between(0, 3), dice.between(1, 2))


def _crop(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    begin = (0, *(dice.between(0, (extent - 1) // 3) for extent in x.shape[1:]))
    size = (x.shape[0], *(extent - at - dice.between(0, (extent - 1) // 3) for extent, at in zip(x.shape[1:], begin[1:], strict=True)))
    return net.slice(x, begin, size)


def _strided(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    return net.strided_slice(x, (0,) * 4, x.shape, dice.pick((1, 2, 1, 1), (1, 1, 2, 1), (1, 2, 2, 1)))


def _resize(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    if x.shape[1] * x.shape[2] * x.shape[3] * 4 > LARGEST:
        return pooled(net, dice, x)
    kind = dice.pick(net.resize_nearest, net.resize_bilinear)
    how = dice.pick("plain", "half", "corners")
    return kind(x, half_pixel=how == "half", align_corners=how == "corners" and min(x.shape[1:3]) > 1)


def _transposed_convolution(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    if x.shape[1] * x.shape[2] * 4 * 16 > LARGEST:
        return conv(net, dice, x)
    return net.transpose_conv(x, dice.pick(4, 8, 16), dice.pick((2, 2), (3, 3), (4, 4), (3, 2)), padding=dice.pick("SAME", "VALID"))


def _transpose(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    return net.transpose(x, dice.pick((0, 2, 1, 3), (0, 1, 3, 2), (0, 3, 1, 2), (0, 2, 3, 1)))


def _reshape(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    batch, rows, columns, depth = x.shape
    shapes = [(batch, columns, rows, depth), (batch, rows * columns, 1, depth), (batch, 1, rows * columns, depth)]
    shapes += [(batch, rows // 2, columns * 2, depth)] if rows % 2 == 0 else []
    shapes += [(batch, rows, columns // 2, depth * 2)] if columns % 2 == 0 else []
    shapes += [(batch, rows, columns * 2, depth // 2)] if depth % 2 == 0 else []
    return net.reshape(x, dice.pick(*shapes))


def _on_cpu(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    _, rows, columns, depth = x.shape
    kind = dice.pick("gather", "depth", "space") if net.precision != "int16" else "gather"
    if kind == "depth" and depth % 4 == 0:
        return net.depth_to_space(x)
    if kind == "space" and rows % 2 == columns % 2 == 0:
        return net.space_to_depth(x)
    axis = dice.pick(1, 2, 3)
    return net.gather(x, dice.shuffled(range(x.shape[axis]))[: max(x.shape[axis] // 2, 1)], axis)


def _constant(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    shape = dice.pick((x.shape[3],), (1, 1, 1, x.shape[3]), (1,), (1, *x.shape[1:]))
    return dice.pick(net.add, net.multiply, net.subtract)(x, net.constant(shape))


def _reduced(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    axes = dice.pick((1,), (2,), (1, 2))
    reduced = net.mean(x, axes, keep=True) if dice.chance(70) else net.max_pool(x, (min(x.shape[1], 8), 1), padding="VALID")
    return dice.pick(net.multiply, net.add, net.subtract)(x, reduced) if _broadcasts(x, reduced) else reduced


def _broadcasts(x: TensorHandle, other: TensorHandle) -> bool:
    return all(extent in {1, own} for own, extent in zip(x.shape, other.shape, strict=True))


def _softmax(net: NetworkBuilder, _dice: Dice, x: TensorHandle) -> TensorHandle:
    return net.softmax(x) if x.shape[3] > 1 else net.tanh(x)


def _requantized(net: NetworkBuilder, _dice: Dice, x: TensorHandle) -> TensorHandle:
    return net.quantize(x)


_STEPS: tuple[Step, ...] = (
    *(conv, stage, stage, pooled, activated, _constant, _pad, _crop, _resize, _transposed_convolution),
    *(_strided, _transpose, _reshape, _on_cpu, _reduced, _softmax, _requantized),
)


def mixture(net: NetworkBuilder, dice: Dice) -> list[TensorHandle]:
    """A few inputs, and steps after any map, old or new. Maps that fit are joined, and unread maps become outputs."""
    inputs = dice.pick(1, 1, 1, 2)
    maps = [_input(net, dice, number) for number in range(inputs)]
    read: set[int] = set()
    for _ in range(dice.between(4, 9)):
        x = maps[-1] if dice.chance(75) else dice.pick(*maps)
        others = [y for y in maps if y.index != x.index and y.shape[:3] == x.shape[:3]]
        other = dice.pick(*others) if others and dice.chance(35) else x
        made = _next(net, dice, x) if other is x else _both(net, dice, x, other)
        if made is not x:  # a step may be none
            read |= {x.index, other.index}
            maps.append(made)
    ends = [conv(net, dice, y) if number < inputs else y for number, y in enumerate(maps) if y.index not in read]
    ends = ends or maps[-1:]
    middle = [y for y in maps[inputs:-1] if y.index in read]
    ends += [dice.pick(*middle)] if middle and dice.chance(15) else []
    return list({end.index: end for end in ends}.values())


def _input(net: NetworkBuilder, dice: Dice, number: int) -> TensorHandle:
    rows, columns = dice.pick(1, 7, 12, 16, 20, 31), dice.pick(1, 5, 16, 16, 24, 33)
    batch = 2 if number == 0 and dice.chance(4) else 1
    return net.input((batch, rows, columns, dice.pick(1, 3, 8, 16)), f"input_{number}")


def _next(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    if x.shape[1] * x.shape[2] * x.shape[3] > LARGEST or x.shape[3] > 128:
        return net.conv2d(x, width(dice), (1, 1), strides=(2, 2), activation="RELU6")
    return dice.pick(*_STEPS)(net, dice, x)


def _both(net: NetworkBuilder, dice: Dice, x: TensorHandle, other: TensorHandle) -> TensorHandle:
    if x.shape == other.shape and dice.chance(60):
        kind = dice.pick(net.add, net.multiply, net.subtract, net.maximum, net.minimum)
        return kind(x, net.quantize(other, like=x)) if kind in (net.maximum, net.minimum) else kind(x, other)
    return net.concat([x, net.quantize(other, like=x)], 3 if x.shape != other.shape else dice.pick(1, 2, 3))
