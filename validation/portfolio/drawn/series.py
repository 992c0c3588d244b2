"""Networks that read sounds, sensors and words: temporal convolutions, recurrent steps, attention, vectors."""

from __future__ import annotations

from validation.builder import NetworkBuilder, TensorHandle
from validation.portfolio.drawn.blocks import activated, gate, width
from validation.portfolio.drawn.dice import Dice


def temporal(net: NetworkBuilder, dice: Dice) -> list[TensorHandle]:
    """Convolutions along one axis: causal, dilated, strided, residual, gated; the axis is the width or the height."""
    steps, features, upright = dice.between(24, 200), dice.pick(1, 4, 6, 10, 13, 40), dice.chance(35)

    def pair(along: int, across: int = 1) -> tuple[int, int]:
        return (along, across) if upright else (across, along)

    x = net.input((1, *pair(steps), features), "signal")
    x = net.conv2d(x, width(dice), pair(dice.pick(1, 3, 5, 9)), strides=pair(dice.pick(1, 1, 2)), activation="RELU")
    for level in range(dice.between(2, 4)):
        taps, dilation = dice.pick(2, 3, 5), 2**level if dice.chance(60) else 1
        reach = (taps - 1) * dilation
        if dice.chance(50):
            y = net.pad(x, *((reach, 0, 0, 0) if upright else (0, 0, reach, 0)))
            y = net.conv2d(y, x.shape[3], pair(taps), dilation=pair(dilation), padding="VALID", activation=dice.pick("RELU", "NONE"))
        else:
            y = net.conv2d(x, x.shape[3], pair(taps), dilation=pair(dilation))
        y = activated(net, dice, y)
        y = gate(net, dice, y) if dice.chance(15) else y
        x = net.add(x, net.conv2d(y, x.shape[3], (1, 1)), activation=dice.pick("RELU", "NONE")) if dice.chance(60) else y
        if max(x.shape[1:3]) > 16 and dice.chance(30):
            x = net.max_pool(x, pair(2), padding=dice.pick("SAME", "VALID"))
    if dice.chance(40):
        return [net.conv2d(x, dice.pick(1, 4, 8), (1, 1))]
    return [net.fully_connected(net.mean(x), dice.pick(2, 6, 12), spread="LOGITS")]


def spectral(net: NetworkBuilder, dice: Dice) -> list[TensorHandle]:
    """Keyword spotting on a spectrogram: tall kernels, depthwise layers, then an LSTM's last step or a mean."""
    frames, bands = dice.between(20, 64), dice.pick(10, 13, 20, 40)
    x = net.input((1, frames, bands, 1), "spectrogram")
    x = net.conv2d(
        x, dice.pick(8, 16, 24), dice.pick((10, 4), (8, 8), (3, 3), (20, 8)), strides=dice.pick((2, 2), (1, 2), (2, 1)), activation="RELU"
    )
    for _ in range(dice.between(1, 3)):
        x = net.conv2d(net.depthwise(x, dice.pick((3, 3), (3, 1), (9, 1)), activation="RELU"), width(dice), (1, 1), activation="RELU")
    if dice.chance(40):
        return [net.softmax(net.fully_connected(net.mean(x), 12, spread="LOGITS"))]
    x = net.mean(x, (2,)) if dice.chance(50) else net.reshape(x, (1, x.shape[1], x.shape[2] * x.shape[3]))
    return [net.fully_connected(recurrent(net, dice, x, min(x.shape[1], 4)), 6)]


def recurrent(net: NetworkBuilder, dice: Dice, x: TensorHandle, steps: int) -> TensorHandle:
    """The state after the first ``steps`` of (1, time, features), unrolled: a GRU, an LSTM or a plain cell."""
    units, kind = dice.pick(8, 16, 20, 32), dice.pick("gru", "lstm", "plain")
    if x.shape[1] > steps:
        x = net.strided_slice(x, (0, x.shape[1] - steps, 0), x.shape, (1, 1, 1))
    hidden = cell = None
    for frame in net.unpack(x, 1):
        if kind == "plain" or hidden is None:
            new = net.fully_connected(frame, units)
            hidden = net.tanh(new if hidden is None else net.add(new, net.fully_connected(hidden, units)))
        elif kind == "gru":
            both = net.concat([net.quantize(frame, like=hidden), hidden])
            reset, update = net.split(net.logistic(net.fully_connected(both, 2 * units)), 2)
            fresh = net.tanh(net.add(net.fully_connected(frame, units), net.fully_connected(net.multiply(reset, hidden), units)))
            hidden = net.add(fresh, net.multiply(update, net.subtract(hidden, fresh)))
        else:
            gates = net.add(net.fully_connected(frame, 4 * units), net.fully_connected(hidden, 4 * units))
            let_in, keep, value, let_out = net.split(gates, 4)
            new = net.multiply(net.logistic(let_in), net.tanh(value))
            cell = new if cell is None else net.add(net.multiply(net.logistic(keep), cell), new)
            hidden = net.multiply(net.logistic(let_out), net.tanh(cell))
    assert hidden is not None  # noqa: S101  # there is at least one step
    return hidden


