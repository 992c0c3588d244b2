"""Several compilations of one model by Vela's C++ core, in one process that runs while the caller does something else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cascader.frontends.children import nothing
from cascader.frontends.folders import own_folder
from cascader.frontends.vela import direct
from cascader.frontends.vela.compiler import (
    COMPILED,
    child,
    for_vela,
    limits_of,
    read_model,
    read_result,
    vela_version,
    write_terms,
)
from cascader.frontends.vela.compiler_options import CompilerOptions
from cascader.frontends.vela.direct import DirectCall, direct_call
from cascader.frontends.vela.result import CORES, Known, VelaResult
from cascader.frontends.vela_timeout import time_limit
from npu_model.errors import InputError, UnfinishedError
from npu_model.tflite.identifiers import is_tosa


def compile_together(model: bytes, options: Sequence[CompilerOptions], meanwhile: Callable[[], object] = nothing) -> Known:
    """Compile a .tflite ``model`` with each of the options, in one process. ``meanwhile`` is called once the process runs.

    Compilations that the process cannot make are left out: :func:`cascader.frontends.vela.compile_network` makes them by Vela's command
    line, or says why it cannot.
    """
    calls = {} if is_tosa(model) else {one: call for one in options if (call := direct_call(one)) is not None}
    if not calls:
        meanwhile()
        return {}
    with own_folder() as folder:
        return _results(model, calls, folder, meanwhile)


def _results(model: bytes, calls: Mapping[CompilerOptions, DirectCall], folder: Path, meanwhile: Callable[[], object]) -> Known:
    """The compilations by these calls, made in ``folder``."""
    folders = {one: str(number) for number, one in enumerate(calls)}
    (folder / "network.tflite").write_bytes(for_vela(model))
    for one, name in folders.items():
        (folder / name).mkdir()
        write_terms(folder / name, calls[one])
    timeout = time_limit()
    command = direct.command({name: calls[one] for one, name in folders.items()}, limits_of(timeout * len(calls)))
    late: UnfinishedError | None = None
    said: Sequence[str] = ()
    try:
        said = child(command, folder, timeout, meanwhile, len(calls)).stdout.split(direct.NEXT.decode())
    except UnfinishedError as error:
        late = error
    known: dict[CompilerOptions, VelaResult | UnfinishedError] = {}
    with suppress(InputError):  # The caller that needs a missing result gets Vela's reason when it compiles the model itself.
        parsed = read_model(model)
        for number, (one, name) in enumerate(folders.items()):
            done = (folder / name / COMPILED).is_file()
            if done and number < len(said):
                known[one] = read_result(folder / name, parsed, vela_version(), CORES[0], said[number], one.cpu_operators)
            elif late is not None and not done:
                known[one] = late
    return known
