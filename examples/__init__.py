"""Examples of the Python API, run from the root of the repository: ``python -m examples.NAME``.

The packages that are installed go before those of the folder, which may have no compiled cores.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

if sys.argv[0] == "-m":  # while ``python -m`` looks for the module, and never in a test
    sys.path.append(sys.path.pop(0))

from npu_model.errors import InputError  # after the order of folders is known
from npu_model.native import slow_sentence  # the same


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
