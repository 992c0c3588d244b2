"""Replay of a Program: timing, traffic and memory."""

from sim.events import Busy, Cause, Event, Listener, Unit, Wait
from sim.fast import FlatReplay, QuickReplay, counted_network, counted_replay, quick_cycles, quick_replay
from sim.footprint import Footprint, footprint
from sim.replay import Beats, NetworkReplay, OperationReplay, Replay, operation_beats, replay, replay_network

__all__ = [
    "Beats",
    "Busy",
    "Cause",
    "Event",
    "FlatReplay",
    "Footprint",
    "Listener",
    "NetworkReplay",
    "OperationReplay",
    "QuickReplay",
    "Replay",
    "Unit",
    "Wait",
    "counted_network",
    "counted_replay",
    "footprint",
    "operation_beats",
    "quick_cycles",
    "quick_replay",
    "replay",
    "replay_network",
]
