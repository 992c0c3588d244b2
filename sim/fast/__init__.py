"""The fast recurrence: a twin of the replay engine that says how long a Program takes, and nothing of what it waits for.

It has the units of the engine and resumes them in the same cycles in the same order, so that every tie is decided as there. It
is fast because it does not do what nobody asks for: no events are made, heard of or recorded, waits that would be over at once
are left out, turns of a port are looked up instead of worked out, and all schedules of a network share these answers.
"""

from sim.fast.quick import QuickReplay, quick_cycles, quick_replay

__all__ = ["QuickReplay", "quick_cycles", "quick_replay"]
