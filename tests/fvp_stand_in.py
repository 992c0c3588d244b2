"""A stand-in for an FVP: a script that is called as the FVP is."""

from __future__ import annotations

import sys
from pathlib import Path


def stand_in(folder: Path) -> tuple[Path, Path]:
    """A script in the place of the FVP, which writes down its arguments and prints 7 cycles; and firmware for it."""
    fvp, firmware = folder / "FVP", folder / "runner.axf"
    log = "print('NPU ACTIVE cycles: 7')\n"
    record = f"import sys\nfrom pathlib import Path\nPath({str(folder / 'argv')!r}).write_text(' '.join(sys.argv[1:]))\n"
    fvp.write_text(f"#!{sys.executable}\n{record}{log}", encoding="utf-8")
    fvp.chmod(0o755)
    firmware.write_bytes(b"\x7fELF")
    return fvp, firmware
