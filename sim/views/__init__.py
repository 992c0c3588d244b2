"""What listens to a replay: traces, tables and maps."""
