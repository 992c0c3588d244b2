from __future__ import annotations

import pytest
from msgspec.structs import replace
from reference_data import shared_data

from npu_model.errors import InputError
from npu_testbed.comparisons.beside_vela import BesideVela
from npu_testbed.devices.configs import load_memory_system
from npu_testbed.outcomes.validation import ValidateVelaOutcome
from validation.vela.replays import SramVerdict, VelaScore, passed, render, score_vela, sram_verdict

SCORE = VelaScore("n", "ethos-u55-128", "Size", 1024, 1024, 1024, 900, SramVerdict.EQUAL, 1000, 1100, 0)


@pytest.mark.parametrize("optimise", ["Size", "Performance"])
@pytest.mark.parametrize("network", ["ds_cnn_kws_i8", "resnet8_i8", "rnnoise_INT8"])
def test_the_replay_touches_exactly_the_sram_that_vela_says(network: str, optimise: str) -> None:
    model = (shared_data() / "models" / f"{network}.tflite").read_bytes()
    score = score_vela(network, model, load_memory_system(), optimise=optimise)
    assert score.verdict is SramVerdict.EQUAL
    assert score.peak == score.vela_sram == score.arena
    assert score.live_peak <= score.peak
    assert score.cpu_operators == 0
    assert abs(score.estimate_error) < 0.5


def test_padding_at_the_end_of_the_arena_is_told_from_a_difference() -> None:
    model = (shared_data() / "models" / "yolo_fastest_192_face_i8.tflite").read_bytes()
    score = score_vela("yolo", model, load_memory_system(), cpu_operators=("ADD", "PAD"))
    assert score.cpu_operators > 0
    assert 0 < score.vela_sram - score.peak < 16
    assert score.verdict is SramVerdict.PADDING
    assert score.passed


@pytest.mark.parametrize(
    ("vela_sram", "peak", "cpu_extent", "arena", "verdict"),
    [
        (1024, 1024, 2048, 4096, SramVerdict.EQUAL),
        (1024, 1009, 0, 1024, SramVerdict.PADDING),
        (1024, 1008, 0, 1008, SramVerdict.UNEXPLAINED),
        (2048, 1000, 2040, 1008, SramVerdict.CPU_TENSORS),
        (2048, 1000, 1016, 2048, SramVerdict.UNTOUCHED),
        (1000, 1024, 0, 1024, SramVerdict.UNEXPLAINED),
        (1024, 4096, 0, 1024, SramVerdict.UNEXPLAINED),
    ],
)
def test_a_difference_is_explained_only_by_what_gives_velas_figure_exactly(
    vela_sram: int, peak: int, cpu_extent: int, arena: int, verdict: SramVerdict
) -> None:
    assert sram_verdict(vela_sram, peak, cpu_extent, arena) is verdict


def test_an_unexplained_difference_fails_and_is_shown() -> None:
    odd = replace(SCORE, vela_sram=1000, verdict=SramVerdict.UNEXPLAINED)
    assert passed([SCORE])
    assert not passed([SCORE, odd])
    assert not passed([])
    (table,) = render([SCORE, odd])
    assert table.rows[1][6] == "UNEXPLAINED"
    assert "1 of 2 peaks equal Vela's figure, 1 differ without an explanation." in table.text()
    document = ValidateVelaOutcome(BesideVela((SCORE, odd))).document()
    assert document.passed is False
    assert document.networks[1].verdict == "UNEXPLAINED"
    assert document.networks[0].estimate_error == pytest.approx(0.1)


def test_a_file_that_is_no_network_is_one_sentence() -> None:
    with pytest.raises(InputError, match=r"not a \.tflite model"):
        score_vela("x", b"nothing", load_memory_system())
