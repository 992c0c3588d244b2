"""The rule by which Vela's Python core is asked, beside the cores themselves."""

from __future__ import annotations

import pytest
from asked_for import load_task

from cascader.ethosu.search.origins import Measure, holds_most_for_copies
from cascader.frontends.vela import legalised
from cascader.frontends.vela.other_core import may_be_better, same_kernels
from npu_model.tflite.model import read_tflite
from npu_testbed.models.sources import load_model


def asked(source: str, *, copies: bool = False) -> bool:
    model = load_model(source).data
    return may_be_better(read_tflite(model), legalised(model).stream, copies=copies)


@pytest.mark.parametrize("name", ["zoo:resnet8", "zoo:ds_cnn", "portfolio:mnist", "portfolio:middle_outputs"])
def test_the_python_core_is_not_asked_for_convolutions_pools_and_sums(name: str) -> None:
    assert not asked(name)


@pytest.mark.parametrize("name", ["portfolio:early_exit", "portfolio:espcn", "portfolio:half_pixel_resize", "portfolio:logistic_at_ends"])
def test_the_python_core_is_asked_for_means_tables_and_bilinear_resizes(name: str) -> None:
    assert asked(name)
    assert load_task(name).others


def test_the_python_core_is_asked_for_leaky_activations_but_behind_a_convolution() -> None:
    assert not asked("portfolio:int16_leaky_relu")
    assert asked("portfolio:leaky_relu_at_ends")


@pytest.mark.parametrize("name", ["portfolio:channels_1", "portfolio:reshaped_in_the_middle"])
def test_the_python_core_is_asked_where_the_other_one_adds_copies(name: str) -> None:
    assert asked(name)


@pytest.mark.parametrize("name", ["portfolio:gru_unrolled", "portfolio:wavenet", "portfolio:scaled_by_its_pool"])
def test_the_python_core_is_not_asked_for_tables_that_the_other_core_fuses(name: str) -> None:
    assert {"LOGISTIC"} <= {one.name for one in read_tflite(load_model(name).data).operators}
    assert not asked(name)


def test_the_python_core_is_asked_for_tables_that_the_other_core_leaves_kernels_of_their_own() -> None:
    assert asked("portfolio:lstm_unrolled")


def test_copies_count_for_a_network_that_no_cascade_makes_smaller() -> None:
    assert not asked("portfolio:concat_columns_at_ends")
    assert asked("portfolio:concat_columns_at_ends", copies=True)


@pytest.mark.parametrize(("name", "copies"), [("portfolio:drawn_7020", True), ("portfolio:svdf", False), ("portfolio:gru_unrolled", False)])
def test_a_network_holds_most_bytes_for_copies_where_a_piece_of_a_joined_tensor_is_made(name: str, *, copies: bool) -> None:
    assert holds_most_for_copies(load_task(name).network) == copies


@pytest.mark.parametrize(("name", "may"), [("portfolio:cpu_first", False), ("portfolio:autoencoder", True)])
def test_the_python_core_is_asked_only_where_other_kernels_take_cycles_to_save(name: str, *, may: bool) -> None:
    task = load_task(name)
    measure = Measure(task.accelerator, task.system, task.provenance.timing, task.replay)
    assert asked(name)
    assert measure.may_gain(task.network, same_kernels(read_tflite(load_model(name).data))) == may


def test_a_table_and_the_kernel_before_it_are_not_the_same_by_both_cores() -> None:
    is_same = same_kernels(read_tflite(load_model("portfolio:autoencoder").data))
    kernels = load_task("portfolio:autoencoder").network.kernels.values()
    assert {kernel.layer for kernel in kernels if not is_same(kernel)} == {"conv2d_3", "logistic_1"}
