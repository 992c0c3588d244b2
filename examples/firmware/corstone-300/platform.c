/* platform.c: a Cortex-M with the NPU of the chip corstone-300 (secure addresses): start-up, interrupt, UART. */
#include "../npu_driver.h"

#include <stdio.h>
#include <sys/stat.h>

#define NPU ((volatile uint32_t *)0x58102000)
#define NPU_IRQ 56
#define UART_DATA (*(volatile uint32_t *)0x59303000)
#define UART_STATE (*(volatile uint32_t *)0x59303004) /* bit 0: the transmit buffer is full */
#define UART_CTRL (*(volatile uint32_t *)0x59303008)  /* bit 0: transmit */
#define UART_BAUD (*(volatile uint32_t *)0x59303010)
#define NVIC_ISER ((volatile uint32_t *)0xE000E100)
#define CPACR (*(volatile uint32_t *)0xE000ED88)

extern uint8_t __stack[], __bss_start[], __bss_end[], __heap[], __heap_end[];
int main(void);
void _exit(int status);

uint32_t platform_read(uint32_t offset)
{
    return NPU[offset / 4];
}

void platform_write(uint32_t offset, uint32_t value)
{
    NPU[offset / 4] = value;
}

void platform_wait(void)
{
    __asm volatile("wfi");
}

uint32_t platform_address(const void *memory, size_t size)
{
    (void)size;
    return (uint32_t)(uintptr_t)memory;
}

static void interrupt_handler(void)
{
    npu_interrupt();
}

void reset_handler(void)
{
    uint8_t *byte;
    int status;
    CPACR |= 0xFu << 20; /* the FPU, which the compiler may use for copies */
    for (byte = __bss_start; byte < __bss_end; ++byte) {
        *byte = 0;
    }
    UART_BAUD = 16;
    UART_CTRL = 1;
    NVIC_ISER[NPU_IRQ / 32] = 1u << NPU_IRQ % 32;
    status = main();
    fflush(NULL);
    _exit(status);
}

static void stopped(void)
{
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static void (*const vectors[16 + NPU_IRQ + 1])(void) = {
    [0] = (void (*)(void))__stack,
    [1] = reset_handler,
    [2 ... 15 + NPU_IRQ] = stopped,
    [16 + NPU_IRQ] = interrupt_handler,
};

/* The functions that newlib asks of a system. */
int _write(int file, const char *text, int length)
{
    int i;
    (void)file;
    for (i = 0; i < length; ++i) {
        while (UART_STATE & 1) {
        }
        UART_DATA = (uint8_t)text[i];
    }
    return length;
}

void _exit(int status)
{
    /* Semihosting SYS_EXIT_EXTENDED: application exit, with its status. */
    while (UART_STATE & 1) {
    }
    uint32_t block[2] = {0x20026, (uint32_t)status};
    register uint32_t operation __asm("r0") = 0x20;
    register uint32_t *parameter __asm("r1") = block;
    __asm volatile("bkpt 0xab" : : "r"(operation), "r"(parameter) : "memory");
    for (;;) {
    }
}

void *_sbrk(int bytes)
{
    static uint8_t *end = __heap;
    uint8_t *start = end;
    if (end + bytes > __heap_end) {
        return (void *)-1;
    }
    end += bytes;
    return start;
}

int _close(int file) { (void)file; return -1; }
int _fstat(int file, struct stat *found) { (void)file; found->st_mode = S_IFCHR; return 0; }
int _isatty(int file) { (void)file; return 1; }
int _lseek(int file, int offset, int from) { (void)file; (void)offset; (void)from; return 0; }
int _read(int file, char *text, int length) { (void)file; (void)text; (void)length; return 0; }
int _kill(int process, int signal) { (void)process; (void)signal; return -1; }
int _getpid(void) { return 1; }
