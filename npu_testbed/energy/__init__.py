"""Energy as a ratio between two schedules, from a user's table; never as an amount."""

from npu_testbed.energy.ratio import Energy, energy, energy_json, energy_ratio, energy_text
from npu_testbed.energy.table import ILLUSTRATIVE, EnergyTable, load_energy_table

__all__ = ["ILLUSTRATIVE", "Energy", "EnergyTable", "energy", "energy_json", "energy_ratio", "energy_text", "load_energy_table"]
