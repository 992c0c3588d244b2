"""Hazards of a Program: bytes that an operation uses although no wait, BLOCKDEP or hardware order protects them."""

from sim.hazards.find import Hazard, find_races, network_hazards
from sim.hazards.race import SHRAM, LostTable, PartitionFault, Race
from sim.hazards.tables import lost_tables

__all__ = ["SHRAM", "Hazard", "LostTable", "PartitionFault", "Race", "find_races", "lost_tables", "network_hazards"]
