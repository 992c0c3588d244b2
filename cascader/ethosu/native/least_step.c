/* The least times of the units behind a kernel in each of its blocks, whichever block the one before was made in, as
   cascader/ethosu/proof/least_step.py says: that is the specification. */

#include "least_step.h"

/* Cycles at which the units are done: Times of cascader/ethosu/proof/least_flow.py. */
typedef struct {
    i64 load, mac, output, store, finish;
} Times;

/* The four units of which each waits for those before and for free slots behind it. */
enum { UNITS = 4 };

/* A kernel's flow from the moment on at which its input load, its MACs, its output unit or its write-back is free until each unit is done,
   and until the last response: LeastFlow.flat. */
typedef struct {
    i64 free[UNITS][UNITS], rest;
} Flow;

/* The same from the moment on at which the kernel before has finished: LeastFlow.released. */
typedef struct {
    i64 load, mac, output, store;
} Released;

enum { TIMES = sizeof(Times) / sizeof(i64), FLOW = sizeof(Flow) / sizeof(i64), RELEASED = sizeof(Released) / sizeof(i64) };

static void raise_to(i64 *time, i64 other)
{
    if (other > *time) *time = other;
}

static void lower_all(Times *least_of, const Times *times)
{
    least_of->load = least(least_of->load, times->load);
    least_of->mac = least(least_of->mac, times->mac);
    least_of->output = least(least_of->output, times->output);
    least_of->store = least(least_of->store, times->store);
    least_of->finish = least(least_of->finish, times->finish);
}

static Times behind(const Flow *flow, const Released *released, const Times *before)
{
    const i64 at[UNITS] = {before->load, before->mac, before->output, before->store};
    Times now = {
        .load = at[0] + flow->free[0][0],
        .mac = at[0] + flow->free[0][1],
        .output = at[0] + flow->free[0][2],
        .store = at[0] + flow->free[0][3],
    };
    for (int unit = 1; unit < UNITS; unit++) {
        raise_to(&now.load, at[unit] + flow->free[unit][0]);
        raise_to(&now.mac, at[unit] + flow->free[unit][1]);
        raise_to(&now.output, at[unit] + flow->free[unit][2]);
        raise_to(&now.store, at[unit] + flow->free[unit][3]);
    }
    raise_to(&now.load, before->finish + released->load);
    raise_to(&now.mac, before->finish + released->mac);
    raise_to(&now.output, before->finish + released->output);
    raise_to(&now.store, before->finish + released->store);
    now.finish = now.store + flow->rest;
    return now;
}

/* A kernel that begins at cycle `start` or later, and its MACs at cycle `macs` or later. */
static void delay(Times *now, const Flow *flow, i64 start, i64 macs)
{
    const i64 at[2] = {start, macs};
    for (int unit = 0; unit < 2; unit++) {
        raise_to(&now->load, at[unit] + flow->free[unit][0]);
        raise_to(&now->mac, at[unit] + flow->free[unit][1]);
        raise_to(&now->output, at[unit] + flow->free[unit][2]);
        raise_to(&now->store, at[unit] + flow->free[unit][3]);
    }
    raise_to(&now->finish, now->store + flow->rest);
}

/* The least times of a kernel in one block behind the kernel before in each of its `befores` blocks, of which `released` has one after
   the other; or behind that in block `origin` alone (-1: any). */
static Times behind_any(const Flow *flow, const Released *released, const Times *before, i64 befores, i64 origin)
{
    if (origin >= 0) return behind(flow, &released[origin], &before[origin]);
    Times found = behind(flow, &released[0], &before[0]);
    for (i64 i = 1; i < befores; i++) {
        Times other = behind(flow, &released[i], &before[i]);
        lower_all(&found, &other);
    }
    return found;
}

static int are_origins(const Flat *origins, i64 blocks, i64 befores)
{
    if (origins->length && origins->length != blocks) return 0;
    for (i64 i = 0; i < origins->length; i++)
        if (origins->at[i] < 0 || origins->at[i] >= befores) return 0;
    return 1;
}

/* least_step(times, link, origins, start, macs): times for each block of the kernel before and then the least of each; flows of the
   kernel in each of its blocks, and then for each of these and each block before what is released; for each of its blocks that of the
   kernel before, or nothing if it is any. The result is as the times are. */
PyObject *least_step(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Flat flats[3];
    i64 cycles[2];
    (void)module;
    if (count != 5) return PyErr_Format(PyExc_TypeError, "least_step takes 5 arguments, not %zd", count);
    for (int i = 0; i < 2; i++)
        if ((cycles[i] = PyLong_AsLongLong(arguments[3 + i])) == -1 && PyErr_Occurred()) return NULL;
    if (flat_all(arguments, flats, 3, 3) < 0) return NULL;
    i64 befores = flats[0].length / TIMES - 1, row = FLOW + befores * RELEASED, blocks = befores < 1 ? 0 : flats[1].length / row;
    PyObject *result = NULL;
    if (blocks < 1 || flats[0].length % TIMES || flats[1].length % row || !are_origins(&flats[2], blocks, befores))
        PyErr_SetString(PyExc_ValueError, "least_step was given arrays that do not fit each other");
    else
        result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)((blocks + 1) * (i64)sizeof(Times)));
    if (result) {
        const Times *before = (const Times *)flats[0].at;
        const Flow *flows = (const Flow *)flats[1].at;
        const Released *released = (const Released *)(flats[1].at + blocks * FLOW);
        Times *after = (Times *)PyBytes_AsString(result);
        for (i64 block = 0; block < blocks; block++, released += befores) {
            after[block] = behind_any(&flows[block], released, before, befores, flats[2].length ? flats[2].at[block] : -1);
            delay(&after[block], &flows[block], cycles[0], cycles[1]);
            if (block)
                lower_all(&after[blocks], &after[block]);
            else
                after[blocks] = after[0];
        }
    }
    flat_release(flats, 3);
    return result;
}
