"""The Corstone FVPs: published records and live runs, compared with the replay."""
