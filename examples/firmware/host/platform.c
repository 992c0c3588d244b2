/* platform.c: the NPU of npu_device.h in place of the one at an address. */
#include "../npu_driver.h"
#include "npu_device.h"

#include <stdio.h>
#include <stdlib.h>

static npu_device *device;

static void interrupt(void *context, int level)
{
    (void)context;
    if (level) {
        npu_interrupt();
    }
}

static npu_device *npu(void)
{
    if (!device) {
        device = npu_device_open(NPU_ACCELERATOR, NULL, interrupt, NULL);
    }
    if (!device || npu_device_error(device)[0]) {
        fprintf(stderr, "no NPU: %s\n", device ? npu_device_error(device) : "npu-testbed cannot be started");
        exit(2);
    }
    return device;
}

uint32_t platform_read(uint32_t offset)
{
    return npu_device_read(npu(), offset);
}

void platform_write(uint32_t offset, uint32_t value)
{
    npu_device_write(npu(), offset, value);
}

void platform_wait(void)
{
    npu_device_wait(npu(), UINT64_MAX);
}

uint32_t platform_address(const void *memory, size_t size)
{
    return (uint32_t)npu_device_address(npu(), memory, size, 1);
}
