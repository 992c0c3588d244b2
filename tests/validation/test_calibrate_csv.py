"""A user's measurements: the CSV file, its models and its memories."""

from __future__ import annotations

from pathlib import Path

import pytest
from calibrations import short_measurements
from reference_data import shared_data

from npu_model.compiled.network import read_compiled
from npu_model.errors import InputError
from npu_model.memory.timing_adapter import profile
from npu_model.timing import DEFAULT_TIMING
from validation.calibrate import (
    read_measurements,
)
from validation.calibrate.evaluation import Evaluator

HEADER = "model,NPU_ACTIVE,timing_adapter,AXI0_RD_DATA_BEAT_RECEIVED,network,use,source\n"


def _folder(tmp_path: Path) -> Path:
    stream = shared_data() / "fvp" / "streams" / "rnnoise_INT8.ethos-u55-128.vela500.tflite"
    (tmp_path / "net.tflite").write_bytes(stream.read_bytes())
    return tmp_path


def _csv(folder: Path, text: str) -> Path:
    path = folder / "chip.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_csv_of_a_users_chip_is_read_with_its_models_and_memory_systems(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    lines = "net.tflite,105087,u55_high_end,542,,,board 7\nnet.tflite,19692,off,,denoiser,test,\n"
    first, second = read_measurements(_csv(folder, "\ufeff" + HEADER + lines))
    assert (first.name, first.active, first.calibrates) == ("net ethos-u55-128 u55_high_end", 105087, True)
    assert first.beats == (("AXI0_RD_DATA_BEAT_RECEIVED", 542),)
    assert first.system == profile("u55_high_end").memory_system()
    assert first.programs == read_compiled((folder / "net.tflite").read_bytes()).programs
    assert (second.network, second.calibrates, second.beats) == ("denoiser", False, ())
    reference = next(m for m in short_measurements() if m.name == "rnnoise_INT8 ethos-u55-128 u55_high_end")
    assert first.sha256 == reference.sha256
    assert Evaluator().cycles(first, DEFAULT_TIMING) == Evaluator().cycles(reference, DEFAULT_TIMING)


def test_a_users_chip_may_be_described_by_a_timing_adapter_or_a_vela_ini_file(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    (folder / "slow.toml").write_text(
        "clock_hz = 100000000\nburst_bytes = 64\nshared_data_path = false\n"
        '[memory_mode]\nconst_mem_area = "Axi1"\narena_mem_area = "Axi0"\ncache_mem_area = "Axi0"\n'
        "[sram]\nMAXR = 2\nMAXW = 2\nRLATENCY = 9\nWLATENCY = 9\nPULSE_ON = 1\nPULSE_OFF = 0\nBWCAP = 0\n"
        "[ext]\nMAXR = 2\nMAXW = 0\nRLATENCY = 99\nWLATENCY = 0\nPULSE_ON = 1\nPULSE_OFF = 0\nBWCAP = 0\n",
        encoding="utf-8",
    )
    (folder / "chip.ini").write_text(
        "[System_Config.Ethos_U55_Mine]\ncore_clock=100e6\naxi0_port=Sram\naxi1_port=OffChipFlash\n"
        "Sram_clock_scale=1.0\nSram_burst_length=32\nSram_read_latency=32\nSram_write_latency=32\n"
        "OffChipFlash_clock_scale=0.125\nOffChipFlash_burst_length=128\nOffChipFlash_read_latency=64\nOffChipFlash_write_latency=64\n"
        "[Memory_Mode.Mine]\nconst_mem_area=Axi1\narena_mem_area=Axi0\ncache_mem_area=Axi0\n",
        encoding="utf-8",
    )
    header = "model,NPU_ACTIVE,timing_adapter,config,system_config,memory_mode\n"
    lines = "net.tflite,1000,slow.toml,,,\nnet.tflite,1000,,chip.ini,Ethos_U55_Mine,Mine\n"
    slow, mine = read_measurements(_csv(folder, header + lines))
    assert slow.system.ports[1].read_latency == 99
    assert slow.memory == "slow"
    assert mine.system.clock_hz == 100_000_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has 0 bytes"),
        ("model,NPU_ACTIVE\n", "have 0 lines"),
        ("model,cycles\n", "have no column NPU_ACTIVE"),
        ("model,NPU_ACTIVE,speed\n", "unknown column 'speed'"),
        (HEADER + "net.tflite,12.5,off\n", "Line 2 of chip.csv has NPU_ACTIVE '12.5': a whole number from 1 to"),
        (HEADER + "net.tflite,0,off\n", "NPU_ACTIVE '0'"),
        (HEADER + "net.tflite,,off\n", "NPU_ACTIVE ''"),
        (HEADER + f"net.tflite,{1 << 48},off\n", "a whole number from 1 to 281474976710655"),
        (HEADER + "net.tflite,7,off,-1\n", "AXI0_RD_DATA_BEAT_RECEIVED '-1'"),
        (HEADER + ",7,off\n", "has no model"),
        (HEADER + "absent.tflite,7,off\n", "absent.tflite' cannot be read"),
        (HEADER + "net.tflite,7,\n", "names no memory system"),
        (
            HEADER + "net.tflite,7,fast\n",
            (
                "timing_adapter 'fast': choose off, u55_high_end, u65_high_end, u65_off, u85_sys_dram_high, u85_sys_dram_low, "
                "u85_sys_dram_mid, or give a .toml file"
            ),
        ),
        (HEADER + "net.tflite,7,fast.toml\n", "cannot be read"),
        (HEADER + "chip.csv,7,off\n", ""),
        (HEADER + f"net.tflite,{'9' * 5000},off\n", "a whole number from 1 to"),
        (HEADER + "net.tflite,7,off,,,maybe\n", "has use 'maybe': write calibrate or test"),
        (HEADER + "net.tflite,7,off,,,,,,\n", "more cells than the header"),
        (HEADER + "net.tflite,7,off\nnet.tflite,8,off\n", "'net ethos-u55-128 off' is there twice"),
        ("\0", "have no column model"),
    ],
)
def test_a_wrong_line_of_a_users_csv_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        read_measurements(_csv(_folder(tmp_path), text))
    assert message in str(error.value)
    assert str(error.value).count("\n") == 0
