/* npu_device.c: see npu_device.h. Build it into a program, or into a shared library: cc -shared -fPIC npu_device.c -o libnpu_device.so */
#define _POSIX_C_SOURCE 200809L
#include "npu_device.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* Messages: docs/firmware.md, "The protocol". */
enum { READ = 1, WRITE = 2, ADVANCE = 3, WAIT = 4, CLOSE = 5 };
enum { FETCH = 16, STORE = 17, INTERRUPT = 18, DONE = 19, REFUSED = 20 };
enum { DATA = 32, STORED = 33 };
enum { HEADER = 16, MOST_WINDOWS = 64, FIRST_ADDRESS = 0x10000000, PAGE = 4096 };
#define MISSING 0xFFFFFFFFu
#define ADDRESSES (UINT64_C(1) << 32)

typedef struct {
    uint64_t address;
    uint8_t *memory;
    size_t size;
    int writable;
} window;

struct npu_device {
    pid_t process;
    int to, from;
    npu_device_interrupt interrupt;
    void *context;
    window windows[MOST_WINDOWS];
    size_t count;
    uint64_t cycle, free_address;
    uint32_t access_cycles, value;
    unsigned changes, told; /* of the interrupt line, which alternate */
    char error[512];
};

typedef struct {
    uint32_t kind, value;
    uint64_t argument;
} message;

static void fail(npu_device *device, const char *what)
{
    if (!device->error[0]) {
        snprintf(device->error, sizeof device->error, "%s", what);
    }
}

static int put(npu_device *device, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    while (size && !device->error[0]) {
        ssize_t done = write(device->to, at, size);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            fail(device, "the device's process has ended");
        } else {
            at += done;
            size -= (size_t)done;
        }
    }
    return !device->error[0];
}

static int get(npu_device *device, void *bytes, size_t size)
{
    uint8_t *at = bytes;
    while (size && !device->error[0]) {
        ssize_t done = read(device->from, at, size);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            fail(device, "the device's process has ended");
        } else {
            at += done;
            size -= (size_t)done;
        }
    }
    return !device->error[0];
}

static void number(uint8_t *bytes, uint64_t value, int size)
{
    int i;
    for (i = 0; i < size; ++i) {
        bytes[i] = (uint8_t)(value >> 8 * i);
    }
}

static uint64_t numbered(const uint8_t *bytes, int size)
{
    uint64_t value = 0;
    while (size--) {
        value = value << 8 | bytes[size];
    }
    return value;
}

static int send(npu_device *device, uint32_t kind, uint32_t value, uint64_t argument)
{
    uint8_t header[HEADER];
    number(header, kind, 4);
    number(header + 4, value, 4);
    number(header + 8, argument, 8);
    return put(device, header, sizeof header);
}

static int receive(npu_device *device, message *found)
{
    uint8_t header[HEADER];
    if (!get(device, header, sizeof header)) {
        return 0;
    }
    found->kind = (uint32_t)numbered(header, 4);
    found->value = (uint32_t)numbered(header + 4, 4);
    found->argument = numbered(header + 8, 8);
    return 1;
}

static window *find(npu_device *device, uint64_t address, uint64_t size)
{
    size_t i;
    for (i = 0; i < device->count; ++i) {
        window *one = &device->windows[i];
        if (one->address <= address && size <= one->size && address - one->address <= one->size - size) {
            return one;
        }
    }
    return NULL;
}

static void store(npu_device *device, const message *asked)
{
    window *place = find(device, asked->argument, asked->value);
    int good = place && place->writable;
    if (good) {
        good = get(device, place->memory + (asked->argument - place->address), asked->value);
    } else {
        uint8_t skipped[PAGE];
        uint32_t left = asked->value;
        while (left && get(device, skipped, left < PAGE ? left : PAGE)) {
            left -= left < PAGE ? left : PAGE;
        }
    }
    send(device, STORED, good ? 0 : 1, 0);
}

/* Serves the device until it has done what was asked for. */
static void serve(npu_device *device)
{
    message asked;
    while (receive(device, &asked)) {
        if (asked.kind == FETCH) {
            window *place = find(device, asked.argument, asked.value);
            if (send(device, DATA, place ? asked.value : MISSING, 0) && place) {
                put(device, place->memory + (asked.argument - place->address), asked.value);
            }
        } else if (asked.kind == STORE) {
            store(device, &asked);
        } else if (asked.kind == INTERRUPT) {
            device->changes++;
        } else if (asked.kind == DONE) {
            device->value = asked.value;
            device->cycle = asked.argument;
            return;
        } else if (asked.kind == REFUSED) {
            uint32_t size = asked.value < sizeof device->error - 1 ? asked.value : (uint32_t)sizeof device->error - 1;
            char text[sizeof device->error] = {0};
            if (get(device, text, size)) {
                fail(device, text);
            }
            return;
        } else {
            fail(device, "the device's process speaks another protocol");
            return;
        }
    }
}

