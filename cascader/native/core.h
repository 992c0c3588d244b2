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
PyObject *native_trial(PyObject *, PyObject *const *, Py_ssize_t);

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
    int fits = flats[1].length == found.count && flats[2].length == found.count;
    *e = found;
    for (i64 i = 0; i < found.count && fits; i++) {
        fits = found.starts[i] >= 0 && found.ends[i] >= found.starts[i] && found.ends[i] < FAR;
        i64 steps = fits ? found.ends[i] - found.starts[i] : 0;
        fits = fits && steps <= flats[3].length / 2 && found.offsets[i] >= 0 && found.offsets[i] <= flats[3].length - 2 * steps;
    }
    if (fits) return 0;
    PyErr_SetString(PyExc_ValueError, "extents are starts, ends, offsets and data");
    return -1;
}

/* The jobs and the constants of a group: their numbers, its first and last part, of each job its part, kind, pair and rows, and the lines of
   the constants. */
enum { GROUP_JOBS, GROUP_LINES, GROUP_FIRST, GROUP_LAST, GROUP_HEAD };
enum { GROUP_PARTS, GROUP_KINDS, GROUP_PAIRS, GROUP_COLUMNS, GROUP_STARTS = GROUP_COLUMNS, GROUP_ENDS, GROUP_ALL_COLUMNS };
enum { LINE_FIRST = 3, LINE_LAST, LINE_EARLIEST, LINE_FIELDS };

/* Groups with the numbers of all their jobs and constants. */
typedef struct {
    Flat *at;
    Py_ssize_t count, taken;
    i64 jobs, lines;
} Groups;

static inline const i64 *column_of(const Flat *group, int column) { return group->at + GROUP_HEAD + column * group->at[GROUP_JOBS]; }

/* Take the groups of a list of arrays. Returns 0, or -1 with an exception set; groups_release them in either case. */
int groups_get(PyObject *list, Groups *groups);
void groups_release(Groups *groups);

/* Write parts, kinds and pairs of all jobs, and the lines of all constants; `borders` and `segments` as native_joined takes them. */
void join_groups(const Groups *groups, const Flat *borders, const Flat *segments, i64 *columns, i64 *lines);
int are_beside(const Groups *groups, const Flat *borders, const Flat *segments);

/* The buffers of some jobs behind each other in `out`: the number of buffers, the most bytes live at one step, and what stands behind them. */
enum { BUFFERS, LIVE, BUFFERS_HEAD };
int make_buffers(const Graph *graph, const i64 *jobs, i64 steps, const i64 *crossing, i64 in_place, Growing *out);

static inline Extents extents_of(const Growing *buffers)
{
    const i64 *at = buffers->at, count = at[BUFFERS];
    Extents found = {at + BUFFERS_HEAD, at + BUFFERS_HEAD + count, at + BUFFERS_HEAD + 2 * count, at, count};
    return found;
}

/* The peak and the addresses that `moves` find, none of them those of a greedy search; -1 without memory. */
i64 find_addresses(const Extents *extents, i64 alignment, i64 moves, uint64_t seed, i64 *addresses);

/* The cycles of a kind of jobs. */
enum { TIME_STAGED, TIME_DIRECT, TIME_LEAD, TIME_TAIL, TIME_CONTENDED, TIME_HOME, TIME_STAGED_LEAD, TIME_STAGED_TAIL, TIME_COPIER,
       TIME_STAGED_CONTENDED, TIME_STAGED_HOME, TIME_READING, TIME_COMMANDS, TIME_COMMANDS_CONTENDED, TIME_FIRST_COMMANDS, TIME_AHEAD, TIME_TABLE,
       TIME_LATE_TABLE, TIME_COPY_COMMANDS, TIME_LAST_TRANSFER,
       TIME_COPY_WAIT, TIME_FIELDS };

/* Jobs and constants to be copied, as cascader.prefetch.copies has them, and an arena of `budget` bytes in at most so many units. */
typedef struct {
    i64 steps, parts, count, budget, alignment, most_units, *pair_costs;
    const i64 *job_parts, *job_kinds, *kinds, *pairs, *copies;
    PyObject *shared;
} Copying;

/* Whether the jobs, of kinds and pairs of which there are so many, and the constants fit each other; else an exception is set. */
int copying_fits(const Copying *copying, i64 kinds, i64 pairs);

/* The fewest cycles with any of some sets of copies, each a mark for every copy; -1 on failure. */
i64 fewest_cycles(const Copying *copying, const Extents *extents, const i64 *addresses, const i64 *sets, i64 count);

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
