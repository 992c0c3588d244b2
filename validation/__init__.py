"""Peers and references: Vela, FVP records and their scorecards, and networks for comparison: a builder, the zoo and the portfolio."""
