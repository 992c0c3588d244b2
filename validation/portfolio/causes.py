"""Why our schedules miss a bar on a network of the portfolio, as far as it is known: a sentence by the network's name."""

from __future__ import annotations

CAUSES: dict[str, str] = {
    "middle_outputs": "On 256 MACs Vela stages the third layer, then the fourth in halves; the search stages the fourth whole, which "
    "leaves no room for the third.",
}
