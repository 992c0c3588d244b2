"""Vela as a peer: what it supports, its schedules replayed beside its estimate, and compiled at several limits at once."""
