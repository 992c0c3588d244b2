"""Published measurements of the Corstone FVPs and the Programs that were measured, as package data."""
