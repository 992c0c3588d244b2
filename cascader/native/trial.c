/* Groups with a set of copies, tried: what cascader.search.trials.trial_in_python says, in C. */
#include "core.h"

#define NO_LIMIT ((i64)1 << 62)
#define UNKNOWN (-2)

enum { HOW_BUDGET, HOW_ALIGNMENT, HOW_UNITS, HOW_IN_PLACE };

/* All jobs as part and rows, behind each other. */
static void write_jobs(const Groups *groups, i64 *jobs)
{
    for (Py_ssize_t g = 0; g < groups->count; g++) {
        const Flat *group = &groups->at[g];
        const i64 *parts = column_of(group, GROUP_PARTS), *starts = column_of(group, GROUP_STARTS), *ends = column_of(group, GROUP_ENDS);
        for (i64 job = 0; job < group->at[GROUP_JOBS]; job++, jobs += 3) jobs[0] = parts[job], jobs[1] = starts[job], jobs[2] = ends[job];
    }
}

/* cascader.plan.depth_first.crossing_tensors: whether several groups use a tensor, or the user. `last_user` has room for all tensors. */
static void find_crossing(const Graph *graph, const Groups *groups, i64 *crossing, i64 *last_user)
{
    for (i64 t = 0; t < tensor_count(graph); t++) {
        crossing[t] = tensor_at(graph, t)[TENSOR_PRESENT] || tensor_at(graph, t)[TENSOR_KEPT];
        last_user[t] = -1;
    }
    for (Py_ssize_t g = 0; g < groups->count; g++)
        for (i64 part = groups->at[g].at[GROUP_FIRST]; part <= groups->at[g].at[GROUP_LAST]; part++) {
            for (i64 i = graph->inputs_of[part]; i < graph->inputs_of[part + 1]; i++) {
                i64 tensor = graph->inputs[i * IN_FIELDS + IN_TENSOR];
                if (last_user[tensor] >= 0 && last_user[tensor] != g) crossing[tensor] = 1;
                last_user[tensor] = g;
            }
            for (i64 o = graph->outputs_of[part]; o < graph->outputs_of[part + 1]; o++) {
                i64 tensor = graph->outputs[o * OUT_FIELDS + OUT_TENSOR];
                if (last_user[tensor] >= 0 && last_user[tensor] != g) crossing[tensor] = 1;
                last_user[tensor] = g;
            }
        }
}

/* The numbers that a trial needs room for: jobs, their columns, the lines of constants, and for each tensor whether it crosses groups. */
typedef struct {
    i64 *jobs, *columns, *lines, *crossing, *last_user;
} Room;

static int room_make(Room *room, const Graph *graph, const Groups *groups)
{
    i64 steps = groups->jobs, tensors = tensor_count(graph);
    room->jobs = malloc((size_t)((3 + GROUP_COLUMNS) * steps + LINE_FIELDS * groups->lines + 2 * tensors + 1) * sizeof(i64));
    if (!room->jobs) return -1;
    room->columns = room->jobs + 3 * steps;
    room->lines = room->columns + GROUP_COLUMNS * steps;
    room->crossing = room->lines + LINE_FIELDS * groups->lines;
    room->last_user = room->crossing + tensors;
    return 0;
}

/* The fewer cycles of those with the marked parts' constants copied, and with all, as far as these find a place; -1 on failure. */
static i64 copied(const Copying *copying, const Extents *extents, const i64 *addresses, const i64 *marked)
{
    i64 count = copying->count, cycles = -1, *sets = malloc((size_t)(2 * count + 1) * sizeof(i64));
    if (!sets) return -1;
    for (i64 copy = 0; copy < count; copy++) {
        sets[copy] = marked[copying->copies[copy * LINE_FIELDS]];
        sets[count + copy] = 1;
    }
    cycles = fewest_cycles(copying, extents, addresses, sets, 2);
    free(sets);
    return cycles;
}

/* The same wherever a greedy search puts the buffers: UNKNOWN if not within the budget; -1 on failure. */
static i64 placed_and_copied(const Copying *copying, const Growing *buffers, const i64 *marked)
{
    Extents extents = extents_of(buffers);
    i64 *addresses = malloc((size_t)(extents.count + 1) * sizeof(i64)), cycles = -1;
    if (!addresses) return -1;
    i64 peak = extents.count ? find_addresses(&extents, copying->alignment, 0, 1, addresses) : 0;
    if (peak >= 0) cycles = peak > copying->budget ? UNKNOWN : copied(copying, &extents, addresses, marked);
    free(addresses);
    return cycles;
}

