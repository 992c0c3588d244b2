"""Answers side by side: one network next to Vela's, many networks, and sweeps; with tables and verdicts."""
