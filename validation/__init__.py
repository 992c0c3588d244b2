"""Peers and references: Vela, FVP records and their scorecards; networks to ask them about: a builder, the zoo and the portfolio."""
