/* The functions of the compiled core of the cascader; each has its Python form, which says what it does. */
#ifndef CORE_H
#define CORE_H

#include "graph.h"

#define FAR ((i64)1 << 40)

PyObject *native_depth_first(PyObject *, PyObject *const *, Py_ssize_t);
PyObject *native_distances(PyObject *, PyObject *const *, Py_ssize_t);
PyObject *native_buffers(PyObject *, PyObject *const *, Py_ssize_t);
PyObject *native_group_bytes(PyObject *, PyObject *const *, Py_ssize_t);
PyObject *native_allocate(PyObject *, PyObject *const *, Py_ssize_t);
PyObject *native_placements(PyObject *, PyObject *const *, Py_ssize_t);
PyObject *native_joined(PyObject *, PyObject *const *, Py_ssize_t);
PyObject *native_copies(PyObject *, PyObject *const *, Py_ssize_t);
PyObject *native_propose(PyObject *, PyObject *const *, Py_ssize_t);
PyObject *native_plans(PyObject *, PyObject *const *, Py_ssize_t);

/* The jobs of `group` (first, last, stripe rows, inner rows), three numbers each. Returns whether memory ran out. */
int jobs_of_group(const Graph *graph, const i64 *group, Growing *jobs);

/* The bytes of the groups that begin with part last, last - 1, ... first; `how` is first, last, in_place. As above. */
int bytes_of_groups(const Graph *graph, const i64 *jobs, i64 steps, const i64 *how, Growing *out);

/* Extents as cascader.allocate.moving.Extents holds them: `data` has the low bytes of each from its offset on, then the high ones. */
typedef struct {
    const i64 *starts, *ends, *offsets, *data;
    i64 count;
} Extents;

static inline const i64 *low_of(const Extents *e, i64 i) { return e->data + e->offsets[i]; }
static inline const i64 *high_of(const Extents *e, i64 i) { return e->data + e->offsets[i] + e->ends[i] - e->starts[i]; }

static inline int extents_get(const Flat *flats, Extents *e)
{
    Extents found = {flats[0].at, flats[1].at, flats[2].at, flats[3].at, flats[0].length};
    *e = found;
    if (flats[1].length == e->count && flats[2].length == e->count) return 0;
    PyErr_SetString(PyExc_ValueError, "extents are starts, ends, offsets and data");
    return -1;
}

/* cascader.plan.buffers.rolled: the places in use of a buffer of `rows`, in place of the rows low to high that are live. */
void rolled(i64 *low, i64 *high, i64 steps, i64 rows);

/* cascader.plan.buffers.rolling_rows for tensors that roll by `unit` rows. */
static inline i64 rolling_rows(i64 unit, i64 live, i64 made) { return least(made, div_up(live, unit) * unit); }

static inline i64 common_multiple(i64 a, i64 b)
{
    i64 x = a, y = b;
    while (y) {
        i64 rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

#endif
