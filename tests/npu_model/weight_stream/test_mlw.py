"""The decoder of weight streams against Vela's codec, a bit-by-bit twin, real networks and damage."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from few_examples import few, few_cases
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_mlw import DamagedError, Reader, naive_decode, read_slice
from naive_mlw import Decoded as NaiveDecoded
from reference_data import shared_data
from test_weights import weight_streams

from npu_model.compiled.network import read_compiled
from npu_model.errors import InputError
from npu_model.weight_stream.mlw import Slice, _slices, decode

pytestmark = pytest.mark.law

END = b"\xff" * 16
KINDS = np.concatenate([np.repeat([3, -7, 0], 60), np.arange(-255, 256, 3), np.zeros(90, int), np.tile([0, 0, 0, 0, 0, 1, -1], 30)])
"""Weights whose stream has slices of several codings."""


def vela_codec() -> ModuleType:
    return pytest.importorskip("ethosu.mlw_codec", reason="this Vela has no weight codec to compare with")


def encode(weights: np.ndarray) -> bytes:
    return bytes(vela_codec().encode([int(w) for w in weights]))


def codec(stream: bytes) -> np.ndarray:
    return np.array(vela_codec().decode(bytearray(stream)), np.int16)


def write_bits(*fields: tuple[int, int]) -> list[int]:
    return [value >> i & 1 for value, width in fields for i in range(width)]


def pack(bits: list[int]) -> bytes:
    """Bits with an end mark, filled up with ones."""
    bits = [*bits, 1, 1, 1]
    return bytes(np.packbits(np.array(bits + [1] * (-len(bits) % 8), np.uint8), bitorder="little"))


BAD_HEADERS = [
    (write_bits((4, 3), (9, 15), (0, 3), (0, 1), (1, 1)), "zero runs by code 4"),
    (write_bits((5, 3), (9, 15), (0, 3), (0, 1), (1, 1)), "zero runs by code 5"),
    (write_bits((6, 3), (9, 15), (6, 3), (0, 1), (1, 1)), "weights by code 6"),
    (write_bits((6, 3), (9, 15), (0, 3), (0, 1), (0, 1)), "first of its stream but has no palette"),
    (write_bits((6, 3), (0, 15), (5, 3), (0, 1), (1, 1), (0, 5), (0, 5), (0, 3), (4095, 12), (4095, 12)), "magnitude 384"),
]


@st.composite
def weight_lists(draw: st.DrawFn) -> np.ndarray:
    """Weights as layers have them: even or peaked, sparse, of few values, constant, in pieces of different kinds."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    pieces = []
    for _ in range(draw(st.integers(1, 3))):
        size, largest = draw(st.integers(1, 1500)), draw(st.integers(0, 255))
        values = {
            "even": lambda n, k: rng.integers(-k, k + 1, n),
            "peaked": lambda n, k: np.clip(rng.laplace(0, k / 8 + 0.1, n), -255, 255).astype(int),
            "few": lambda n, k: rng.choice(rng.integers(-k, k + 1, 1 + k % 40), n),
            "constant": np.full,
        }[draw(st.sampled_from(["even", "peaked", "few", "constant"]))](size, largest)
        pieces.append(values * (rng.random(size) >= draw(st.sampled_from([0.0, 0.0, 0.3, 0.9, 0.99]))))
    return np.concatenate(pieces).astype(np.int16)


def slices(stream: bytes) -> tuple[Slice, ...]:
    return tuple(part.span for part in _slices(stream))


def assert_like_the_twin(stream: bytes, limit: int = 1 << 20) -> bool:
    """Whether the stream decodes to ``limit`` symbols or less; both decoders must agree on that, on symbols and slices."""
    try:
        twin = naive_decode(stream, limit)
    except DamagedError:
        with pytest.raises(InputError) as refused:
            decode(stream, limit)
        assert "\n" not in str(refused.value)
        assert str(refused.value).endswith("compile the network again.")
        return False
    assert decode(stream, limit).tolist() == twin.symbols
    assert len(twin.symbols) <= 64 * len(stream)
    assert [(s.first, s.count, s.start, s.end) for s in slices(stream)] == twin.slices
    return True


