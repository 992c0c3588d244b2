"""Reports of replays and frontiers, as tables for a terminal and as JSON."""