/* One request. The interrupt is told when it is over, so that the callback may make requests of its own. */
static void ask(npu_device *device, uint32_t kind, uint32_t value, uint64_t argument)
{
    if (device->error[0] || !send(device, kind, value, argument)) {
        return;
    }
    serve(device);
}

static void tell(npu_device *device)
{
    while (device->told != device->changes && !device->error[0]) {
        int level = (int)(++device->told & 1);
        if (device->interrupt) {
            device->interrupt(device->context, level);
        }
    }
}

npu_device *npu_device_open(const char *accelerator, const char *timing_adapter, npu_device_interrupt interrupt, void *context)
{
    const char *command = getenv("NPU_TESTBED");
    npu_device *device = calloc(1, sizeof *device);
    int down[2], up[2];
    if (!device) {
        return NULL;
    }
    if (pipe(down)) {
        free(device);
        return NULL;
    }
    if (pipe(up)) {
        close(down[0]);
        close(down[1]);
        free(device);
        return NULL;
    }
    signal(SIGPIPE, SIG_IGN);
    device->process = fork();
    if (device->process == 0) {
        dup2(down[0], 0);
        dup2(up[1], 1);
        close(down[0]);
        close(down[1]);
        close(up[0]);
        close(up[1]);
        execlp(command ? command : "npu-testbed", "npu-testbed", "device", "serve", "--accelerator-config",
               accelerator ? accelerator : "ethos-u55-128", "--timing-adapter", timing_adapter ? timing_adapter : "u55_high_end",
               (char *)NULL);
        _exit(127);
    }
    close(down[0]);
    close(up[1]);
    device->to = down[1];
    device->from = up[0];
    device->interrupt = interrupt;
    device->context = context;
    device->access_cycles = 1;
    device->free_address = FIRST_ADDRESS;
    if (device->process > 0) {
        ask(device, ADVANCE, 0, 0);
    }
    if (device->process < 0 || device->error[0]) {
        npu_device_close(device);
        return NULL;
    }
    return device;
}

void npu_device_close(npu_device *device)
{
    if (device) {
        send(device, CLOSE, 0, 0);
        close(device->to);
        close(device->from);
        if (device->process > 0) {
            waitpid(device->process, NULL, 0);
        }
        free(device);
    }
}

int npu_device_map(npu_device *device, uint64_t address, void *memory, size_t size, int writable)
{
    size_t i;
    if (device->count == MOST_WINDOWS || !size || address >= ADDRESSES || size > ADDRESSES - address) {
        return -1;
    }
    for (i = 0; i < device->count; ++i) {
        if (address < device->windows[i].address + device->windows[i].size && device->windows[i].address < address + size) {
            return -1;
        }
    }
    device->windows[device->count++] = (window){address, memory, size, writable};
    return 0;
}

uint64_t npu_device_address(npu_device *device, const void *memory, size_t size, int writable)
{
    size_t i;
    uint64_t address;
    for (i = 0; i < device->count; ++i) {
        const window *one = &device->windows[i];
        uintptr_t offset = (uintptr_t)memory - (uintptr_t)one->memory;
        if ((uintptr_t)memory >= (uintptr_t)one->memory && size <= one->size && offset <= one->size - size) {
            return one->address + offset;
        }
    }
    /* The same place in its page, so that alignment is what it is on the host. */
    address = device->free_address + (uintptr_t)memory % PAGE;
    if (npu_device_map(device, address, (void *)(uintptr_t)memory, size, writable)) {
        return 0;
    }
    device->free_address = (address + size + 2 * PAGE - 1) / PAGE * PAGE;
    return address;
}

uint32_t npu_device_read(npu_device *device, uint32_t offset)
{
    uint32_t value;
    ask(device, READ, device->access_cycles, offset);
    value = device->value;
    tell(device);
    return device->error[0] ? 0 : value;
}

void npu_device_write(npu_device *device, uint32_t offset, uint32_t value)
{
    ask(device, WRITE, value, (uint64_t)device->access_cycles << 32 | offset);
    tell(device);
}

void npu_device_access_cycles(npu_device *device, uint32_t cycles)
{
    device->access_cycles = cycles;
}

void npu_device_advance(npu_device *device, uint64_t cycles)
{
    ask(device, ADVANCE, 0, cycles);
    tell(device);
}

uint64_t npu_device_wait(npu_device *device, uint64_t most)
{
    uint64_t start = device->cycle, took;
    ask(device, WAIT, 0, most);
    took = device->cycle - start;
    tell(device);
    return took;
}

uint64_t npu_device_cycle(const npu_device *device)
{
    return device->cycle;
}

const char *npu_device_error(const npu_device *device)
{
    return device->error;
}
