"""Results: findings in a folder, and the search's answers for networks in progress, so that a run continues an earlier one."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from cascader.ethosu.search.request import Request
from npu_testbed.ground.answers import FOLDER, Answers, key_of_request
from npu_testbed.models.sources import PORTFOLIO
from npu_testbed.portfolio.verdict import Examined, from_json

SCHEMA = 3
"""Version of a finding in a folder; raised whenever a field changes its meaning."""


class Results(Struct, frozen=True):
    """A folder of findings."""

    folder: Path
    verified: bool

    def key(self, request: Request) -> str:
        """The key of a network's finding, which begins with the network's name."""
        digest = key_of_request("finding", request, SCHEMA, self.verified)
        return f"{request.source.name.removeprefix(PORTFOLIO)}-{request.device}-{digest[:16]}"

    def find(self, request: Request) -> Examined | None:
        """The finding in the folder, None if there is none."""
        return Answers(self.folder).find(self.key(request), from_json)

    def search(self, request: Request) -> Answers:
        """The answers of the search of a network while the network is examined."""
        return Answers(self.folder / f"{FOLDER}-{self.key(request)}")

    def write(self, request: Request, finding: Examined) -> None:
        """Write a finding, which replaces the answers of its search. Failures are not written, so that they are tried again."""
        if not finding.failure:
            Answers(self.folder).keep(self.key(request), finding.to_json())
            self.search(request).remove()
