"""The backend as MLIA registers it, with the options that its command line gets."""

from __future__ import annotations

from typing import Any

import click
from mlia.backend.config import BackendConfiguration, BackendType
from mlia.core.common import AdviceCategory
from mlia.plugins.plugins import BackendPlugin

from npu_testbed_mlia import NAME

SCHEDULERS = ("vela", "cascader")

OPTIONS = {
    "scheduler": click.Option(
        ["--scheduler"],
        type=click.Choice(SCHEDULERS),
        help="whose schedule is replayed: Vela's (default) or that of npu-testbed's cascader",
    ),
    "arena_cache_size": click.Option(["--arena-cache-size"], type=click.IntRange(1), metavar="BYTES", help="bound for the arena"),
    "optimise": click.Option(["--optimise"], type=click.Choice(["Performance", "Size"]), help="strategy of the scheduler"),
    "timing_adapter": click.Option(["--timing-adapter"], metavar="NAME|FILE", help="timing adapter that throttles the memories"),
    "config": click.Option(["--config"], metavar="INI", help="Vela's configuration file with the memory system"),
    "system_config": click.Option(["--system-config"], metavar="NAME", help="system config of Vela's configuration"),
    "memory_mode": click.Option(["--memory-mode"], metavar="NAME", help="memory mode of Vela's configuration"),
}
"""Options of ``mlia check``, each as ``--npu-testbed.NAME``. But for the first they are those of ``npu-testbed`` itself."""


class NpuTestbedBackend(BackendPlugin):  # type: ignore[misc]  # the package has no types
    """Registers the backend: nothing is to be installed beside this distribution."""

    plugin_interface_version = "0.0.2"

    @staticmethod
    def register(registry: Any) -> None:
        """Register the backend."""
        configuration = BackendConfiguration(
            supported_advice=[AdviceCategory.COMPATIBILITY, AdviceCategory.PERFORMANCE],
            supported_systems=None,
            backend_type=BackendType.BUILTIN,
            installation=None,
            cli_options=OPTIONS,
        )
        registry.register(NAME, configuration, pretty_name="NPU testbed")
