"""The lazy front of the schema's package has every name of the package, and imports no module that nobody asks for."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from npu_model.tflite.schema import tflite
assert type(tflite).__name__ == "Front"
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
tflite.Model.GetRootAsModel, tflite.TensorAddShape
few = sum(name.startswith("tflite.") for name in sys.modules)
from tflite.SubGraph import SubGraph
import tflite as again
assert again is tflite and tflite.SubGraph is SubGraph
spec = PathFinder.find_spec("tflite", sys.path)
whole = module_from_spec(spec)
spec.loader.exec_module(whole)
names = [name for name in vars(whole) if not name.startswith("__")]
others = [name for name in names if getattr(tflite, name) is not getattr(whole, name)]
print(few, len(names), others, tflite.__version__ == whole.__version__)
try:
    tflite.NothingOfTheSchema
except AttributeError:
    print("missing")
"""


def test_the_front_gives_the_package_s_names_from_the_modules_that_are_asked_for() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    (few, names, others, version), missing = done.stdout.splitlines()[0].split(" ", 3), done.stdout.splitlines()[1]
    assert int(few) == 2
    assert int(names) > 1000
    assert (others, version, missing) == ("[]", "True", "missing")


def test_a_package_that_somebody_has_imported_before_stays_as_it_is() -> None:
    script = "import tflite; from npu_model.tflite.schema import tflite as ours; print(ours is tflite, type(tflite).__name__)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "True module\n"
