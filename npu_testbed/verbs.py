"""The verbs of the Python API: the Ask of each command as a function, which returns its outcome."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from npu_model.errors import InputError, did_you_mean
from npu_testbed.asked.verb import verb
from npu_testbed.commands.calibrate import CalibrateCheck, CalibrateFit
from npu_testbed.commands.check import Check
from npu_testbed.commands.compare import Compare
from npu_testbed.commands.compilation import Compile
from npu_testbed.commands.device import DeviceRun
from npu_testbed.commands.diff import Diff
from npu_testbed.commands.export import Export
from npu_testbed.commands.frontier import Frontier
from npu_testbed.commands.inspect import Inspect
from npu_testbed.commands.schedule import Schedule
from npu_testbed.commands.simulate import SimulateSchedule, SimulateVela
from npu_testbed.commands.sweep import Sweep
from npu_testbed.commands.validate import ValidateAll
from npu_testbed.commands.validate_fvp import ValidateFvp
from npu_testbed.commands.validate_networks import ValidateLitert, ValidateVela
from npu_testbed.commands.validate_portfolio import ValidatePortfolio
from npu_testbed.commands.verify import Verify
from npu_testbed.searches import costs

Error = InputError
"""The one error that a verb raises: a sentence with the value, the bound and the remedy."""

Figures = costs.Figures
"""Argument of a cost function."""

schedule = verb(Schedule)
compile = verb(Compile)  # noqa: A001  # the command's name
frontier = verb(Frontier)
compare = verb(Compare)
diff = verb(Diff)
check = verb(Check)
sweep = verb(Sweep)
simulate_schedule = verb(SimulateSchedule)
simulate_vela = verb(SimulateVela)
inspect = verb(Inspect)
verify = verb(Verify)
export = verb(Export)
device_run = verb(DeviceRun)
validate_fvp = verb(ValidateFvp)
validate_vela = verb(ValidateVela)
validate_litert = verb(ValidateLitert)
validate_portfolio = verb(ValidatePortfolio)
validate_all = verb(ValidateAll)
calibrate_fit = verb(CalibrateFit)
calibrate_check = verb(CalibrateCheck)


def _of_family(family: str, verbs: dict[str, Callable[..., Any]], word: str) -> Callable[..., Any]:
    """The verb that an old name with a word stood for, with a warning that names it."""
    if word not in verbs:
        raise Error(f"{family} has no {word!r}{did_you_mean(word, verbs)}: choose {', '.join(verbs)}.")
    found = verbs[word]
    warnings.warn(f"npu_testbed.{family}({word!r}, ...) is npu_testbed.{found.__name__}(...) now.", DeprecationWarning, stacklevel=3)
    return found


_PEERS: dict[str, Callable[..., Any]] = {
    "fvp": validate_fvp,
    "vela": validate_vela,
    "litert": validate_litert,
    "portfolio": validate_portfolio,
    "all": validate_all,
}
_TASKS: dict[str, Callable[..., Any]] = {"fit": calibrate_fit, "check": calibrate_check}


def validate(peer: str, *models: Any, **options: Any) -> Any:
    """The verb ``validate_PEER`` by its old name, which goes with the next version."""
    return _of_family("validate", _PEERS, peer)(*models, **options)


def calibrate(task: str, *files: Any, **options: Any) -> Any:
    """The verb ``calibrate_TASK`` by its old name, which goes with the next version."""
    return _of_family("calibrate", _TASKS, task)(*files, **options)
