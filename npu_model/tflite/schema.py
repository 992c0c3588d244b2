"""The package ``tflite``, generated from TFLite's schema, with a front that imports a module when one of its names is used.

The package's own front imports all of its 187 modules, a tenth of the imports of a command that needs fifteen. Other behaviour stays: a
name that no module has comes from the package's own front, which runs then. A front that was imported earlier stays.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

_NAME = "tflite"


class Front(ModuleType):
    """A front whose names come from its modules: ``Tensor`` and ``TensorAddShape`` both from ``Tensor.py``."""

    def __getattr__(self, name: str) -> Any:
        """The name, from its module; AttributeError if the package has none."""
        if not name.startswith("_"):
            for stem in sorted((stem for stem in self._stems() if name.startswith(stem)), key=len, reverse=True):
                found = vars(import_module(f"{self.__name__}.{stem}"))
                if name in found:
                    vars(self)[name] = found[name]
                    return found[name]
        spec = self.__spec__
        if spec is None or spec.loader is None or vars(self).get("__whole__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        vars(self)["__whole__"] = True
        spec.loader.exec_module(self)
        return getattr(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Set a name. On import, Python sets a module's name in its package, where this package has the class of the same name."""
        inner = vars(value).get(name, value) if isinstance(value, ModuleType) else value
        super().__setattr__(name, inner)

    def _stems(self) -> frozenset[str]:
        """The names of the package's modules."""
        if "__stems__" not in vars(self):
            vars(self)["__stems__"] = frozenset(path.stem for folder in self.__path__ for path in Path(folder).glob("*.py"))
        stems: frozenset[str] = vars(self)["__stems__"]
        return stems


def _schema() -> Any:
    if _NAME not in sys.modules and (spec := find_spec(_NAME)) is not None:
        front = Front(_NAME)
        vars(front).update(vars(module_from_spec(spec)))
        sys.modules[_NAME] = front
    return import_module(_NAME)


tflite = _schema()
"""The package. It gets the lazy front unless it was imported before."""
