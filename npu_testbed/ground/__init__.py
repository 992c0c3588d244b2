"""The ground of every command: files that are written, progress, failures, and the end of a command."""
