"""Answers side by side: one network beside Vela, many networks, and sweeps; with tables and verdicts."""
