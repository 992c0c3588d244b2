"""Places of constants in their bursts: the same kernels on the same bytes, and fewer cycles where layers wait for their weights."""

from __future__ import annotations

from pathlib import Path

from asked_for import load_task, of_bytes, system_said
from form_variants import variants
from msgspec.structs import replace

from cascader import frontier
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.forms.constant_places import MOST_BYTES, best_places, may_gain, with_places, with_streams_moved
from cascader.ethosu.network.network import Network, ethosu_part
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import import_network
from npu_model.compiled.network import CompiledNetwork
from npu_model.program import ByteRange
from npu_testbed.proofs.file_verification import verify
from npu_testbed.proofs.verification import LITERT
from npu_testbed.replays.scheduling import write_schedule
from sim import quick_cycles
from validation.litert.judge import litert_installed
from validation.portfolio import build

DEVICE = "ethos-u55-256"
DENSE = "gru_unrolled"
"""A recurrent network of fully connected layers."""


def network(name: str) -> Network:
    return import_network(build(name), DEVICE)


def lowered(form: Network) -> CompiledNetwork:
    return lower(schedule_layer_by_layer(form, DEVICE))


def replayed(network: CompiledNetwork) -> int:
    return quick_cycles(network, system_said())


def cycles(form: Network) -> int:
    return replayed(lowered(form))


def streams(form: Network) -> list[tuple[bytes, ...]]:
    """The bytes of the constants that the kernels read."""
    payloads = [payload for part in form.graph.parts if (payload := ethosu_part(part)) is not None]
    spans = [(*payload.operation.scales, *payload.operation.weights) for payload in payloads]
    return [tuple(form.constants[span.start : span.end] for span in some) for some in spans]


def test_small_dense_layers_take_one_per_cent_less_where_their_weights_lie_well() -> None:
    plain = network(DENSE)
    best = best_places(plain, 64, lowered, replayed)
    assert best is not None
    assert cycles(best) <= 0.99 * cycles(plain)
    assert len(best.constants) <= len(plain.constants) + 64 * len({*streams(plain)})
    assert streams(best) == streams(plain)


def test_weights_begin_where_they_are_asked_to_and_equal_ones_are_stored_once() -> None:
    plain = network("gru_unrolled")
    payloads = [payload for part in plain.graph.parts if (payload := ethosu_part(part)) is not None]
    keys = {key for p in payloads if (key := (*p.operation.scales, *p.operation.weights))}
    form = with_places(plain, dict.fromkeys(sorted(keys, key=lambda key: key[0].start), 32), 64)
    placed = [payload.operation for part in form.graph.parts if (payload := ethosu_part(part)) is not None]
    assert {operation.weights[0].start % 64 for operation in placed if operation.weights} == {32}
    assert streams(form) == streams(plain)
    assert len(form.constants) <= len(plain.constants) + 64 * len(keys)


def test_a_lowered_network_with_its_streams_moved_is_the_one_that_is_lowered_from_the_moved_streams() -> None:
    plain = network(DENSE)
    keys = {key for p in plain.kernels.values() if (key := (*p.operation.scales, *p.operation.weights))}
    first = dict.fromkeys(sorted(keys, key=lambda key: key[0].start), 0)
    second = {key: 16 * (number % 4) for number, key in enumerate(first)}
    before, after = (with_places(plain, places, 64) for places in (first, second))
    assert before.constants != after.constants

    def spans(form: Network) -> list[tuple[ByteRange, ...]]:
        return [(*kernel.operation.scales, *kernel.operation.weights) for kernel in form.kernels.values()]

    moved = {one: other for one, other in zip(spans(before), spans(after), strict=True) if one}
    assert with_streams_moved(lowered(before), moved, after.constants) == lowered(after)


def test_networks_of_many_layers_or_bytes_are_left_alone() -> None:
    assert not may_gain(network("lstm_unrolled_24"))
    few = network(DENSE)
    assert [may_gain(replace(few, constants=bytes(size))) for size in (MOST_BYTES, MOST_BYTES + 1)] == [True, False]
    images = load_task("portfolio:mnist", DEVICE)
    assert len(images.variants()) == len(variants(images.network, DEVICE, images.system))


def test_a_search_has_the_fastest_form_with_better_places_too_and_that_computes_the_network(tmp_path: Path) -> None:
    task = load_task(f"portfolio:{DENSE}", DEVICE)
    forms = task.variants()
    assert len(forms) == len(variants(task.network, DEVICE, task.system)) + 1
    assert min(cycles(form.network) for form in forms[:-1]) * 0.99 >= cycles(forms[-1].network)
    write_schedule(schedule_layer_by_layer(forms[-1].network, DEVICE, provenance=forms[-1].provenance), tmp_path / "placed.json")
    assert verify(tmp_path / "placed.json", inferences=2).equal_to(LITERT) or not litert_installed()


def test_no_network_takes_longer_than_layer_by_layer_in_the_blocks_and_places_that_are_best_so() -> None:
    """With the table of TANH copied earlier, as a search would have it, the first layer's weights come 70 cycles later."""
    task = load_task("portfolio:drawn_1004", DEVICE)
    found = frontier(of_bytes(task.network, DEVICE, task.system), quick_cycles)
    assert found.points[-1].cycles <= min(cycles(form.network) for form in task.variants())
