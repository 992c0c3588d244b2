"""All that shows measured figures, checked or written anew: ``python tests/measured.py [--write]``, as ``tox -e measured`` does.

The README, the notebook and the pages are measured in processes of their own, two at a time; what they say is printed in this order.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SCRIPTS = ("readme_blocks.py", "doc_pages.py", "notebook.py")
"""The longest first."""


def measured(script: str, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """A script that has ended, with what it said."""
    command = [sys.executable, str(Path(__file__).with_name(script)), *words]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def main(words: Sequence[str]) -> int:
    """Run all scripts; the status is 1 if one of them fails. Scripts that write do so one after the other."""
    with ThreadPoolExecutor(1 if "--write" in words else 2) as pool:
        ended = list(pool.map(lambda script: measured(script, words), SCRIPTS))
    for script, one in zip(SCRIPTS, ended, strict=True):
        sys.stdout.write(f"{script}: {'as measured' if one.returncode == 0 else 'differs, or failed'}\n{one.stdout}")
    return int(any(one.returncode for one in ended))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
