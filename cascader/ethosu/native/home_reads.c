/* The least times of the units behind a kernel that reads its constants at home, transaction by transaction, as
   cascader/ethosu/proof/home_reads.py says: that is the specification. */

#include "home_reads.h"

#define LONG_AGO (-((i64)1 << 40))

enum { MOST_SLOTS = 64, MOST_ENDS = 8 };

/* HomePort.flat */
typedef struct {
    i64 cap, on, period, most_reads, latency, cycles, words, ahead;
} Home;

/* Transactions that have been issued: Issued of home_reads.py. */
typedef struct {
    i64 time, words, path, ends[MOST_ENDS];
} Port;

/* Before a kernel: Begun of home_reads.py. */
typedef struct {
    i64 load, mac, output, store, finish, gate, begin, slots;
    Port port;
} Begun;

typedef struct {
    i64 load, mac, output, store, finish;
} Times;

enum { HOME = sizeof(Home) / sizeof(i64), BEGUN = sizeof(Begun) / sizeof(i64), TIMES = sizeof(Times) / sizeof(i64), PORT = sizeof(Port) / sizeof(i64) };

/* Numbers one after the other; `failed` once more were taken than there are. */
typedef struct {
    const i64 *at, *end;
    int failed;
} Cursor;

static i64 take(Cursor *cursor)
{
    if (cursor->at < cursor->end) return *cursor->at++;
    cursor->failed = 1;
    return 0;
}

/* The next `count` numbers, none if there are not so many. */
static const i64 *take_all(Cursor *cursor, i64 count)
{
    const i64 *found = cursor->at;
    if (count < 0 || count > cursor->end - cursor->at) {
        cursor->failed = 1;
        return NULL;
    }
    cursor->at += count;
    return found;
}

/* When the last slots were left, in a ring of as many as there are. */
typedef struct {
    i64 at[MOST_SLOTS], count;
} Ends;

static void push(Ends *ends, i64 slots, i64 time) { ends->at[ends->count++ % slots] = time; }

static i64 behind(const Ends *ends, i64 slots) { return ends->count >= slots ? ends->at[ends->count % slots] : LONG_AGO; }

static void issue(Port *port, const Home *home, i64 request, i64 words)
{
    i64 time = most(most(request, port->time + 1), div_up(port->path, home->words) - home->ahead);
    if (home->most_reads) time = most(time, port->ends[home->most_reads - 1]);
    if (home->period) {
        i64 period = div_down(time, home->period), passed = period == div_down(port->time, home->period) ? port->words : 0;
        if (passed >= home->cap || time - period * home->period >= home->on) {
            time = (period + 1) * home->period;
            passed = 0;
        }
        port->words = passed + words;
    }
    port->time = time;
    port->path = most(port->path, (time + home->latency) * home->words) + words * home->cycles;
    memmove(port->ends + 1, port->ends, sizeof(port->ends) - sizeof(i64));
    port->ends[0] = div_up(port->path, home->words);
}

static void lower_port(Port *port, const Port *other, const Home *home)
{
    if (home->period) {
        i64 own = div_down(port->time, home->period), others = div_down(other->time, home->period);
        if (others < own || (others == own && other->words < port->words)) port->words = other->words;
    }
    port->time = least(port->time, other->time);
    port->path = least(port->path, other->path);
    for (int i = 0; i < MOST_ENDS; i++) port->ends[i] = least(port->ends[i], other->ends[i]);
}

/* The transactions of a step's weights and scales, requested at one cycle, in whichever order is best. Returns -1 if memory ran out. */
static int read_step(Port *port, const Home *home, i64 request, Cursor *stream)
{
    i64 weights = take(stream), scales = take(stream);
    const i64 *weight = take_all(stream, weights), *scale = take_all(stream, scales);
    if (stream->failed) return 0;
    if (!scales) {
        for (i64 i = 0; i < weights; i++) issue(port, home, request, weight[i]);
        return 0;
    }
    /* Behind so many transactions of the weights, and those of the scales so far. */
    Port *row = malloc(((size_t)weights + 1) * sizeof(Port));
    if (!row) return -1;
    row[0] = *port;
    for (i64 i = 0; i < weights; i++) {
        row[i + 1] = row[i];
        issue(&row[i + 1], home, request, weight[i]);
    }
    for (i64 j = 0; j < scales; j++) {
        issue(&row[0], home, request, scale[j]);
        for (i64 i = 0; i < weights; i++) {
            Port other = row[i];
            issue(&other, home, request, weight[i]);
            issue(&row[i + 1], home, request, scale[j]);
            lower_port(&row[i + 1], &other, home);
        }
    }
    *port = row[weights];
    free(row);
    return 0;
}

