"""Schedules for the Ethos-U: of drafts, layer by layer, and as files."""
