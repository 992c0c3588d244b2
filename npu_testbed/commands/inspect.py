"""``npu-testbed inspect``: the Programs of a file as text."""

# No `from __future__ import annotations`: fields of Asks are read as values.
from typing import TYPE_CHECKING, Annotated, ClassVar

from npu_testbed.asked import kinds
from npu_testbed.asked.ask import Ask
from npu_testbed.asked.option import Option

if TYPE_CHECKING:
    from npu_testbed.ground.progress import Progress
    from npu_testbed.outcomes import TextOutcome


class Inspect(Ask["TextOutcome"], frozen=True):
    """Print the text form of every NPU program in a compiled *_vela.tflite or a schedule file, and why an operator is on the CPU."""

    examples: ClassVar[tuple[str, ...]] = (
        "npu-testbed inspect mobilenet_v1.json",
        "npu-testbed inspect network_vela.tflite > network.txt",
    )

    file: Annotated[
        kinds.Source,
        Option("a schedule file, a *_vela.tflite, a .pte, or a C source or raw .npz with driver payloads", "FILE", source=True),
    ]

    def answer(self, show: "Progress") -> "TextOutcome":
        """The text form."""
        from npu_testbed.outcomes import TextOutcome
        from npu_testbed.replays.program_files import inspect

        file = str(self.file)
        show(f"Reading {file}")
        return TextOutcome(inspect(file))
