"""Options that print and end: ``--version``, ``--list-configs`` (names that options take), ``--supported-ops-report``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

SHIPPED = "Arm/vela.ini"
"""The configuration file that Vela comes with, as --config takes it."""


class Print(argparse.Action):
    """Prints a text and ends. The function ``text`` makes the text, from the option's value if the option has a ``metavar``."""

    def __init__(self, *, text: Callable[..., str], metavar: str | None = None, **settings: Any) -> None:
        super().__init__(nargs=None if metavar else 0, metavar=metavar, default=argparse.SUPPRESS, **settings)
        self._text = text

    def __call__(self, parser: argparse.ArgumentParser, _: Any, values: Any, *__: Any) -> None:
        """Print and end."""
        print(self._text(values) if self.metavar else self._text())
        parser.exit()


def version() -> str:
    """Our version and the compiled cores that run."""
    from npu_model.native import cores_text
    from npu_model.version import VERSION

    return f"npu-testbed {VERSION}\n{cores_text()}"


def _named(rows: dict[str, list[str]]) -> str:
    return "\n".join(line for title, names in rows.items() for line in (f"{title}:", *(f"  {name}" for name in names)))


def configs() -> str:
    """The names that options take."""
    from npu_model.accelerator import accelerator_names
    from npu_model.memory.timing_adapter import profile_names
    from npu_model.memory.vela_ini import config_names
    from npu_testbed.devices.configs import vela_ini_text

    systems, modes = config_names(vela_ini_text())
    rows = {"--accelerator-config": list(accelerator_names()), "--timing-adapter": list(profile_names()), "--config": [SHIPPED]}
    return _named(rows | {"--system-config": list(systems), "--memory-mode": list(modes)})


def configs_of(path: str) -> str:
    """The system configs and the memory modes of a configuration file, as Vela prints them."""
    from npu_model.memory.vela_ini import config_names
    from npu_testbed.devices.configs import configuration_file
    from validation.reading import read_configuration

    systems, modes = config_names(read_configuration(configuration_file(Path(path)), "Configuration file"))
    return _named({"--system-config": list(systems), "--memory-mode": list(modes)})


def chips() -> str:
    """The chips that ``--chip`` takes."""
    from npu_testbed.devices.chips import chips_text

    return chips_text()


REPORT = "SUPPORTED_OPS.md"
"""Vela's name of the report, in the working directory."""


def supported_ops_report() -> str:
    """Write the report, as Vela does, and say where it is."""
    from npu_testbed.ground.files import write_file
    from npu_testbed.reports.supported_ops import supported_ops_page

    path = Path.cwd() / REPORT
    write_file(path, supported_ops_page().encode("utf-8"))
    return f"Report file: {path}"
