/* platform.h: memory sections of the chip corstone-300. */
#ifndef PLATFORM_H
#define PLATFORM_H

#define PLATFORM_ARENA __attribute__((aligned(16), section(".sram")))

#endif
