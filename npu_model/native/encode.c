/* Weights coded as streams that npu_model/weight_stream/mlw.py reads, byte for byte as mlw_codec of Vela 5.2.0 codes them: tests hold the
   two together, and that codec runs where this core was not built. A stream is cut into sections with a palette each, a section into
   slices with a code each. */

#include "encode.h"
#include "order.h"

/* The codes of a section; the arrays have room for every weight of the stream. */
typedef struct {
    int16_t *indices;
    int32_t *runs;
    Ways ways;
    Growing codes, run_codes;
} Desk;

static i64 index_section(const int16_t *values, i64 count, const Palette *p, Desk *desk)
{
    i64 found = 0;
    if (!p->has_runs) {
        for (i64 i = 0; i < count; i++) desk->indices[i] = p->index[values[i] + ZERO];
        return count;
    }
    for (i64 i = 0;;) {
        i64 first = i;
        /* A slice has a weight at least: of nothing but zeros the first is one. */
        if (!p->only_zeros || i) while (i < count && !values[i]) i++;
        desk->runs[found] = (int32_t)(i - first);
        if (i == count) return found;
        desk->indices[found++] = p->index[values[i++] + ZERO];
    }
}

enum { LONGEST_SLICE = 32767 };

static void put_section(Writer *w, const int16_t *values, i64 count, Desk *desk)
{
    Palette p = make_palette(values, count);
    i64 found = index_section(values, count, &p, desk);
    choose_codes(desk->indices, found, p.raw_bits, &desk->ways, &desk->codes);
    if (p.has_runs) choose_run_codes(desk->runs, found + 1, &desk->codes, &desk->ways, &desk->run_codes);
    if (desk->codes.failed || desk->run_codes.failed) return;
    const i64 *codes = desk->codes.at, *run_codes = desk->run_codes.at;
    for (i64 at = 0; at < found && !w->failed;) {
        i64 end = least(least(at + LONGEST_SLICE, codes[1]), p.has_runs ? least(run_codes[1], found) : found);
        const int32_t *runs = p.has_runs ? desk->runs + at + (at > 0) : NULL;
        put_slice(w, &p, desk->indices + at, runs, end - at, codes[0], p.has_runs ? run_codes[0] : 0, !at);
        if (codes[1] == end) codes += 2;
        if (p.has_runs && run_codes[1] == end) run_codes += 2;
        at = end;
    }
}

static int desk_begin(Desk *desk, i64 count)
{
    size_t room = (size_t)count + 1;
    desk->indices = malloc(room * sizeof(int16_t));
    desk->runs = malloc(room * sizeof(int32_t));
    desk->ways.best = malloc(room);
    desk->ways.from_best = malloc(room * sizeof(uint16_t));
    desk->ways.costs = malloc(VALUES * sizeof(Lanes));
    desk->ways.raw_bits = -1;
    return desk->indices && desk->runs && desk->ways.best && desk->ways.from_best && desk->ways.costs ? 0 : -1;
}

static void desk_end(Desk *desk)
{
    free(desk->indices);
    free(desk->runs);
    free(desk->ways.best);
    free(desk->ways.from_best);
    free(desk->ways.costs);
    free(desk->codes.at);
    free(desk->run_codes.at);
}

/* The stream of some weights, and what fills it up to 16 bytes. Returns less than nothing if memory ran out. */
static int put_stream(Writer *w, const int16_t *values, i64 count)
{
    Growing starts = {0};
    Desk desk = {0};
    int failed = desk_begin(&desk, count) < 0 || cut_sections(values, count, &starts) < 0;
    for (size_t i = 0; !failed && i < starts.length; i++) {
        i64 end = i + 1 < starts.length ? starts.at[i + 1] : count;
        put_section(w, values + starts.at[i], end - starts.at[i], &desk);
        failed = w->failed || desk.codes.failed || desk.run_codes.failed;
    }
    if (!failed) put_end(w);
    desk_end(&desk);
    free(starts.at);
    return failed || w->failed ? -1 : 0;
}

/* Whether all weights have 9 bits; else an exception is set. */
static int are_weights(const int16_t *values, i64 count)
{
    int fits = 1;
    for (i64 i = 0; i < count; i++) fits &= (values[i] >= -ZERO) & (values[i] < VALUES - ZERO);
    if (!fits) PyErr_SetString(PyExc_ValueError, "weights have 9 bits");
    return fits;
}

/* The stream of some weights (OHWI, 16 bits each) in the order of a format; other threads go on meanwhile. */
PyObject *encode_weights(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Flat bytes, terms;
    (void)module;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "weights and the terms of their order are needed");
        return NULL;
    }
    if (bytes_get(arguments[0], &bytes) < 0) return NULL;
    if (flat_get(arguments[1], &terms, 0) < 0) {
        PyBuffer_Release(&bytes.view);
        return NULL;
    }
    Order order;
    Writer w = {0};
    PyObject *result = NULL;
    if (order_get(&terms, &order, bytes.view.len) == 0 && are_weights((const int16_t *)bytes.view.buf, bytes.view.len / 2)) {
        int failed;
        Py_BEGIN_ALLOW_THREADS
        i64 all = ordered_count(&order);
        int16_t *values = all > INT32_MAX ? NULL : malloc(sizeof(int16_t) * (size_t)all);
        failed = !values;
        if (!failed) {
            order_weights((const int16_t *)bytes.view.buf, values, &order);
            failed = put_stream(&w, values, all) < 0;
        }
        free(values);
        Py_END_ALLOW_THREADS
        result = failed ? PyErr_NoMemory() : PyBytes_FromStringAndSize((const char *)w.at, (Py_ssize_t)w.length);
    }
    free(w.at);
    PyBuffer_Release(&terms.view);
    PyBuffer_Release(&bytes.view);
    return result;
}
