"""What every command stands on: files that are written, progress, failures, and the end of a command."""
