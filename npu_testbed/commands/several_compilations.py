"""Several networks compiled by one command, one after the other; one that fails does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from npu_model.errors import InputError
from npu_testbed.compilation.compile_options import source_name
from npu_testbed.ground.endings import say
from npu_testbed.ground.failures import Failure, attempt
from npu_testbed.outcomes.compilation import CompilationOutcome
from npu_testbed.outcomes.compilation_store import StoredCompilation
from npu_testbed.outcomes.compilations import CompilationsOutcome

_ENDINGS = ".tflite", ".tosa"
_COMPILED = "_vela"
"""End of the stem of a compiled file."""


def models_in(sources: Sequence[str]) -> tuple[str, ...]:
    """The sources, with each folder replaced by its .tflite and .tosa files in order of name.

    Files ``*_vela.tflite`` of an earlier run are skipped. InputError if a folder has none, or if two models would write the same file.
    """
    found: list[str] = []
    for source in sources:
        folder = Path(source)
        if not folder.is_dir():
            found.append(source)
            continue
        files = sorted(path for path in folder.iterdir() if path.suffix in _ENDINGS and not path.stem.endswith(_COMPILED))
        if not files:
            raise InputError(f"Folder {source!r} holds no .tflite or .tosa file to compile: name another folder, or the files.")
        found += map(str, files)
    models = tuple(dict.fromkeys(found))
    firsts: dict[str, str] = {}
    for model in models:
        name = source_name(model)
        if firsts.setdefault(name, model) != model:
            raise InputError(
                f"Models {firsts[name]!r} and {model!r} would both be written to {name}_vela.tflite: compile them into two folders."
            )
    return models


def compile_each(
    models: Sequence[str], work: Callable[[str], CompilationOutcome | StoredCompilation], accelerator: str
) -> CompilationsOutcome:
    """Compile each model with ``work``, and report the reason of a failure at once."""
    made: list[CompilationOutcome | StoredCompilation] = []
    failures: list[Failure] = []
    for model in models:
        found = attempt(lambda one=model: work(one), model, accelerator, "The compilation")  # type: ignore[misc]  # bound now
        if isinstance(found, Failure):
            failures.append(found)
            say("error", found.sentence)
        else:
            made.append(found)
    return CompilationsOutcome(tuple(made), tuple(failures))
