"""``npu-testbed compile``: a model to a compiled ``*_vela.tflite`` in one step, in Vela's place."""

# No `from __future__ import annotations`: fields of Asks are read as values.
import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from npu_model.errors import InputError
from npu_testbed.asked import kinds
from npu_testbed.asked.ask import OneSearch
from npu_testbed.asked.option import Group, Option
from npu_testbed.commands.list_configs import SHIPPED, Print, configs_of, supported_ops_report, version
from npu_testbed.compilation.vela_options import add_vela_options, notes

if TYPE_CHECKING:
    from cascader.ethosu.search.request import Request
    from npu_testbed.compilation.compile_options import Target
    from npu_testbed.cpu_time import CpuTable
    from npu_testbed.ground.progress import Progress
    from npu_testbed.outcomes.compilation import CompilationOutcome
    from npu_testbed.outcomes.compilation_store import StoredCompilation
    from npu_testbed.outcomes.compilations import CompilationsOutcome

    _Made = tuple[dict[Path, bytes], CompilationOutcome | StoredCompilation]


_MOST_ALIGNMENT = 1 << 20

VELA = Group("Vela's options")
PROMISES = Group(
    "promise",
    "Without an arena size: never larger and never slower than Vela for the same command line, checked by replay before anything is "
    "written. With one: the fastest in that size, and never slower than Vela. With --optimise Size: the smallest arena that is no slower "
    "than Vela Size.",
)


