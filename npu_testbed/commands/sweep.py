"""``npu-testbed sweep``: schedules on every combination of networks, MACs, memories, budgets and parameters."""

# No `from __future__ import annotations`: fields of Asks are read as values.
import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from npu_model.errors import InputError
from npu_testbed.asked import kinds
from npu_testbed.asked.ask import Search
from npu_testbed.asked.option import Group, Option
from npu_testbed.asked.readers import byte_count

if TYPE_CHECKING:
    from cascader.ethosu.search.request import Request
    from npu_testbed.comparisons.sweeps.cluster import Cluster
    from npu_testbed.ground.progress import Progress
    from npu_testbed.outcomes.sweep import SweepOutcome


def names(text: str) -> tuple[str, ...]:
    """One or more names between commas."""
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} has an empty name, give NAME or NAME,NAME")
    return found


def budgets(text: str) -> tuple[int | None, ...]:
    """Numbers of bytes between commas; "none" for no bound."""
    return tuple(dict.fromkeys(None if part == "none" else byte_count(part) for part in names(text)))


MEMORIES = Group("memory systems", "Chips, timing adapters and Vela's configurations. Without any: u55_high_end.")
WORK = Group("work")
Names = str | Sequence[str]


class SweepOptions(Search["SweepOutcome"], frozen=True, kw_only=True):
    """The options of ``sweep``."""

    accelerator_config: Annotated[Names, Option("accelerators, or all (default: ethos-u55-128)", "NAME,...", names, listed=True)] = (
        "ethos-u55-128",
    )
    arena_cache_size: Annotated[
        int | str | Sequence[int | str | None] | None,
        Option(
            "limits of the arena in bytes, such as 64KiB, none for no limit (default: those of the memory modes)",
            "BYTES,...",
            budgets,
            listed=True,
        ),
    ] = ()
    optimise: kinds.Optimise = None
    chip: Annotated[
        Names, Option("chips of `npu-testbed --list-chips`, or .toml files", "NAME|FILE,...", names, MEMORIES, listed=True)
    ] = ()
    timing_adapter: Annotated[Names, Option("timing-adapter profiles", "NAME|FILE,...", names, MEMORIES, listed=True)] = ()
    system_config: Annotated[Names, Option("system configs of Vela's configuration", "NAME,...", names, MEMORIES, listed=True)] = ()
    memory_mode: Annotated[
        Names, Option("memory modes of Vela's configuration, with each of them", "NAME,...", names, MEMORIES, listed=True)
    ] = ()
    config: Annotated[
        kinds.PathText | None,
        Option("configuration file to read these from (default: the vela.ini of Vela)", "INI", group=MEMORIES),
    ] = None
    set: Annotated[
        str | Sequence[str] | Mapping[str, "str | int"],
        Option(
            "values of a parameter or of an option, such as OffChipFlash.read_latency=64,128, clock_hz=400000000, effort=quick,standard or "
            "spill=none,ext; may be given several times",
            "KEY=V,...",
            group=MEMORIES,
            many=True,
        ),
    ] = ()
    within: kinds.Within = None
    timing: kinds.Timing = None
    results: kinds.Results = None
    distributed: Annotated[
        str | None, Option("work on the Dask cluster with the scheduler at this address, such as tcp://host:8786", "ADDRESS", group=WORK)
    ] = None
    tls_ca_file: Annotated[
        kinds.PathText | None,
        Option("the certificate of the authority for a cluster at tls://, as `dask scheduler` takes it", "PEM", group=WORK),
    ] = None
    tls_cert: Annotated[
        kinds.PathText | None, Option("the certificate for a cluster at tls://, as `dask scheduler` takes it", "PEM", group=WORK)
    ] = None
    tls_key: Annotated[
        kinds.PathText | None, Option("the key for a cluster at tls://, as `dask scheduler` takes it", "PEM", group=WORK)
    ] = None
    csv: Annotated[kinds.PathText | None, Option("write a line for each point", "F.csv", group=kinds.REPORTS, writes="file")] = None
    plot: Annotated[
        kinds.PathText | None, Option("draw milliseconds over bytes, a plot for each MODEL", "F.svg", group=kinds.REPORTS, writes="picture")
    ] = None
    report: Annotated[
        kinds.PathText | None,
        Option(
            "write a web page with all points and a field for a deadline; it works offline", "R.html", group=kinds.REPORTS, writes="page"
        ),
    ] = None


