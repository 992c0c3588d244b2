/* npu_driver.h: the least that a driver of an Ethos-U55 does, for the example firmware.
 *
 * It follows the sequence that Arm documents for its core driver: soft reset, ports and AXI limits, queue and base pointers, run, wait,
 * interrupt, PMU. The platform gives it the bus: three functions of the device and one for addresses.
 */
#ifndef NPU_DRIVER_H
#define NPU_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#define NPU_BASE_POINTERS 8u

/* The platform: a word of the register file by its byte offset, and a wait for the interrupt. */
uint32_t platform_read(uint32_t offset);
void platform_write(uint32_t offset, uint32_t value);
void platform_wait(void);

/* The address at which the NPU sees some memory of the program. */
uint32_t platform_address(const void *memory, size_t size);

/* Called by the platform's interrupt handler. */
void npu_interrupt(void);

typedef enum {
    NPU_OK = 0,
    NPU_BAD_PAYLOAD = 1, /* no "COP1" payload with a command stream, or one that is misaligned */
    NPU_OTHER_NPU = 2,   /* MACs, product or architecture are not those of this NPU */
    NPU_BAD_ADDRESS = 3, /* a base address that is no multiple of 16 */
    NPU_FAULT = 4        /* bus abort, parse error or an end before the end of the stream */
} npu_result;

/* Soft reset, the driver's map of regions to AXI ports, its AXI limits and a stopped PMU. */
npu_result npu_init(void);

/* Runs a driver payload with these base addresses and waits for its end. */
npu_result npu_invoke(const uint8_t *payload, size_t payload_size, const uint32_t *base, size_t bases);

/* STATUS after the last run. */
uint32_t npu_status(void);

/* Counts NPU-active cycles and up to four events from here on. */
void npu_pmu_start(const uint16_t *events, size_t count);
uint64_t npu_pmu_cycles(void);
uint32_t npu_pmu_event(size_t index);

#endif
