"""Vela as a peer: what it supports, its schedules replayed, compiled at several limits at once, and its estimate reproduced."""