@settings(max_examples=few(150), deadline=None)
@given(weight_lists())
def test_a_stream_decodes_to_the_weights_that_were_encoded(weights: np.ndarray) -> None:
    stream = encode(weights)
    assert np.array_equal(decode(stream), weights)
    assert np.array_equal(codec(stream), weights)


@settings(max_examples=40, deadline=None)
@given(weight_lists())
def test_symbols_and_the_bits_they_need_are_those_of_a_bit_by_bit_decoder(weights: np.ndarray) -> None:
    assert assert_like_the_twin(encode(weights))


@pytest.mark.parametrize("size", range(1, 41))
def test_a_palette_of_every_size_decodes(size: int) -> None:
    rng = np.random.default_rng(size)
    values = rng.choice(np.arange(-255, 256), size, replace=False)
    weights = values[np.arange(4 * size + 300) % size].astype(np.int16)
    rng.shuffle(weights)
    assert np.array_equal(decode(encode(weights)), weights)


@pytest.mark.parametrize("spread", [0, 1, 4, 12, 60, 400])
@pytest.mark.parametrize("zeros", [0.0, 0.5, 0.97])
def test_a_large_layer_of_many_slices_decodes(spread: int, zeros: float) -> None:
    rng = np.random.default_rng(spread)
    weights = (np.clip(rng.normal(0, spread, 120_000), -255, 255) * (rng.random(120_000) >= zeros)).astype(np.int16)
    stream = encode(weights)
    assert np.array_equal(decode(stream), weights)
    parts = slices(stream)
    assert [part.first for part in parts] == [0, *np.cumsum([part.count for part in parts])[:-1]]
    assert all(before.end == after.start for before, after in itertools.pairwise(parts))


@pytest.mark.parametrize("runs", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("division", [0, 1, 2, 3, 4, 5, 7])
def test_slices_of_every_coding_decode_whether_or_not_an_encoder_writes_them(runs: int, division: int) -> None:
    rng = np.random.default_rng(10 * runs + division)
    for truncated, size, width in itertools.product([0, 1], [0, 1, 2, 5, 31], [0, 3, 6]):
        bits: list[int] = []
        palette = None
        for new in (1, 0, 1):
            header = [(runs, 3), (int(rng.integers(0, 60)), 15), (division, 3), (truncated, 1), (new, 1)]
            if new:
                header += [(int(rng.integers(0, 32)), 5), (size, 5), (width, 3)]
            body = [*write_bits(*header), *rng.integers(0, 2, 6000).tolist()]
            reader = Reader(pack(body), 3)
            palette = read_slice(reader, runs, palette, NaiveDecoded())
            bits += body[: reader.at]
        assert assert_like_the_twin(pack(bits))


def assert_like_the_codec(file: bytes) -> None:
    streams = {stream for program in read_compiled(file).programs for _, stream in weight_streams(program)}
    assert streams
    for stream in streams:
        assert np.array_equal(decode(stream), codec(stream))


@pytest.mark.parametrize(("name", "macs"), few_cases(["kws_micronet_m", "rnnoise_INT8", "yolo-fastest_192_face_v4"], [32, 64, 128, 256]))
def test_every_weight_stream_of_a_measured_network_decodes_as_vela_decodes_it(name: str, macs: int) -> None:
    assert_like_the_codec((shared_data() / "fvp" / "streams" / f"{name}.ethos-u55-{macs}.vela500.tflite").read_bytes())


@pytest.mark.parametrize("core", [[], ["--debug-force-legacy-core"]], ids=["regor", "legacy"])
@pytest.mark.parametrize("device", ["ethos-u55-32", "ethos-u55-128"])
def test_every_weight_stream_of_both_cores_of_this_vela_decodes_as_vela_decodes_it(device: str, core: list[str], tmp_path: Path) -> None:
    pytest.importorskip("ethosu.vela", reason="Vela (ethos-u-vela) is not installed")
    model = shared_data() / "models" / "resnet8_i8.tflite"
    command = [sys.executable, "-m", "ethosu.vela", str(model), "--accelerator-config", device, "--output-dir", str(tmp_path), *core]
    subprocess.run(command, check=True, capture_output=True)
    assert_like_the_codec((tmp_path / "resnet8_i8_vela.tflite").read_bytes())


def test_two_streams_in_a_row_decode_to_both_and_end_marks_decode_to_nothing() -> None:
    first, second = encode(np.arange(9)), encode(np.full(50, -3))
    assert decode(first + second + END).tolist() == [*range(9), *[-3] * 50]
    assert decode(END).size == 0
    assert slices(END) == ()


def damaged_streams(seed: int, count: int) -> Iterator[bytes]:
    """Small streams with flipped bits, overwritten, removed or doubled bytes."""
    rng = np.random.default_rng(seed)
    originals = [encode(KINDS), encode(KINDS[150:300]), encode(np.full(400, 9)), encode(rng.integers(-20, 21, 300))]
    for i in range(count):
        stream = bytearray(originals[i % len(originals)])
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(0, len(stream)))
            match int(rng.integers(0, 4)):
                case 0:
                    stream[at] ^= 1 << int(rng.integers(0, 8))
                case 1:
                    stream[at] = int(rng.integers(0, 256))
                case 2:
                    del stream[at]
                case _:
                    stream[at:at] = stream[at : at + int(rng.integers(1, 9))]
        yield bytes(stream)


