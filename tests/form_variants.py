"""The forms of a network without their names, in the order in which they are searched."""

from __future__ import annotations

from cascader.ethosu.forms import FormTerms, forms
from cascader.ethosu.network.network import Network
from cascader.ethosu.options import DEFAULT_OPTIONS, CascadeOptions
from npu_model.memory.system import MemorySystem
from npu_model.timing import DEFAULT_TIMING, TimingParameters


def variants(
    network: Network,
    accelerator: str,
    system: MemorySystem,
    options: CascadeOptions = DEFAULT_OPTIONS,
    timing: TimingParameters = DEFAULT_TIMING,
) -> tuple[Network, ...]:
    """All forms of a network."""
    return tuple(form.network for form in forms(network, FormTerms(accelerator, system, options, timing)))
