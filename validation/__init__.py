"""Peers and references: Vela, FVP records and their scorecards; networks to ask them about, and their builder: the zoo and the portfolio."""