def unrolled(net: NetworkBuilder, dice: Dice) -> list[TensorHandle]:
    """An unrolled cell over drawn frames."""
    steps = dice.between(2, 6)
    last = recurrent(net, dice, net.input((1, steps, dice.pick(6, 10, 13, 40)), "frames"), steps)
    return [net.fully_connected(last, dice.pick(3, 8)), *([last] if dice.chance(30) else [])]


def sequence_operator(net: NetworkBuilder, dice: Dice) -> list[TensorHandle]:
    """An LSTM operator or an SVDF in front of a dense head."""
    if dice.chance(50):
        x = net.fully_connected(net.input((1, dice.pick(16, 40)), "frame"), dice.pick(16, 24), activation="RELU")
        return [net.fully_connected(net.svdf(x, dice.pick(16, 24), dice.pick(4, 8)), 4)]
    steps = dice.between(2, 8)
    x = net.lstm(net.input((1, steps, dice.pick(8, 13)), "frames"), dice.pick(16, 24))
    last = net.reshape(net.strided_slice(x, (0, steps - 1, 0), x.shape, (1, 1, 1)), (1, x.shape[2]))
    return [net.softmax(net.fully_connected(last, 6, spread="LOGITS"))]


def attention(net: NetworkBuilder, dice: Dice) -> list[TensorHandle]:
    """Tokens of an image or of a signal, normalised, mixed by heads of attention and by a perceptron."""
    rows, columns, depth = dice.pick(1, 3, 4), dice.pick(4, 6, 8), dice.pick(16, 24, 32)
    patch = dice.pick(2, 4)
    x = net.input((1, rows * patch, columns * patch, dice.pick(1, 3)), "image")
    x = net.conv2d(x, depth, (patch, patch), strides=(patch, patch), padding="VALID")
    for _ in range(dice.between(1, 2)):
        x = net.add(x, _mixed(net, dice, normalised(net, x) if dice.chance(40) else x))
        hidden = activated(net, dice, net.conv2d(x, 2 * depth, (1, 1)))
        x = net.add(x, net.conv2d(hidden, depth, (1, 1)))
    return [net.fully_connected(net.mean(x), dice.pick(2, 10), spread="LOGITS")]


def normalised(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    """Layer normalisation as converters write it: means, squared differences, a reciprocal root, products."""
    mean = net.mean(x, (3,), keep=True)
    variance = net.mean(net.squared_difference(x, mean), (3,), keep=True)
    scaled = net.multiply(net.subtract(x, mean), net.unary("RSQRT", variance))
    return net.add(net.multiply(scaled, net.constant((x.shape[3],))), net.constant((x.shape[3],)))


def _mixed(net: NetworkBuilder, dice: Dice, x: TensorHandle) -> TensorHandle:
    _, rows, columns, depth = x.shape
    heads, tokens = dice.pick(1, 2, 4), rows * columns

    def projected() -> TensorHandle:
        flat = net.reshape(net.conv2d(x, depth, (1, 1)), (1, tokens, heads, depth // heads))
        return net.transpose(flat, (0, 2, 1, 3))

    query, key, value = projected(), projected(), projected()
    mixed = net.batch_matmul(net.softmax(net.batch_matmul(query, key, transpose_b=True)), value)
    return net.conv2d(net.reshape(net.transpose(mixed, (0, 2, 1, 3)), x.shape), depth, (1, 1))


def vectors(net: NetworkBuilder, dice: Dice) -> list[TensorHandle]:
    """Fully connected layers: several inputs, skips, bottlenecks, several heads."""
    inputs = [net.input((1, dice.between(1, 80)), f"input_{number}") for number in range(dice.between(1, 3))]
    parts = [net.fully_connected(x, dice.pick(8, 20, 33, 64), activation="RELU6") for x in inputs]
    x = net.concat(parts) if len(parts) > 1 else parts[0]
    for _ in range(dice.between(1, 3)):
        y = net.fully_connected(x, dice.pick(x.shape[1], 8, 48), activation=dice.pick("RELU", "RELU6", "NONE"))
        y = net.tanh(y) if dice.chance(20) else y
        x = net.add(x, y) if x.shape == y.shape and dice.chance(60) else y
    return [net.fully_connected(x, units) for units in dice.shuffled((1, 3, 10))[: dice.between(1, 2)]]
