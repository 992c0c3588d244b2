"""PortfolioBuilder: the zoo's NetworkBuilder with all other operators that people's networks have."""

from __future__ import annotations

from validation.portfolio.builder.moves import Moves
from validation.portfolio.builder.pieces import Pieces
from validation.portfolio.builder.pointwise import Pointwise
from validation.portfolio.builder.recurrent import Recurrent
from validation.portfolio.builder.reductions import Reductions
from validation.portfolio.builder.resampling import Resampling
from validation.portfolio.builder.streaming import Streaming

__all__ = ["PortfolioBuilder"]


class PortfolioBuilder(Pointwise, Recurrent, Reductions, Resampling, Streaming, Moves, Pieces):
    """Builds one network of nearly every operator that Vela puts on the Ethos-U55, and of some that stay on the CPU."""
