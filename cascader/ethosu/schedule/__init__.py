"""Schedules for the Ethos-U: from drafts, layer by layer, and as files."""
