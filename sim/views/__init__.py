"""Listeners of a replay: traces, tables and maps."""
