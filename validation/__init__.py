"""Peers and references: Vela, FVP records and their scorecards; networks to ask them about: the built-in zoo and the portfolio."""