class Sweep(SweepOptions, frozen=True):
    """Schedule each network on every combination of accelerators, memory systems, parameters and limits of the arena.

    Each point is scheduled as `schedule` does, and the answer says what is fastest within each limit. A larger limit gets what a smaller
    one found, if that is better. With --results an interrupted sweep continues where it was.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "npu-testbed sweep zoo:ds_cnn --accelerator-config all --arena-cache-size 12000,16000,none --results found",
        "npu-testbed sweep network.tflite --system-config Ethos_U55_High_End_Embedded --set OffChipFlash.read_latency=64,128 --deadline 5",
    )

    models: Annotated[
        kinds.Source | Sequence[kinds.Source],
        Option("a .tflite file, or zoo:NAME or portfolio:NAME", "MODEL", source=True, many=True),
    ]

    def answer(self, show: "Progress") -> "SweepOutcome":
        """Sweep, and write the requested files."""
        from npu_testbed.comparisons.sweeps import sweep
        from npu_testbed.comparisons.sweeps.sweep_tables import sweep_csv
        from npu_testbed.ground.files import asked_files, write_files
        from npu_testbed.html.sweep import sweep_page
        from npu_testbed.outcomes.sweep import SweepOutcome
        from npu_testbed.views.sweep_plot import sweep_svg

        _check(self)
        deadline = None if self.deadline is None else float(self.deadline)
        results = None if self.results is None else Path(self.results)
        found = sweep(_points(self, show), results=results, processes=self.jobs, cluster=_cluster(self), progress=show)
        files = asked_files(
            (self.csv, lambda: sweep_csv(found)),
            (self.plot, lambda: sweep_svg(found).encode("utf-8")),
            (self.report, lambda: sweep_page(found, deadline)),
        )
        write_files(files)
        return SweepOutcome(found, deadline)


def _check(ask: Sweep) -> None:
    """InputError for options that cannot be followed, before any work."""
    from npu_testbed.asked.outputs import require_outputs

    require_outputs(ask)
    if ask.distributed is not None and ask.jobs is not None:
        raise InputError("--jobs cannot be combined with --distributed, whose cluster has its own workers: drop one of them.")
    tls = [f"--{name.replace('_', '-')}" for name in _TLS if getattr(ask, name) is not None]
    if tls and ask.distributed is None:
        raise InputError(f"{tls[0]} was given without --distributed, whose connections it encrypts: give both, or leave it out.")
    if 0 < len(tls) < len(_TLS):
        raise InputError(f"{' and '.join(tls)} was given alone: encryption takes --tls-ca-file, --tls-cert and --tls-key.")
    if ask.distributed is not None and ask.vela_timeout is not None:
        raise InputError("--vela-timeout cannot be combined with --distributed: set it where the workers run, or leave it out.")
    if ask.deadline is not None and ask.json and ask.report is None:
        raise InputError("--deadline cannot be combined with --json, which has the time of every point: drop one of them.")


_TLS = ("tls_ca_file", "tls_cert", "tls_key")


def _cluster(ask: Sweep) -> "Cluster | None":
    """The requested Dask cluster."""
    from npu_testbed.comparisons.sweeps.cluster import Certificates, Cluster

    given = [Path(path) for name in _TLS if (path := getattr(ask, name)) is not None]
    if ask.distributed is None:
        return None
    return Cluster(ask.distributed, Certificates(*given) if given else None)


def _points(ask: Sweep, show: "Progress") -> "tuple[Request, ...]":
    from npu_testbed.asked.axes import points_of
    from npu_testbed.asked.request import read_source, shaped

    sources = []
    for text in dict.fromkeys(kinds.texts(ask.models)):
        show(f"Reading {text}")
        sources.append(read_source(shaped(text, ask)))
    return points_of(ask, sources)