def alignment(text: str) -> int:
    """A power of 2 from 16 on."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 16 <= value <= _MOST_ALIGNMENT or value & (value - 1):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not an alignment, give a power of 2 from 16 to {_MOST_ALIGNMENT}")
    return value


class CompileOptions(OneSearch["CompilationOutcome | StoredCompilation | CompilationsOutcome"], frozen=True, kw_only=True):
    """The options of ``compile``."""

    default_device: ClassVar[str] = "ethos-u55-256"
    goes_on_from: ClassVar[tuple[str, ...]] = ()

    accelerator_config: Annotated[
        str | None,
        Option("ethos-u55-32, ethos-u55-64, ethos-u55-128 or ethos-u55-256 (default: ethos-u55-256, as Vela's)", "NAME", group=VELA),
    ] = None
    output_dir: Annotated[kinds.PathText, Option("folder to write to (default: output)", "DIR", Path, group=VELA)] = Path("output")
    optimise: kinds.Optimise = None
    runtime: kinds.Runtime = None
    sizes: kinds.Sizes = None
    results: kinds.Results = None
    output_format: Annotated[
        Literal["tflite", "raw"],
        Option("raw writes NAME_vela.npz, if the whole network runs on the NPU (default: tflite)", group=VELA),
    ] = "tflite"
    cpu_tensor_alignment: Annotated[
        int,
        Option(
            "alignment of the network's inputs and outputs, and of the tensors of operators on the CPU (default: 16)",
            "BYTES",
            alignment,
            VELA,
        ),
    ] = 16
    debug_force_legacy_core: Annotated[bool, Option("compare with Vela's Python core instead of its C++ core", group=VELA)] = False
    disable_cascading: Annotated[
        bool, Option("run every layer whole, one after the other, even if Vela's schedule is faster", group=VELA)
    ] = False
    enable_debug_db: Annotated[bool, Option("also write NAME_debug.xml, as Vela does, and NAME_schedule.json", group=VELA)] = False
    verbose_performance: Annotated[bool, Option("also print the table of layers", group=VELA)] = False
    verbose_cycle_estimate: Annotated[bool, Option("also print the table of layers", group=VELA)] = False
    show_cpu_operations: kinds.CpuOperations = False
    cpu: kinds.Cpu = "cortex-m55"
    fewest_bytes: Annotated[bool, Option("the smallest arena, however many cycles it takes", group=PROMISES)] = False
    fewest_cycles: Annotated[bool, Option("the fewest cycles, however large the arena (or within the arena size)", group=PROMISES)] = False
    timing: Annotated[
        kinds.PathText | None,
        Option(
            "timing parameters of the NPU, as `calibrate fit` writes them (default: the model's own); --timing is a switch of Vela's",
            "PROFILE.toml",
            spelled="--timing-profile",
        ),
    ] = None
    config: Annotated[
        kinds.PathText | None,
        Option("configuration file to read these from (default: the vela.ini of Vela)", "INI", Path, kinds.MEMORY, many=True),
    ] = None


class Compile(CompileOptions, frozen=True):
    """Compile quantised networks to NAME_vela.tflite, in the place of `vela`.

    TFLite Micro and the Linux driver run the file as they run Vela's files. NAME_summary_CONFIG.csv and NAME_per-layer.csv have Vela's
    columns. The options are Vela's; --arena-cache-size is a limit that holds, or that is refused with the smallest one that is reached.
    Several networks are compiled one after the other: one that fails does not stop the others, and the exit status is then 2.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "npu-testbed compile network.tflite --accelerator-config ethos-u55-128 --arena-cache-size 262144 --output-dir build",
        "npu-testbed compile zoo:ds_cnn --optimise Size --verbose-performance",
        "npu-testbed compile network.tflite --home input=ext --arena-cache-size 131072",
        "npu-testbed compile network.tflite --output-dir build --results .npu-testbed",
        "npu-testbed compile models/ zoo:ds_cnn --output-dir build",
    )

    models: Annotated[
        kinds.Source | Sequence[kinds.Source],
        Option("a .tflite or .tosa file, a folder of such files, zoo:NAME or portfolio:NAME", "MODEL", source=True, many=True),
    ]

    @classmethod
    def extend(cls, parser: argparse.ArgumentParser) -> None:
        """Add Vela's options that have no meaning here, and its options that print and end."""
        group = parser.add_argument_group(VELA.title)
        group.add_argument("--version", action=Print, text=version, help="print the version, and exit")
        group.add_argument("--supported-ops-report", action=Print, text=supported_ops_report, help="write SUPPORTED_OPS.md here, and exit")
        group.add_argument(
            "--list-config-files", action=Print, text=lambda: SHIPPED, help="print the configuration file that Vela comes with, and exit"
        )
        group.add_argument(
            "--list-configs", action=Print, text=configs_of, metavar="INI", help="print the configurations of a file, and exit"
        )
        add_vela_options(parser)
        # Vela accepts any unambiguous prefix of an option, and scripts use such prefixes.
        parser.allow_abbrev = True

    @classmethod
    def take(cls, said: Mapping[str, Any]) -> None:
        """Say which of Vela's options change nothing here; InputError for an option that would change something."""
        from npu_testbed.ground.endings import say

        for sentence in list(notes(said)):
            say("note", sentence)

    def answer(self, show: "Progress") -> "CompilationOutcome | StoredCompilation | CompilationsOutcome":
        """Compile; for each network, write all files or none."""
        named = kinds.texts(self.models)
        if len(named) == 1 and not Path(named[0]).is_dir():
            return self._compiled(named[0], show)
        # Vela compiles a single network while all of this is imported.
        from npu_testbed.commands.several_compilations import compile_each, models_in

        if self.sizes is not None:
            raise InputError(f"--sizes was given with several networks: {self.sizes} holds the size of one, compile them one by one.")
        _target(self)
        return compile_each(models_in(named), lambda model: self._compiled(model, show), _device(self))

    def _compiled(self, model: str, show: "Progress") -> "CompilationOutcome | StoredCompilation":
        """Compile one network, and write all files or none."""
        from npu_testbed.asked.outputs import require_outputs
        from npu_testbed.compilation.compile_options import source_name
        from npu_testbed.ground.files import make_folder, require_makeable, require_writable, write_files

        folder = Path(self.output_dir)
        target, cpu = _target(self), _cpu(self)
        require_outputs(self)
        with _as_vela():
            require_makeable(folder)
            compiled = folder / f"{source_name(model)}_vela.{'tflite' if self.output_format == 'tflite' else 'npz'}"
            if folder.is_dir():
                require_writable(compiled)
        if compiled.exists():
            require_writable(compiled, model)
        request = _request(self, model, show)
        target.check(request)
        if self.runtime is not None:
            from npu_testbed.runtimes.chosen_runtime import require_together

            require_together(self.runtime, request)
        made: _Made = self._made(request, target, cpu, show) if self.results is None else self._known(request, target, cpu, show)
        files, outcome = made
        show(f"Writing {folder}")
        make_folder(folder)
        for path in files:
            require_writable(path, model)
        # A build makes its files again after a loss of power, and compilers do not wait for the disk.
        write_files(files, durable=False)
        return outcome

    def _known(self, request: "Request", target: "Target", cpu: "CpuTable | None", show: "Progress") -> "_Made":
        """The files and the outcome from the folder of results, or new ones that are then kept there."""
        from cascader.ethosu.search.request import ModelSource
        from npu_model.documents import plain
        from npu_testbed.cpu_time import DEFAULT_CPU, load_cpu_table
        from npu_testbed.outcomes.compilation_store import CompilationStore

        if not isinstance(request.source, ModelSource):
            return self._made(request, target, cpu, show)
        kept = CompilationStore(Path(str(self.results)))
        shown = (self.verbose_performance or self.verbose_cycle_estimate, self.show_cpu_operations, self.enable_debug_db)
        key = kept.key(request, target, str(self.output_dir), str(self.sizes), *shown, plain(cpu or load_cpu_table(DEFAULT_CPU)))
        found = kept.find(key)
        if found is not None:
            return {Path(path): data for path, data in found.files.items()}, found.outcome
        files, outcome = self._made(request, target, cpu, show)
        kept.keep(key, outcome, outcome.cycles, outcome.replayed.system.clock_hz, files)
        return files, outcome

    def _made(
        self, request: "Request", target: "Target", cpu: "CpuTable | None", show: "Progress"
    ) -> "tuple[dict[Path, bytes], CompilationOutcome]":
        """The files by their paths, and the outcome; nothing is written."""
        from msgspec.structs import replace

        from npu_testbed.asked.request import run_of
        from npu_testbed.compilation.vela_runs import vela_runs

        show(f"Compiling {request.source.name} with Vela")
        known, task = vela_runs(request, target, _import_compiler, show)

        # Vela has run while these were imported.
        from npu_testbed.compilation.compiler import compile_model, debug_files
        from npu_testbed.compilation.in_tflite_micro import require_no_worse
        from npu_testbed.outcomes.compilation import CompilationOutcome
        from npu_testbed.runtimes.chosen_runtime import require_runs

        made = compile_model(request, target, run_of(self, show), known, task)
        require_no_worse(made, request, target, show)
        made = replace(made, simulation=replace(made.simulation, cpu=cpu))
        files = made.files | (debug_files(made) if self.enable_debug_db else {})
        paths = {Path(self.output_dir) / name: data for name, data in files.items()}
        outcome = CompilationOutcome(
            made,
            {str(path): len(data) for path, data in paths.items()},
            layers=self.verbose_performance or self.verbose_cycle_estimate,
            cpu_operations=self.show_cpu_operations,
        )
        require_runs(self.runtime, outcome.runtimes)
        if self.sizes is not None:
            from npu_testbed.runtimes.sizes import sizes_file

            paths[Path(self.sizes)] = sizes_file(outcome.runtimes, self.sizes, made.name)
        return paths, outcome


