"""Weights of several kernels are coded in two threads, and the forms are those of one thread."""

from __future__ import annotations

import pytest
from asked_for import load_task

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms import threads
from cascader.ethosu.forms.reblock import reblocked, recoded
from cascader.ethosu.forms.slices import sliced
from cascader.ethosu.network.network import Network
from npu_model.accelerator import accelerator
from npu_model.memory.timing_adapter import profile

DEVICE = accelerator("ethos-u55-128")
SYSTEM = profile("u55_high_end").memory_system()


def forms_of(network: Network) -> list[Network]:
    places = Sources.staged(SYSTEM, device=DEVICE), Sources.direct(SYSTEM, device=DEVICE)
    return [recoded(network, DEVICE), reblocked(network, DEVICE, places), sliced(network, DEVICE, 1024, early=True)]


@pytest.mark.parametrize("name", ["zoo:resnet8", "portfolio:mnist"])
def test_two_threads_make_the_forms_of_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = load_task(name, DEVICE.name).network
    monkeypatch.setattr(threads, "MANY_BYTES", 1 << 40)
    alone = forms_of(network)
    monkeypatch.setattr(threads, "MANY_BYTES", 0)
    assert forms_of(network) == alone
    assert any(form is not network for form in alone)
