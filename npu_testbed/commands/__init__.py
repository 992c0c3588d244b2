"""The commands: each module holds the Ask of a command, and runs it."""
