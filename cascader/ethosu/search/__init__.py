"""The search for schedules: forms of a network planned and drafted at memory limits, and what is promising replayed."""
