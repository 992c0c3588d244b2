"""Comparisons with Vela: one network, many networks, tables and verdicts."""
