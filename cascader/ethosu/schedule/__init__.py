"""Schedules for the Ethos-U: as values, as files, layer by layer and cascaded."""
