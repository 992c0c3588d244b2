"""Sounds, sensors and words: temporal convolutions, recurrent layers as one operator and unrolled, streams with a state."""

from __future__ import annotations

from functools import partial

from validation.builder import NetworkBuilder, TensorHandle
from validation.portfolio.entry import LSTM, Draw, PortfolioNetwork

GROUP = "sequences"


def _last(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    """The features of the last step."""
    _, steps, units = x.shape
    return net.reshape(net.strided_slice(x, (0, steps - 1, 0), (1, steps, units), (1, 1, 1)), (1, units))


def _keyword_spotter(steps: int, features: int, units: int, net: NetworkBuilder) -> list[TensorHandle]:
    x = net.lstm(net.input((1, steps, features), "mfcc"), units)
    return [net.softmax(net.fully_connected(_last(net, x), 12, spread="LOGITS"))]


def _temporal(net: NetworkBuilder) -> list[TensorHandle]:
    """Residual blocks of causal convolutions, the dilation doubling."""
    x = net.conv2d(net.input((1, 1, 128, 8), "signal"), 16, (1, 1), activation="RELU")
    for dilation in (1, 2, 4, 8):
        y = net.conv2d(net.pad(x, 0, 0, 2 * dilation, 0), 16, (1, 3), dilation=(1, dilation), padding="VALID", activation="RELU")
        x = net.add(x, net.conv2d(y, 16, (1, 1)), activation="RELU")
    return [net.fully_connected(net.mean(x), 6)]


def _dilated_by_batch(net: NetworkBuilder) -> list[TensorHandle]:
    """Dilated convolutions as older converters leave them: to the batch, convolution, back."""
    x = net.conv2d(net.input((1, 1, 64, 8), "signal"), 16, (1, 3), activation="RELU")
    for dilation in (2, 4):
        x = net.space_to_batch(x, (1, dilation), ((0, 0), (2 * dilation, 0)))
        x = net.conv2d(x, 16, (1, 3), padding="VALID", activation="RELU")
        x = net.batch_to_space(x, (1, dilation), ((0, 0), (0, 0)))
    return [net.conv2d(x, 8, (1, 1))]


def _conv1d(net: NetworkBuilder) -> list[TensorHandle]:
    """Keras' Conv1D: each expands its rows to an image and squeezes it again."""
    x = net.input((1, 128, 6), "signal")
    for filters in (16, 24, 32):
        x = net.squeeze(net.conv2d(net.expand_dims(x, 1), filters, (1, 5), strides=(1, 2), activation="RELU"), 1)
    return [net.fully_connected(net.flatten(x), 6)]


def _activity(net: NetworkBuilder) -> list[TensorHandle]:
    """The activity of a body by its sensors: Keras' Conv1D, MaxPooling1D, Flatten and Dense with a softmax."""
    x = net.input((1, 128, 9), "sensors")
    for _ in range(2):
        x = net.squeeze(net.conv2d(net.expand_dims(x, 1), 32, (1, 3), activation="RELU"), 1)
    x = net.squeeze(net.max_pool(net.expand_dims(x, 2), (2, 1)), 2)
    return [net.softmax(net.fully_connected(net.flatten(x), 6, spread="LOGITS"))]


def _wavenet(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 1, 96, 4), "signal"), 16, (1, 1))
    sums = []
    for dilation in (1, 2, 4):
        gate = net.logistic(net.conv2d(x, 16, (1, 3), dilation=(1, dilation)))
        y = net.multiply(net.tanh(net.conv2d(x, 16, (1, 3), dilation=(1, dilation))), gate)
        sums.append(net.conv2d(y, 16, (1, 1)))
        x = net.add(x, sums[-1])
    return [net.conv2d(net.add(net.add(sums[0], sums[1]), sums[2], activation="RELU"), 8, (1, 1))]


def _unrolled_lstm(steps: int, units: int, net: NetworkBuilder) -> list[TensorHandle]:
    """Keras' LSTM with ``unroll``: a fully connected layer for the features and one for the state of every step, each with its weights."""
    frames = net.unpack(net.input((1, steps, 10), "frames"), 1)
    hidden = cell = None
    for frame in frames:
        gates = net.fully_connected(frame, 4 * units)
        if hidden is not None:
            gates = net.add(gates, net.fully_connected(hidden, 4 * units))
        let_in, keep, value, let_out = net.split(gates, 4)
        new = net.multiply(net.logistic(let_in), net.tanh(value))
        cell = new if cell is None else net.add(net.multiply(net.logistic(keep), cell), new)
        hidden = net.multiply(net.logistic(let_out), net.tanh(cell))
    assert hidden is not None  # noqa: S101  # there is at least one step
    return [net.fully_connected(hidden, 8)]


