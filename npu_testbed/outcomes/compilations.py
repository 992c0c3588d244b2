"""The outcome of ``npu-testbed compile`` for several networks."""

from __future__ import annotations

from npu_testbed.documents.comparison import CompilationsDocument
from npu_testbed.documents.document import extended
from npu_testbed.ground.endings import BAD_INPUT
from npu_testbed.ground.failures import Failure
from npu_testbed.outcomes.compilation import CompilationOutcome
from npu_testbed.outcomes.compilation_store import StoredCompilation
from npu_testbed.outcomes.outcome import Outcome


class CompilationsOutcome(Outcome, frozen=True):
    """The compilations of several networks in their order, and those that failed."""

    compilations: tuple[CompilationOutcome | StoredCompilation, ...]
    failures: tuple[Failure, ...]

    @property
    def passed(self) -> bool:
        """Whether every network was compiled."""
        return not self.failures

    @property
    def status(self) -> int:
        """The exit status: 0, or 2 if a network was not compiled."""
        return 0 if self.passed else BAD_INPUT

    @property
    def headline(self) -> str:
        """The number of compiled networks."""
        count = len(self.compilations)
        return f"{count} of {count + len(self.failures)} networks were compiled."

    def document(self) -> CompilationsDocument:
        """The document of each compilation, and the failures."""
        return extended(CompilationsDocument, self, compilations=tuple(one.document() for one in self.compilations))

    def text(self) -> str:
        """The report on each network, and the number of networks."""
        return "\n\n\n".join((*(one.text() for one in self.compilations), self.headline))

    def deadline_text(self, milliseconds: float) -> str:
        """Whether each schedule meets a time per inference."""
        return "\n".join(one.deadline_text(milliseconds) for one in self.compilations)
