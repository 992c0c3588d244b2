"""Schedules for the Ethos-U: as files, layer by layer and cascaded."""