def _unrolled_gru(steps: int, units: int, net: NetworkBuilder) -> list[TensorHandle]:
    """A GRU step by step; the state comes in and goes out, as where an application keeps it."""
    frames, hidden = net.unpack(net.input((1, steps, 12), "frames"), 1), net.input((1, units), "state")
    for frame in frames:
        reset, update = net.split(net.logistic(net.add(net.fully_connected(frame, 2 * units), net.fully_connected(hidden, 2 * units))), 2)
        fresh = net.tanh(net.add(net.fully_connected(frame, units), net.fully_connected(net.multiply(reset, hidden), units)))
        hidden = net.add(fresh, net.multiply(update, net.subtract(hidden, fresh)))
    return [net.fully_connected(hidden, 4), hidden]


def _svdf(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.svdf(net.fully_connected(net.input((1, 40), "frame"), 32, activation="RELU"), 32, 8)
    return [net.fully_connected(net.svdf(x, 24, 6), 4)]


def _conv_lstm(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 32, 32, 1), "spectrogram"), 16, strides=(2, 2), activation="RELU")
    x = net.conv2d(x, 8, strides=(2, 2), activation="RELU")
    return [net.fully_connected(_last(net, net.lstm(net.reshape(x, (1, 8, 64)), 24)), 6)]


def _transformer(net: NetworkBuilder) -> list[TensorHandle]:
    """One head of attention and a feed-forward block over 16 patches."""
    patches = net.conv2d(net.input((1, 32, 32, 3), "image"), 32, (8, 8), strides=(8, 8), padding="VALID")
    query, key, value = (net.reshape(net.conv2d(patches, 32, (1, 1)), (1, 16, 32)) for _ in range(3))
    mixed = net.batch_matmul(net.softmax(net.batch_matmul(query, key, transpose_b=True)), value)
    x = net.add(patches, net.conv2d(net.reshape(mixed, (1, 4, 4, 32)), 32, (1, 1)))
    x = net.add(x, net.conv2d(net.unary("GELU", net.conv2d(x, 64, (1, 1))), 32, (1, 1)))
    return [net.fully_connected(net.mean(x), 10)]


def _raw_sound(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 1, 2000, 1), "samples"), 16, (1, 80), strides=(1, 4), padding="VALID", activation="RELU")
    x = net.max_pool(x, (1, 4), strides=(1, 4))
    x = net.max_pool(net.conv2d(x, 24, (1, 3), activation="RELU"), (1, 4), strides=(1, 4))
    return [net.softmax(net.fully_connected(net.mean(x), 8))]


def _of(name: str, idiom: str, draw: Draw, exception: str = "", *, sampled: bool = False) -> PortfolioNetwork:
    return PortfolioNetwork(name, idiom, draw, exception=exception, group=GROUP, sampled=sampled)


NETWORKS = (
    _of("lstm_short", "an LSTM operator of 8 steps, the last one classified", partial(_keyword_spotter, 8, 10, 32), LSTM, sampled=True),
    _of("lstm_long", "a keyword spotter: an LSTM operator of 49 steps, 1,109 parts", partial(_keyword_spotter, 49, 11, 272), LSTM),
    _of("lstm_unrolled", "Keras' LSTM, unrolled over 6 steps", partial(_unrolled_lstm, 6, 16), sampled=True),
    _of("lstm_unrolled_24", "Keras' LSTM, unrolled over 24 steps", partial(_unrolled_lstm, 24, 16)),
    _of("gru_unrolled", "a GRU over 4 steps whose state the application keeps", partial(_unrolled_gru, 4, 24)),
    _of("conv_lstm", "convolutions, then an LSTM over the rows that they leave", _conv_lstm, LSTM),
    _of("svdf", "two SVDF layers, which keep the features of earlier inferences", _svdf),
    _of("temporal", "temporal convolutional network: causal, dilated, residual", _temporal, sampled=True),
    _of("dilated_by_batch", "dilation through SPACE_TO_BATCH_ND and back", _dilated_by_batch),
    _of("conv1d", "Keras' Conv1D layers of stride 2", _conv1d),
    _of("activity", "Keras' Conv1D classifier of sensors, with its softmax", _activity),
    _of("raw_sound", "M5: samples as they are, a window of 80 and pools of 4, in steps of 4", _raw_sound),
    _of("wavenet", "WaveNet's gated, dilated layers with skips to the end", _wavenet),
    _of("transformer", "a vision transformer's block: attention over 16 patches, GELU", _transformer),
)
