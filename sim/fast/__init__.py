"""The fast recurrence: a twin of the replay engine that says how long a Program takes.

It has the units of the engine and resumes them in the same cycles in the same order, so that every tie is decided as there. It
is fast because it does not do what nobody asks for: no events are made, heard of or recorded, waits that would be over at once
are left out, turns of a port are looked up instead of worked out, and all schedules of a network share these answers.

Where it is compiled (``sim/native``) it looks nothing up, and counts what every unit did and waited for too.
"""

from sim.fast.counted import counted_network, counted_replay
from sim.fast.flat import FlatReplay, quick_cycles
from sim.fast.quick import QuickReplay, quick_replay

__all__ = ["FlatReplay", "QuickReplay", "counted_network", "counted_replay", "quick_cycles", "quick_replay"]
