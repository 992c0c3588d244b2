"""A ``vela.ini`` with names of a vendor's own: memory modes that grant an arena of any size, and none."""

from __future__ import annotations


def board_ini(granted: int) -> str:
    """System config My_Sys_Cfg, and the memory modes Any, Small (so many bytes), Tiny (16), Nothing (0) and Parted (a fast scratch)."""
    return f"""
[System_Config.My_Sys_Cfg]
core_clock=400e6
axi0_port=Sram
axi1_port=OffChipFlash
Sram_clock_scale=1.0
Sram_burst_length=32
Sram_read_latency=16
Sram_write_latency=16
OffChipFlash_clock_scale=0.25
OffChipFlash_burst_length=128
OffChipFlash_read_latency=64
OffChipFlash_write_latency=64

[Memory_Mode.Any]
const_mem_area=Axi1
arena_mem_area=Axi0
cache_mem_area=Axi0

[Memory_Mode.Small]
inherit=Memory_Mode.Any
arena_cache_size={granted}

[Memory_Mode.Tiny]
inherit=Memory_Mode.Any
arena_cache_size=16

[Memory_Mode.Nothing]
inherit=Memory_Mode.Any
arena_cache_size=0

[Memory_Mode.Parted]
inherit=Memory_Mode.Small
arena_mem_area=Axi1
"""
