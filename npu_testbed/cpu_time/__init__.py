"""The time of an inference as a whole: NPU cycles of the replay, and ranges for operators on the CPU, calls of the NPU, and copies."""

from npu_testbed.cpu_time.table import DEFAULT_CPU, CpuTable, load_cpu_table

__all__ = ["DEFAULT_CPU", "CpuTable", "load_cpu_table"]
