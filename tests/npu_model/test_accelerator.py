"""The four Ethos-U55 configurations, against Vela's own tables."""

from __future__ import annotations

from typing import Any

import pytest

from npu_model.accelerator import DEFAULT_ACCELERATOR, Accelerator, accelerator, accelerator_names
from npu_model.errors import InputError
from npu_model.shapes import Shape3D

ACCELERATORS = [accelerator(name) for name in accelerator_names("u55")]
each = pytest.mark.parametrize("device", ACCELERATORS, ids=lambda device: device.name)


def vela_features(device: Accelerator) -> Any:
    features = pytest.importorskip("ethosu.vela.architecture_features", reason="Vela 6 has no Python tables")
    return features.create_default_arch(features.Accelerator(device.name))


def shape(block: Any) -> Shape3D:
    return Shape3D(block.height, block.width, block.depth)


def test_there_are_four_configurations_from_32_to_256_macs() -> None:
    assert accelerator_names("u55") == ("ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256")
    assert [device.macs for device in ACCELERATORS] == [32, 64, 128, 256]
    assert accelerator().name == DEFAULT_ACCELERATOR == "ethos-u55-128"


@each
def test_a_cycle_does_an_eight_deep_dot_product_for_every_element_of_the_ofm_ublock(device: Accelerator) -> None:
    assert device.macs == device.ofm_ublock.elements * 8


@each
def test_ublocks_and_block_limits_are_velas(device: Accelerator) -> None:
    vela = vela_features(device)
    assert device.cores == vela.ncores
    assert device.macs == vela.num_macs_per_cycle
    assert device.ofm_ublock == shape(vela.ofm_ublock)
    assert device.ifm_ublock == shape(vela.ifm_ublock)
    assert device.max_block == shape(vela.ofm_block_max)
    assert device.ofm_split_depth == vela.OFMSplitDepth
    assert device.elementwise_units == vela.num_elem_wise_units


@each
def test_shram_is_velas(device: Accelerator) -> None:
    vela = vela_features(device)
    assert device.shram_banks == vela.shram.total_banks
    assert device.reserved_output_banks == vela.shram.reserved_output_banks
    assert device.reserved_lut_banks == vela.shram.reserved_end_banks
    assert device.lut_banks * vela.shram_bank_size == vela.shram_lut_size
    assert device.lut_address == vela.shram_lut_address


@each
def test_the_lut_lies_in_the_last_banks(device: Accelerator) -> None:
    assert device.lut_address == (device.shram_banks - device.lut_banks) * 1024


@each
def test_bank_granules_are_velas(device: Accelerator) -> None:
    granules = device.granules
    ours = [
        granules.ifm8,
        granules.ifm16,
        granules.ifm8_ew,
        granules.ifm16_ew,
        granules.ifm32,
        granules.acc16,
        granules.acc32,
        granules.acc40,
    ]
    assert ours == list(vela_features(device).shram_bank_granules)


@each
def test_output_cycles_are_velas_with_the_two_32_bit_columns_in_the_compilers_order(device: Accelerator) -> None:
    vela, rates = vela_features(device), device.output
    table = [rates.unary32, rates.binary32, rates.mul32, rates.mul, rates.simple_add, rates.scaled_add, rates.max_pool, rates.other]
    assert [float(rate) for rate in table] == list(vela.output_cycles_per_elem)
    assert rates.acc40 == rates.mul  # one column serves both
    assert (float(rates.lut), float(rates.relu)) == vela.activation_cycles_per_elem[:2]


@each
def test_queues_and_ports_are_velas(device: Accelerator) -> None:
    vela = vela_features(device)
    assert device.max_outstanding_kernels == vela.max_outstanding_kernels
    assert device.max_outstanding_dma == vela.max_outstanding_dma
    sram = type(vela.axi0_port).Sram
    assert device.port_bytes_per_cycle == vela.memory_bandwidths_per_cycle[sram] / vela.memory_clock_scales[sram]


def test_an_unknown_accelerator_is_refused_with_the_choices() -> None:
    with pytest.raises(InputError, match="'ethos-u85-64' is unknown: choose one of ethos-u55-32"):
        accelerator("ethos-u85-64")
