"""``--version``, ``--list-configs`` (names that options take), ``--supported-ops-report`` (what the NPU runs)."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

SHIPPED = "Arm/vela.ini"
"""The configuration file that Vela comes with, as --config takes it."""


def _text() -> str:
    from npu_model.accelerator import accelerator_names
    from npu_model.memory.timing_adapter import profile_names
    from npu_model.memory.vela_ini import config_names
    from npu_testbed.devices.configs import vela_ini_text

    systems, modes = config_names(vela_ini_text())
    rows = {
        "--accelerator-config": list(accelerator_names()),
        "--timing-adapter": list(profile_names()),
        "--config": [SHIPPED],
        "--system-config": list(systems),
        "--memory-mode": list(modes),
    }
    return "\n".join(line for title, names in rows.items() for line in (f"{title}:", *(f"  {name}" for name in names)))


class Version(argparse.Action):
    """Prints our version and the compiled cores that run, and ends."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(nargs=0, default=argparse.SUPPRESS, **settings)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print and end."""
        from npu_model.native import cores_text
        from npu_model.version import VERSION

        print(f"npu-testbed {VERSION}\n{cores_text()}")
        parser.exit()


class ListConfigs(argparse.Action):
    """Prints the names and ends, as ``--version`` does."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(nargs=0, default=argparse.SUPPRESS, **settings)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print and end."""
        print(_text())
        parser.exit()


class ListChips(argparse.Action):
    """Prints the chips that ``--chip`` takes and ends, as ``--version`` does."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(nargs=0, default=argparse.SUPPRESS, **settings)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print and end."""
        from npu_testbed.devices.chips import chips_text

        print(chips_text())
        parser.exit()


REPORT = "SUPPORTED_OPS.md"
"""Vela's name of the report, in the working directory."""


class SupportedOpsReport(argparse.Action):
    """Writes the report and ends, as Vela does."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(nargs=0, default=argparse.SUPPRESS, **settings)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Write, say where, and end."""
        from npu_testbed.ground.files import write_file
        from npu_testbed.reports.supported_ops import supported_ops_page

        path = Path.cwd() / REPORT
        write_file(path, supported_ops_page().encode("utf-8"))
        print(f"Report file: {path}")
        parser.exit()


class ListConfigFiles(argparse.Action):
    """Prints the configuration file that Vela comes with, as Vela does, and ends."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(nargs=0, default=argparse.SUPPRESS, **settings)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print and end."""
        print(SHIPPED)
        parser.exit()


class ListConfigsOf(argparse.Action):
    """Prints the system configs and the memory modes of a configuration file, as Vela does, and ends."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(metavar="INI", default=argparse.SUPPRESS, **settings)

    def __call__(self, parser: argparse.ArgumentParser, _: Any, values: Any, *__: Any) -> None:
        """Print and end."""
        from npu_model.memory.vela_ini import config_names
        from npu_testbed.devices.configs import configuration_file
        from validation.reading import read_configuration

        systems, modes = config_names(read_configuration(configuration_file(Path(values)), "Configuration file"))
        print("\n".join(["--system-config:", *(f"  {name}" for name in systems), "--memory-mode:", *(f"  {name}" for name in modes)]))
        parser.exit()
