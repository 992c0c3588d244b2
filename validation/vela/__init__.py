"""Vela as a peer: its schedules replayed and its estimate reproduced."""
