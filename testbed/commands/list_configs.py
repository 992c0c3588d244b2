"""``npu-testbed --list-configs``: the names that options take."""

from __future__ import annotations

import argparse
from typing import Any


def _text() -> str:
    from npu_model.accelerator import accelerator_names, replay_only_names
    from npu_model.memory.timing_adapter import profile_names
    from npu_model.memory.vela_ini import config_names
    from testbed.configs import vela_ini_text

    systems, modes = config_names(vela_ini_text())
    replayed = replay_only_names()
    rows = {
        "--accelerator-config": [name for name in accelerator_names() if name not in replayed],
        "replayed only": list(replayed),
        "--timing-adapter": list(profile_names()),
        "--config": ["Arm/vela.ini"],
        "--system-config": list(systems),
        "--memory-mode": list(modes),
    }
    return "\n".join(line for title, names in rows.items() for line in (f"{title}:", *(f"  {name}" for name in names)))


class ListConfigs(argparse.Action):
    """Prints the names and ends, as ``--version`` does."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(nargs=0, default=argparse.SUPPRESS, **settings)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print and end."""
        print(_text())
        parser.exit()
