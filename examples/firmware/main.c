/* main.c: one inference of a network that `npu-testbed export --format c` wrote as network.h and network.c.
 *
 * Inputs are bytes of a fixed sequence; the outputs are printed, and the PMU's counts. Exit status 0 if the NPU came to the end.
 */
#include "network.h"
#include "npu_driver.h"
#include "platform.h"

#include <stdio.h>

static uint8_t arena[NETWORK_ARENA_SIZE] PLATFORM_ARENA;

static const uint16_t events[4] = {0x82, 0x87, 0x182, 0x30};
static const char *const event_names[4] = {
    "AXI0_RD_DATA_BEAT_RECEIVED", "AXI0_WR_DATA_BEAT_WRITTEN", "AXI1_RD_DATA_BEAT_RECEIVED", "MAC_ACTIVE"};

static int infer(size_t job)
{
    uint64_t address[NETWORK_REGIONS];
    size_t size[NETWORK_REGIONS];
    uint32_t base[NETWORK_REGIONS];
    size_t i;
    npu_result result;
    network_bind(job, arena, address, size);
    for (i = 0; i < NETWORK_REGIONS; ++i) {
        base[i] = platform_address((const void *)(uintptr_t)address[i], size[i]);
    }
    result = npu_invoke(network_jobs[job].payload, network_jobs[job].payload_size, base, NETWORK_REGIONS);
    if (result != NPU_OK) {
        printf("job %u: result %d, STATUS 0x%08x\n", (unsigned)job, (int)result, (unsigned)npu_status());
    }
    return result != NPU_OK;
}

int main(void)
{
    uint32_t value = 1;
    size_t i, j;
    int failed = npu_init() != NPU_OK;
    for (i = 0; i < NETWORK_INPUTS; ++i) {
        for (j = 0; j < network_inputs[i].size; ++j) {
            value = value * 1664525u + 1013904223u;
            arena[network_inputs[i].offset + j] = (uint8_t)(value >> 24);
        }
    }
    npu_pmu_start(events, 4);
    for (i = 0; i < NETWORK_JOBS && !failed; ++i) {
        failed = infer(i);
    }
    for (i = 0; i < NETWORK_OUTPUTS && !failed; ++i) {
        printf("output %s:", network_outputs[i].name);
        for (j = 0; j < network_outputs[i].size; ++j) {
            printf(" %02x", arena[network_outputs[i].offset + j]);
        }
        printf("\n");
    }
    printf("NPU_ACTIVE: %u\n", (unsigned)npu_pmu_cycles());
    for (i = 0; i < 4; ++i) {
        printf("%s: %u\n", event_names[i], (unsigned)npu_pmu_event(i));
    }
    return failed;
}