def test_a_damaged_stream_is_refused_or_decodes_as_a_bit_by_bit_decoder_reads_it() -> None:
    outcomes = [assert_like_the_twin(stream, 20_000) for stream in damaged_streams(1, 1500)]
    assert outcomes.count(True) > 100
    assert outcomes.count(False) > 100


def test_a_stream_that_is_cut_off_anywhere_is_refused() -> None:
    stream = encode(KINDS)
    end = slices(stream)[-1].end
    assert decode(stream[: (end + 3 + 7) // 8]).size == KINDS.size
    for length in range((end + 3) // 8):
        with pytest.raises(InputError, match="cut off or damaged"):
            decode(stream[:length])


def test_random_bytes_are_refused_or_decode_as_a_bit_by_bit_decoder_reads_them() -> None:
    rng = np.random.default_rng(2)
    for _ in range(2000):
        assert_like_the_twin(rng.bytes(int(rng.integers(0, 60))) + END, 2000)


def test_no_byte_holds_more_than_sixty_four_symbols_and_a_limit_is_kept() -> None:
    ones = 80_000
    header = write_bits((3, 3), (0, 15), (0, 3), (0, 1), (1, 1), (0, 5), (0, 5), (0, 3))
    unary = [*write_bits((0, 12)), *[1] * ones, *write_bits((0, 8)), *write_bits((7, 3), (7, 3))]
    stream = pack(header + unary)
    assert assert_like_the_twin(stream)
    symbols = decode(stream)
    assert 8 * ones <= symbols.size <= 64 * len(stream)
    assert np.array_equal(decode(stream, symbols.size), symbols)
    with pytest.raises(InputError, match=f"{symbols.size} or more weights: {symbols.size - 1} are needed"):
        decode(stream, symbols.size - 1)


def test_a_weight_costs_a_bit_or_more() -> None:
    weights = np.full(100_000, -5)
    assert 100_000 / 8 < len(encode(weights)) < 105_000 / 8


@pytest.mark.parametrize(("bits", "message"), BAD_HEADERS)
def test_a_header_that_the_hardware_does_not_know_is_refused(bits: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        decode(pack(bits + [0] * 400))