def _import_compiler() -> None:
    """Import the modules that turn Vela's answers into a compilation."""
    from importlib import import_module

    from npu_testbed.models.legalise import import_search

    for name in ("npu_testbed.compilation.compiler", "npu_testbed.outcomes.compilation"):
        import_module(name)
    import_search()


def _cpu(ask: Compile) -> "CpuTable | None":
    """The table of the CPU; None for the default one, which is read only if an operator runs on the CPU."""
    from npu_testbed.cpu_time import DEFAULT_CPU, load_cpu_table

    return None if str(ask.cpu) == DEFAULT_CPU else load_cpu_table(str(ask.cpu))


def _device(ask: Compile) -> str:
    from npu_testbed.asked.request import device_of

    return device_of(ask)


@contextmanager
def _as_vela() -> Iterator[None]:
    """Within, errors on which Vela exits with status 1 become its status: bad files and configurations, but not a bad command line."""
    from npu_testbed.ground.endings import VelaStatusError

    try:
        yield
    except InputError as error:
        raise VelaStatusError(str(error)) from None


def _request(ask: Compile, model: str, show: "Progress") -> "Request":
    """The request; VelaStatusError for an error on which Vela would exit with status 1."""
    from npu_testbed.asked.request import device_of, read_source, request_of
    from npu_testbed.devices.device_memory import system_of
    from npu_testbed.devices.memory_options import from_vela, without_chip
    from npu_testbed.models.sources import BUILT

    memory = without_chip(ask)
    with _as_vela():
        if from_vela(memory):
            system_of(device_of(ask), memory)
        if not model.startswith(BUILT) and not ask.input_shape and not ask.layout:
            read_source(str(model))
    return request_of(ask, model, show)


def _target(ask: Compile) -> "Target":
    from npu_testbed.compilation.compile_options import FEWEST_BYTES, FEWEST_CYCLES, PROMISE, Target

    if ask.fewest_bytes and ask.fewest_cycles:
        raise InputError("--fewest-bytes cannot be combined with --fewest-cycles: each gives the other up, choose one.")
    for other in ("fewest_bytes", "disable_cascading"):
        if ask.within is not None and getattr(ask, other):
            raise InputError(
                f"--within cannot be combined with --{other.replace('_', '-')}, which trades no bytes for cycles: drop one of them."
            )
    return Target(
        aim=FEWEST_BYTES if ask.fewest_bytes else FEWEST_CYCLES if ask.fewest_cycles else PROMISE,
        output_format=ask.output_format,
        cpu_tensor_alignment=ask.cpu_tensor_alignment,
        legacy=ask.debug_force_legacy_core,
        runtime=ask.runtime,
    )
