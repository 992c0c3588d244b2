"""The fast recurrence: the compiled twin of the replay engine (``sim/native``), which gives the cycles of a Program.

It has the units of the engine and resumes them in the same cycles in the same order, so that every tie is decided as there. It is fast
because it makes no events. On request, it counts the work and the waits of every unit. Where the core is not built the engine itself
answers.
"""

from sim.fast.quick import FlatReplay, QuickReplay, counted_network, counted_replay, quick_cycles, quick_replay

__all__ = ["FlatReplay", "QuickReplay", "counted_network", "counted_replay", "quick_cycles", "quick_replay"]
