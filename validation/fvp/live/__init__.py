"""Live comparison with an installed Corstone FVP: counters, and operations where it writes a PMU trace."""
