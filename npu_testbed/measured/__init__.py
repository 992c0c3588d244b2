"""Measurements that are compared with the replay: a PMU trace, samples of a running board, a table of layers, or the counters in a log."""
