"""Home files: the homes of tensors in TOML, a line ``NAME = "MEMORY"`` for each; names that are not bare keys are quoted."""

from __future__ import annotations

from npu_model.errors import InputError
from npu_model.printable import shown
from npu_model.toml_text import parse_toml
from validation.reading import read_configuration


def home_file(path: str) -> list[str]:
    """The homes in a file, as pairs WHAT=MEMORY; InputError if it is not such a file."""
    table = parse_toml(read_configuration(path, "Home file"), f"The home file {shown(path)}", 'write NAME = "MEMORY" lines')
    wrong = next((key for key, value in table.items() if not isinstance(value, str)), None)
    if wrong is not None:
        raise InputError(f'The home file {shown(path)} gives {shown(wrong)} no memory\'s name: write {shown(wrong)} = "MEMORY".')
    return [f"{key}={value}" for key, value in table.items()]
