"""Vela as a peer: its schedules replayed, compiled at several limits at once, and its estimate reproduced."""
