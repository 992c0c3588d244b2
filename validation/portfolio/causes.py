"""Why our schedules miss a bar on a network of the portfolio, as far as it is known: a sentence by the network's name."""

from __future__ import annotations

CAUSES: dict[str, str] = {
    "cpu_last": "Vela legalises its layer of 24 channels as kernels of 16 and 8, whose own best blocks part the shared buffer in two ways, "
    "so that they do not overlap; Vela Performance gives both one block of depth 24.",
    "svdf": "Vela legalises its first layer as two kernels of 16 channels, where Vela Performance has one of 32: 27 cycles of 2,543.",
    "lstm_short": "The kernels of Vela's Python core are quicker here, and need 752 bytes in our schedules where Vela's has 688.",
}
