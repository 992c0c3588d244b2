"""The verbs of the Python API: the Ask of each command as a function, which returns its outcome."""

from __future__ import annotations

from npu_model.errors import InputError
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
