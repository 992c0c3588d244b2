"""Peers and references: Vela, FVP records and their scorecards."""
