"""Drafts: an unfinished schedule as one flat value, its construction from groups, and the moves of the climb that improves it."""
