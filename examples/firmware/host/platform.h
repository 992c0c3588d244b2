/* platform.h: memory of a program on the host. */
#ifndef PLATFORM_H
#define PLATFORM_H

#define PLATFORM_ARENA __attribute__((aligned(4096)))

#endif
