"""Direct calls of Vela's C++ core, because Vela's command line takes longer to start than the core takes to compile a small network.

Vela 5.2's command line makes the same call and writes the same files. The call is not documented. So where it fails, the caller uses the
command line, which also says why.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from cascader.frontends.children import GUARD, LIMITS
from cascader.frontends.vela.compiler_options import DEFAULT_MEMORY_MODE, SYSTEM_CONFIGS, CompilerOptions
from cascader.frontends.vela.installed import installed_version
from npu_model.accelerator import accelerator

_VERSION = "5.2"
_CORE = "ethosu.regor"

ARENA_LIMIT = 4 << 30
"""Bytes of arena that Vela permits where no size is given: all that an Ethos-U55 can address."""

_FEATURES = ("Grouping", "FWD", "Cascading", "WeightBuffering", "ReuseIFM")
"""The core's names for the features that are off when it legalises, in the command line's order."""

NEEDED: dict[str, tuple[str, ...]] = {
    "perf_debug": ("id", "time_index"),
    "perf_debug_main": (),
    "perf_debug_conn": (),
    "perf_debug_wd": (),
}
"""The columns that are read after legalising, from tables that may have 33 MB. After other compilations all columns are read."""

SAID = "said.txt"
"""File in the folder of a call with what the core printed."""

_LAUNCH = f"""{GUARD}
import os, sys
end_with_parent(os.getcwd())
{LIMITS}
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("{_CORE}", sys.argv[1])
core = module_from_spec(spec)
sys.modules["{_CORE}"] = core
spec.loader.exec_module(core)

class Cells(dict):
    def __missing__(self, value):
        self[value] = text = value if value.isnumeric() else f'"{{value}}"'
        return text

def compiled(model, folder, shown, device):
    def text(name):
        with open(f"{{folder}}/{{name}}", encoding="utf-8") as file:
            return file.read()

    made = core.compile(device, model, "TFLITE", text("system.ini"), options=text("options.ini"), verbose=True)
    report = made.perf_report
    memories = {{str(name).lower(): memory for name, memory in report.memories.items()}}
    figures = {{
        "sram_memory_used": (memories["sram"].peakUsage if "sram" in memories else 0) / 1024,
        "cycles_total": report.totalCycles,
    }}
    os.mkdir(f"{{folder}}/out")
    with open(f"{{folder}}/out/network_summary_direct.csv", "w", encoding="utf-8") as file:
        file.write(",".join(figures) + "\\n" + ",".join(map(repr, figures.values())))
    if made.opt_database:
        with open(f"{{folder}}/out/network_debug.xml", "w", encoding="utf-8") as file:
            for name, table in made.opt_database.tables.items():
                heads, cells = table.header, Cells()
                places = [place for place, head in enumerate(heads) if head in shown.get(name, heads)]
                if not places:
                    continue
                quoted = ",".join(f'"{{heads[place]}}"' for place in places)
                file.write(f'<table name="{{name}}">\\n<![CDATA[\\n{{quoted}}\\n')
                all_of = len(places) == len(heads)
                for row in table.data:
                    file.write(",".join(map(cells.__getitem__, row if all_of else [row[place] for place in places])) + "\\n")
                file.write("]]>\\n</table>\\n")
    with open(f"{{folder}}/out/network.part", "wb") as file:
        file.write(made.model)
    os.replace(f"{{folder}}/out/network.part", f"{{folder}}/out/network_vela.tflite")

with open("network.tflite", "rb") as file:
    model = file.read()

def call(folder, shown, device):
    os.dup2(os.open(f"{{folder}}/{SAID}", os.O_WRONLY | os.O_CREAT), 1)
    compiled(model, folder, {NEEDED!r} if shown == "needed" else {{}}, device)

first, *others = [sys.argv[at : at + 3] for at in range(2, len(sys.argv), 3)]
begun = set()
for one in others if sys.platform == "linux" else ():
    number = os.fork()
    if not number:
        end_with_parent(os.getcwd())
        call(*one)
        sys.exit()
    begun.add(number)
call(*first)
for number in begun:
    os.waitpid(number, 0)
for one in () if begun else others:
    call(*one)
"""
"""Program text of the child. It finds the model in its folder and the terms of each call in the folder of that call.

On Linux the calls run at the same time, each in a forked copy of the child that has imported the core. The compiled network of a call is
written last, in one step: who finds it finds all that the call wrote.
"""


class DirectCall(Struct, frozen=True):
    """A call of the core: its location, the database columns that it writes, the device, and the files that it reads."""

    core: str
    shown: str
    device: str
    files: Mapping[str, str]


def command(calls: Mapping[str, DirectCall], limits: Sequence[str]) -> list[str]:
    """The command for a process that makes the calls, each in its folder. All calls use the same core."""
    (core,) = {call.core for call in calls.values()}
    words = [word for folder, call in calls.items() for word in (folder, call.shown, call.device)]
    return [sys.executable, "-I", "-S", "-c", _LAUNCH, *limits, core, *words]


def _options(options: CompilerOptions) -> str:
    lines = ["[compiler]", *(["enable_db=true"] if options.debug_database else []), "output_format=TFLite", "cop_format=COP1"]
    lines += ["[scheduler]", f"optimize={options.optimise}", f"arena_size_limit={options.arena_cache_size or ARENA_LIMIT}"]
    lines += [f"disable_feature={'|'.join(_FEATURES) if options.legalise else ''}"]
    lines += [f"cpu_tensor_alignment={options.cpu_tensor_alignment}"]
    lines += [f"tensor_allocator={'LinearAlloc' if options.legalise else 'HillClimb'}"]
    lines += ["[graph]", "softmax_int16_neg_exp_range=10.0", ""]
    return "\n".join(lines)


def direct_call(options: CompilerOptions) -> DirectCall | None:
    """The call that compiles a .tflite file with these options; None where the command line is needed.

    The command line is needed for memories or regions other than the defaults, and for a Vela version whose call is not known.
    """
    device, names = accelerator(options.accelerator), (options.system_config, options.memory_mode)
    if (
        names != (SYSTEM_CONFIGS[device.family], DEFAULT_MEMORY_MODE)
        or options.config
        or options.legacy
        or options.cpu_operators
        or options.separate_io_regions
    ):
        return None
    core = find_spec(_CORE) if (installed_version() or "").startswith(_VERSION) else None
    if core is None or core.origin is None or not 0 < (options.arena_cache_size or ARENA_LIMIT) <= ARENA_LIMIT:
        return None
    configuration = Path(core.origin).parent / "config_files" / "Arm" / "vela.ini"
    if not configuration.is_file():
        return None
    system = f"[architecture]\nmacs={device.macs}\ncores={device.cores}\n"
    system += f"[vela]\nsystem_config_name={names[0]}\nmemory_mode_name={names[1]}\n{configuration.read_text(encoding='utf-8')}"
    files = {"system.ini": system, "options.ini": _options(options)}
    return DirectCall(core.origin, "needed" if options.legalise else "all", f"Ethos{device.family.upper()}", files)
