"""Checks of schedules that share no code with the search."""
