"""Examples of the Python API, run from the root of the repository: ``python -m examples.NAME``.

Install with ``pip install -e .`` for that: Python takes the packages of the folder, which have compiled cores only then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from npu_model.errors import InputError
from npu_model.native import slow_sentence


def ended(main: Callable[[], object], *, searches: bool = True) -> int:
    """The exit status of an example: 0, or 2 with one sentence where its input is wrong or an extra is missing.

    One that ``searches`` or replays says first where that will be slow.
    """
    if searches and (slow := slow_sentence()):
        sys.stderr.write(f"note: {slow}\n")
    try:
        main()
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0