/* The arrays of a trial, in their order. */
enum { GRAPH, BORDERS, SEGMENTS, MARKED, KINDS, HOW, PAIR_COSTS, ARRAYS };

/* Whether the arrays of a trial fit its graph and its groups; else an exception is set. */
static int trial_fits(const Graph *graph, const Groups *groups, const Flat *f)
{
    if (!flat_has(&f[MARKED], (Py_ssize_t)part_count(graph)) || !flat_has(&f[HOW], HOW_IN_PLACE + 1)) return 0;
    const i64 *how = f[HOW].at;
    int fits = are_within(how + HOW_ALIGNMENT, 2, 1, 1, FAR) && are_within(how + HOW_BUDGET, 1, 1, -FAR, INT64_MAX);
    for (Py_ssize_t g = 0; g < groups->count && fits; g++) {
        const i64 *head = groups->at[g].at;
        fits = are_within(column_of(&groups->at[g], GROUP_PARTS), head[GROUP_JOBS], 1, 0, part_count(graph));
        if (fits && !parts_fit(graph, head[GROUP_FIRST], head[GROUP_LAST])) return 0;
    }
    if (!fits) PyErr_SetString(PyExc_ValueError, "a trial is of jobs of the graph, with an alignment and units above 0");
    return fits;
}

static i64 tried(const Graph *graph, const Groups *groups, const Flat *f, PyObject *shared)
{
    const i64 *how = f[HOW].at;
    Room room;
    Growing buffers = {0};
    i64 cycles = -1;
    if (room_make(&room, graph, groups) < 0) return -1;
    write_jobs(groups, room.jobs);
    join_groups(groups, &f[BORDERS], &f[SEGMENTS], room.columns, room.lines);
    find_crossing(graph, groups, room.crossing, room.last_user);
    if (make_buffers(graph, room.jobs, groups->jobs, room.crossing, how[HOW_IN_PLACE], &buffers) == 0) {
        Copying copying = {
            .steps = groups->jobs,
            .parts = part_count(graph),
            .count = groups->lines,
            .budget = how[HOW_BUDGET],
            .alignment = how[HOW_ALIGNMENT],
            .most_units = how[HOW_UNITS],
            .pair_costs = f[PAIR_COSTS].at,
            .job_parts = room.columns + GROUP_PARTS * groups->jobs,
            .job_kinds = room.columns + GROUP_KINDS * groups->jobs,
            .kinds = f[KINDS].at,
            .pairs = room.columns + GROUP_PAIRS * groups->jobs,
            .copies = room.lines,
            .shared = shared,
        };
        if (copying_fits(&copying, f[KINDS].length / TIME_FIELDS, f[PAIR_COSTS].length / 4))
            cycles = buffers.at[LIVE] > how[HOW_BUDGET] ? NO_LIMIT : placed_and_copied(&copying, &buffers, f[MARKED].at);
    }
    free(buffers.at);
    free(room.jobs);
    return cycles;
}

/* trial(groups, graph, borders, segments, marked, kinds, [budget, alignment, most units, in place], pair costs, shared)
   -> cycles; NO_LIMIT if more bytes are live than the budget, UNKNOWN if addresses are to be searched for.
   Borders and segments as native_joined takes them; `marked` has a mark for each part. */
PyObject *native_trial(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    Flat f[ARRAYS];
    Graph graph;
    Groups groups;
    i64 cycles = -1;
    if (count != ARRAYS + 2) return PyErr_Format(PyExc_TypeError, "trial takes 9 arguments");
    if (flat_all(arguments + 1, f, ARRAYS, PAIR_COSTS) < 0) return NULL;
    if (groups_get(arguments[0], &groups) == 0 && are_beside(&groups, &f[BORDERS], &f[SEGMENTS]) && graph_get(&f[GRAPH], &graph) == 0 &&
        trial_fits(&graph, &groups, f)) {
        cycles = tried(&graph, &groups, f, arguments[ARRAYS + 1]);
        if (cycles == -1 && !PyErr_Occurred()) PyErr_NoMemory();
    }
    groups_release(&groups);
    flat_release(f, ARRAYS);
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(cycles);
}
