"""The encoder of weight streams against Vela's codec, byte for byte, and against the decoder."""

from __future__ import annotations

import threading
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_model.accelerator import Accelerator, accelerator, accelerator_names
from npu_model.native import native
from npu_model.weight_stream import weights as coding
from npu_model.weight_stream.order import WeightFormat, hardware_order
from npu_model.weight_stream.weights import MAX_WEIGHT, decode_stream

pytestmark = [pytest.mark.law, pytest.mark.skipif(native("npu_model") is None, reason="the compiled core is not built")]

DEVICE = accelerator("ethos-u55-128")
DEVICES = [device for name in accelerator_names("u55") if (device := accelerator(name)).cores == 1]
POINTWISE = WeightFormat(16)


def encoded(weights: np.ndarray, layout: WeightFormat, device: Accelerator) -> bytes:
    return coding._encoded(weights.tobytes(), weights.shape, layout, device)


def core() -> Any:
    return native("npu_model")


def by_vela(weights: np.ndarray, layout: WeightFormat, device: Accelerator) -> bytes:
    pytest.importorskip("ethosu.mlw_codec", reason="this Vela has no weight codec to compare with")
    with patch.object(coding, "_NATIVE", None):
        return encoded(weights, layout, device)


def drawn_piece(rng: np.random.Generator, kind: str, size: int, largest: int) -> np.ndarray:
    if kind == "peaked":
        return np.clip(rng.laplace(0, largest / 8 + 0.1, size), -MAX_WEIGHT, MAX_WEIGHT).astype(int)
    if kind == "few":
        return rng.choice(rng.integers(-largest, largest + 1, 1 + largest % 40), size)
    if kind == "runs":
        return np.repeat(rng.integers(-largest, largest + 1, size // 50 + 1), 50)[:size]
    return np.full(size, largest) if kind == "constant" else rng.integers(-largest, largest + 1, size)


@st.composite
def layers(draw: st.DrawFn) -> tuple[np.ndarray, WeightFormat, Accelerator]:
    """Weights whose stream has several sections: each channel's piece is of another kind, some sparse; in any order of any device."""
    device, kind = draw(st.sampled_from(DEVICES)), draw(st.sampled_from(["depth-first", "part-kernel", "depthwise"]))
    window = draw(st.sampled_from([(1, 1), (3, 3), (1, 9), (10, 9)]))
    layout = WeightFormat(
        block_depth=16 * draw(st.integers(1, 5)),
        depthwise=kind == "depthwise",
        part_kernel=kind == "part-kernel",
        ifm_bits=draw(st.sampled_from([8, 16])),
        dilation_y=draw(st.integers(1, 2)),
        dilation_x=draw(st.integers(1, 2)),
        decompose=draw(st.booleans()),
    )
    shape = draw(st.integers(1, 90)), *window, 1 if kind == "depthwise" else draw(st.integers(1, 70))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    size = int(np.prod(shape))
    cuts = sorted(rng.integers(0, size, draw(st.integers(0, 5))).tolist())
    pieces = []
    for first, last in zip([0, *cuts], [*cuts, size], strict=True):
        values = drawn_piece(
            rng, draw(st.sampled_from(["even", "peaked", "few", "constant", "runs"])), last - first, draw(st.integers(0, 255))
        )
        pieces.append(values * (rng.random(last - first) >= draw(st.sampled_from([0.0, 0.0, 0.3, 0.8, 0.99]))))
    return np.concatenate(pieces).astype(np.int16).reshape(shape), layout, device


@settings(max_examples=150, deadline=None)
@given(layers())
def test_a_stream_is_that_of_velas_codec_and_decodes_to_its_weights(case: tuple[np.ndarray, WeightFormat, Accelerator]) -> None:
    weights, layout, device = case
    stream = encoded(weights, layout, device)
    assert stream == by_vela(weights, layout, device)
    assert np.array_equal(decode_stream(stream), hardware_order(weights, layout, device))
    assert core().decode_plain(stream, coding._terms(weights.shape, layout, device)) == weights.tobytes()


@pytest.mark.parametrize("zeros", [1, 31, 32, 33, 40_000, 300_000])
@pytest.mark.parametrize("others", [(), (255, -255), tuple(range(-20, 21))])
def test_long_runs_of_zeros_are_coded_as_velas_codec_codes_them(zeros: int, others: tuple[int, ...]) -> None:
    """A run may be longer than a slice, a section may hold nothing else, and behind 32 weights a palette is thought of at each zero."""
    values = np.concatenate([np.zeros(zeros, int), np.tile(others, 40), np.zeros(zeros, int), np.tile(others, 3)]).astype(np.int16)
    weights = np.resize(values, (16, 1, 1, -(-values.size // 16)))
    weights.reshape(-1)[values.size :] = 0
    assert encoded(weights, POINTWISE, DEVICE) == by_vela(weights, POINTWISE, DEVICE)


@pytest.mark.parametrize("size", [1, 2, 3, 31, 32, 33, 34, 100, 511])
def test_a_palette_of_every_size_is_velas(size: int) -> None:
    rng = np.random.default_rng(size)
    values = rng.choice(np.arange(-255, 256), size, replace=False)
    weights = rng.permutation(values[np.arange(16 * 200) % size]).astype(np.int16).reshape(16, 1, 1, 200)
    assert encoded(weights, POINTWISE, DEVICE) == by_vela(weights, POINTWISE, DEVICE)


def test_other_threads_run_while_weights_are_coded() -> None:
    weights = np.random.default_rng(0).integers(-127, 128, (256, 1, 1, 4096)).astype(np.int16)
    coded, steps = threading.Event(), []

    def code() -> None:
        encoded(weights, POINTWISE, DEVICE)
        coded.set()

    thread = threading.Thread(target=code)
    thread.start()
    while not coded.wait(0.001):
        steps.append(0)
    thread.join()
    assert len(steps) > 3


TERMS = np.array([1, 1, 1, 8, 8, 8, 8, 32, 1, 8, 8, 0], np.int64)
"""The order of eight weights of one channel."""


def test_a_core_refuses_weights_that_their_order_does_not_describe() -> None:
    assert decode_stream(core().encode_weights(np.arange(8, dtype=np.int16).tobytes(), TERMS))[:8].tolist() == list(range(8))
    with pytest.raises(ValueError, match="not those"):
        core().encode_weights(np.arange(9, dtype=np.int16).tobytes(), TERMS)
    with pytest.raises(ValueError, match="not those"):
        core().encode_weights(np.arange(8, dtype=np.int16).tobytes(), TERMS * 0)
    with pytest.raises(ValueError, match="not those"):
        core().decode_plain(bytes(16), TERMS[:-1])


def test_a_stream_of_more_or_fewer_weights_than_its_order_takes_is_none_to_the_core() -> None:
    stream = core().encode_weights(np.arange(8, dtype=np.int16).tobytes(), TERMS)
    assert core().decode_plain(stream, TERMS) == np.arange(8, dtype=np.int16).tobytes()
    for depth in (9, 40):
        larger = TERMS.copy()
        larger[0] = depth
        assert core().decode_plain(stream, larger) is None
    assert core().decode_plain(core().encode_weights(bytes(16 * 40), larger), TERMS) is None
    assert core().decode_plain(stream[:8] + bytes(8), TERMS) is None
