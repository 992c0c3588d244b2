/* npu_device.h: an Ethos-U55 for programs on a host, behind its registers.
 *
 * The device is npu-testbed in a process of its own; this library starts it and talks to it (the protocol is in docs/firmware.md).
 * The bus is three functions: npu_device_read and npu_device_write for the register file, a callback for the interrupt line. The NPU's
 * memory is the program's own: map it to the addresses that the NPU shall see it at. POSIX only. One thread at a time for a device.
 */
#ifndef NPU_DEVICE_H
#define NPU_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct npu_device npu_device;

/* The interrupt line changes to this level. Called from within the functions below; it may read and write registers. */
typedef void (*npu_device_interrupt)(void *context, int level);

/* Starts a device: accelerator ("ethos-u55-128") and timing adapter ("u55_high_end", "off" or a .toml file); NULL takes these first ones.
 * The command is npu-testbed, or what the environment variable NPU_TESTBED says. NULL if it cannot be started. */
npu_device *npu_device_open(const char *accelerator, const char *timing_adapter, npu_device_interrupt interrupt, void *context);

/* Ends a device. */
void npu_device_close(npu_device *device);

/* Lets the NPU see `size` bytes at an address; read-only if `writable` is 0. 0 if done, else -1: too many, or in another's place. */
int npu_device_map(npu_device *device, uint64_t address, void *memory, size_t size, int writable);

/* The address of mapped memory; maps it at the next free multiple of 4096 if it is not mapped yet. 0 if there is no room. */
uint64_t npu_device_address(npu_device *device, const void *memory, size_t size, int writable);

/* A word of the register file by its byte offset. A call takes `access_cycles` of the NPU's clock (1 until it is set). */
uint32_t npu_device_read(npu_device *device, uint32_t offset);
void npu_device_write(npu_device *device, uint32_t offset, uint32_t value);
void npu_device_access_cycles(npu_device *device, uint32_t cycles);

/* Lets the clock run: for some cycles, or until the interrupt line is high or the NPU stands still, `most` cycles at the most.
 * The second gives the cycles that it took. */
void npu_device_advance(npu_device *device, uint64_t cycles);
uint64_t npu_device_wait(npu_device *device, uint64_t most);

/* Cycles of the NPU's clock since the device was opened, as of the last call. */
uint64_t npu_device_cycle(const npu_device *device);

/* The fault between program and device ("" if nothing has): the process has ended, or an offset is no register's. */
const char *npu_device_error(const npu_device *device);

#ifdef __cplusplus
}
#endif

#endif
