"""The Corstone FVPs: published records and live runs beside the replay."""