/* A kernel in one block: its load waits for the kernel before at block `held`, until `drained` cycles after that has finished. */
static int read_kernel(Times *now, Port *port, const Begun *begun, const Home *home, const i64 held[2], Cursor *stream)
{
    i64 slots = begun->slots, load = begun->load, decoded = most(begun->load, begun->gate), mac = begun->mac, output = begun->output;
    i64 store = begun->store, blocks = take(stream), response = take(stream), rest = take(stream);
    Ends groups = {.count = 0}, steps = groups, outputs = groups, stores = groups;
    push(&groups, slots, mac);
    push(&steps, slots, mac);
    push(&outputs, slots, output);
    push(&stores, slots, store);
    for (i64 block = 0; block < blocks && !stream->failed; block++) {
        i64 count = take(stream), output_cycles = take(stream), stored = take(stream), accumulators = behind(&outputs, slots);
        if (block == held[0]) load = most(load, begun->finish + held[1]);
        for (i64 step = 0; step < count && !stream->failed; step++) {
            i64 fetched = take(stream), macs = take(stream), continues = take(stream);
            load = (continues ? load : most(load, behind(&groups, slots))) + fetched;
            decoded = most(decoded, behind(&steps, slots));
            i64 before = port->time;
            if (read_step(port, home, decoded - begun->begin, stream) < 0) return -1;
            if (port->time != before) decoded = most(decoded, port->ends[0] + begun->begin);
            mac = most(most(mac, load), most(decoded, accumulators)) + macs;
            push(&steps, slots, mac);
            if (continues)
                groups.at[(groups.count - 1) % slots] = mac;
            else
                push(&groups, slots, mac);
        }
        output = most(most(output, mac), behind(&stores, slots)) + output_cycles;
        push(&outputs, slots, output);
        store = most(store, output) + stored + response;
        push(&stores, slots, store);
    }
    *now = (Times){load, mac, output, store, store + rest};
    return 0;
}

static void raise_all(i64 *times, const i64 *others, i64 count)
{
    for (i64 i = 0; i < count; i++) times[i] = most(times[i], others[i]);
}

static void lower_all(i64 *times, const i64 *others, i64 count)
{
    for (i64 i = 0; i < count; i++) times[i] = least(times[i], others[i]);
}

/* Each block's times are raised; then come the least of each time and the least port. Returns 0, or -1 with an exception set. */
static int raise_blocks(i64 *times, i64 blocks, Port *port, const Flat flats[4])
{
    const Begun *begun = (const Begun *)flats[3].at;
    const Home *home = (const Home *)flats[2].at;
    Cursor stream = {flats[0].at, flats[0].at + flats[0].length, 0};
    for (i64 block = 0; block < blocks; block++) {
        Port own = begun->port;
        Times now;
        if (read_kernel(&now, &own, begun, home, flats[1].at + 2 * block, &stream) < 0) {
            PyErr_NoMemory();
            return -1;
        }
        raise_all(times + block * TIMES, (const i64 *)&now, TIMES);
        if (block) {
            lower_all(times + blocks * TIMES, times + block * TIMES, TIMES);
            lower_port(port, &own, home);
        } else {
            memcpy(times + blocks * TIMES, times, sizeof(Times));
            *port = own;
        }
    }
    if (!stream.failed && stream.at == stream.end) return 0;
    PyErr_SetString(PyExc_ValueError, "home_reads was given a stream that does not fit its blocks");
    return -1;
}

/* home_reads(stream, held, home, begun, times): the times, raised, and then the port. */
PyObject *home_reads(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Flat flats[5];
    PyObject *result = NULL;
    (void)module;
    if (count != 5) return PyErr_Format(PyExc_TypeError, "home_reads takes 5 arguments, not %zd", count);
    if (flat_all(arguments, flats, 5, 5) < 0) return NULL;
    i64 blocks = flats[4].length / TIMES - 1;
    const Begun *begun = (const Begun *)flats[3].at;
    const Home *home = (const Home *)flats[2].at;
    int fits = flats[2].length == HOME && flats[3].length == BEGUN && blocks > 0 && flats[4].length % TIMES == 0 && flats[1].length == 2 * blocks;
    if (!fits || begun->slots < 1 || begun->slots > MOST_SLOTS || home->most_reads < 0 || home->most_reads > MOST_ENDS || home->words < 1)
        PyErr_SetString(PyExc_ValueError, "home_reads was given arrays that do not fit each other");
    else if ((result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)((flats[4].length + PORT) * (i64)sizeof(i64))))) {
        i64 *after = (i64 *)PyBytes_AsString(result);
        memcpy(after, flats[4].at, (size_t)flats[4].length * sizeof(i64));
        if (raise_blocks(after, blocks, (Port *)(after + flats[4].length), flats) < 0) Py_CLEAR(result);
    }
    flat_release(flats, 5);
    return result;
}
