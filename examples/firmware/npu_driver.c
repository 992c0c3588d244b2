/* npu_driver.c: see npu_driver.h. Register offsets are those of docs/firmware.md. */
#include "npu_driver.h"

enum {
    ID = 0x000, STATUS = 0x004, CMD = 0x008, RESET = 0x00C, QBASE0 = 0x010, QBASE1 = 0x014, QREAD = 0x018, QCONFIG = 0x01C,
    QSIZE = 0x020, PROT = 0x024, CONFIG = 0x028, REGIONCFG = 0x03C, AXI_LIMIT0 = 0x040, BASEP0 = 0x080,
    PMCR = 0x180, PMCNTENSET = 0x184, PMCNTENCLR = 0x188, PMOVSCLR = 0x190, PMCCNTR_LO = 0x1A0, PMCCNTR_HI = 0x1A4,
    PMCCNTR_CFG = 0x1A8, PMEVCNTR0 = 0x300, PMEVTYPER0 = 0x380
};

enum { CMD_RUN = 1u << 0, CMD_CLEAR_IRQ = 1u << 1, CMD_POWER = 3u << 2 };
enum { STATUS_BUS = 1u << 2, STATUS_RESET = 1u << 3, STATUS_PARSE = 1u << 4, STATUS_END = 1u << 5 };

#define COP1 0x31504F43u
#define ACTION_CONFIG 1u
#define ACTION_STREAM 2u
#define ACTION_NOP 5u
#define ALIGNMENT 16u
#define NPU_ACTIVE 35u
#define NPU_IDLE 32u

static volatile int interrupted;
static uint32_t last_status;

void npu_interrupt(void)
{
    last_status = platform_read(STATUS);
    platform_write(CMD, CMD_POWER | CMD_CLEAR_IRQ);
    interrupted = 1;
}

uint32_t npu_status(void)
{
    return last_status;
}

npu_result npu_init(void)
{
    uint32_t tries;
    platform_write(RESET, 0);
    for (tries = 0; tries < 100000u && (platform_read(STATUS) & STATUS_RESET); ++tries) {
    }
    if (platform_read(PROT) != 0 || (platform_read(STATUS) & STATUS_RESET)) {
        return NPU_FAULT;
    }
    /* Commands and region 0 through AXI1, all else through AXI0; 32 reads and 16 writes of 64 bytes outstanding. */
    platform_write(QCONFIG, 2);
    platform_write(REGIONCFG, 3u | 1u << 4);
    for (tries = 0; tries < 4; ++tries) {
        platform_write(AXI_LIMIT0 + 4 * tries, 31u << 16 | 15u << 24);
    }
    platform_write(PMCR, 0);
    return NPU_OK;
}

static uint32_t word(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static npu_result run(const uint8_t *stream, uint32_t size, const uint32_t *base, size_t bases)
{
    uint32_t queue = platform_address(stream, size);
    size_t i;
    if (queue % ALIGNMENT) {
        return NPU_BAD_PAYLOAD;
    }
    for (i = 0; i < bases; ++i) {
        if (base[i] % ALIGNMENT) {
            return NPU_BAD_ADDRESS;
        }
        platform_write(BASEP0 + 8 * (uint32_t)i, base[i]);
        platform_write(BASEP0 + 8 * (uint32_t)i + 4, 0);
    }
    platform_write(QBASE0, queue);
    platform_write(QBASE1, 0);
    platform_write(QSIZE, size);
    interrupted = 0;
    platform_write(CMD, CMD_POWER | CMD_RUN);
    while (!interrupted) {
        platform_wait();
    }
    return (last_status & (STATUS_BUS | STATUS_PARSE)) || !(last_status & STATUS_END) ? NPU_FAULT : NPU_OK;
}

npu_result npu_invoke(const uint8_t *payload, size_t payload_size, const uint32_t *base, size_t bases)
{
    size_t at = 4;
    if (payload_size < 8 || payload_size % 4 || word(payload) != COP1 || bases > NPU_BASE_POINTERS) {
        return NPU_BAD_PAYLOAD;
    }
    while (at + 4 <= payload_size) {
        uint32_t action = word(payload + at);
        at += 4;
        if ((action & 0xFF) == ACTION_CONFIG && at + 8 <= payload_size) {
            uint32_t config = word(payload + at), id = word(payload + at + 4), own = platform_read(ID);
            if ((config ^ platform_read(CONFIG)) & 0xF00000FFu || id >> 28 != own >> 28 || (id >> 20 & 0xFF) > (own >> 20 & 0xFF)) {
                return NPU_OTHER_NPU;
            }
            at += 8;
        } else if ((action & 0xFF) == ACTION_STREAM) {
            uint32_t size = 4 * ((action >> 8 & 0xFF) << 16 | action >> 16);
            return at + size <= payload_size ? run(payload + at, size, base, bases) : NPU_BAD_PAYLOAD;
        } else if ((action & 0xFF) != ACTION_NOP) {
            return NPU_BAD_PAYLOAD;
        }
    }
    return NPU_BAD_PAYLOAD;
}

void npu_pmu_start(const uint16_t *events, size_t count)
{
    size_t i;
    platform_write(PMCNTENCLR, 0x8000000Fu);
    platform_write(PMOVSCLR, 0x8000000Fu);
    platform_write(PMCCNTR_CFG, NPU_ACTIVE | NPU_IDLE << 16);
    for (i = 0; i < count && i < 4; ++i) {
        platform_write(PMEVTYPER0 + 4 * (uint32_t)i, events[i]);
    }
    platform_write(PMCR, 7); /* enable, both resets */
    platform_write(PMCNTENSET, 0x80000000u | ((1u << count) - 1));
}

uint64_t npu_pmu_cycles(void)
{
    uint64_t high = platform_read(PMCCNTR_HI);
    return high << 32 | platform_read(PMCCNTR_LO);
}

uint32_t npu_pmu_event(size_t index)
{
    return platform_read(PMEVCNTR0 + 4 * (uint32_t)index);
}
