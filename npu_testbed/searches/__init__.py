"""Searches for schedules: the frontier, its kept answers and files, and other ways to meet a budget."""
