"""The search for schedules: it plans forms of a network, drafts them at memory limits, and replays promising drafts."""
