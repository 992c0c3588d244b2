/* The depth-first order: cascader.plan.depth_first in C. */
#include "core.h"

typedef struct {
    const Graph *graph;
    i64 first, last, *chunks, *done;
    Growing jobs;
} Run;

/* Rows that a reader's stripe of `rows` asks of a part; -1 if it asks for all of them, or for any. */
static i64 asked(i64 rows, const i64 *in, const i64 *out)
{
    i64 read = in[IN_VIEW] ? in[IN_STEP] : 1, unit = out[OUT_VIEW] ? out[OUT_STEP] : 1;
    if (in[IN_WHOLE]) return -1;
    if (!in[IN_VIEW] && out[OUT_VIEW]) read = out[OUT_UNIT];
    if (in[IN_VIEW] && !out[OUT_VIEW]) unit = in[IN_UNIT];
    return read && unit ? div_down(rows * in[IN_STRIDE] * read, in[IN_UPSCALE] * unit) : -1;
}

static i64 chunk(const Run *run, i64 part, i64 stripe_rows, i64 inner_rows)
{
    const Graph *g = run->graph;
    const i64 *facts = part_at(g, part);
    i64 rows = -1;
    for (i64 o = g->outputs_of[part]; o < g->outputs_of[part + 1]; o++) {
        const i64 *out = g->outputs + o * OUT_FIELDS;
        for (i64 r = g->readers_of[out[OUT_TENSOR]]; r < g->readers_of[out[OUT_TENSOR] + 1]; r++) {
            i64 reader = g->readers[2 * r];
            const i64 *in = g->inputs + g->readers[2 * r + 1] * IN_FIELDS;
            if (reader <= part || reader > run->last || in[IN_TAPS] >= in[IN_ROWS]) continue;
            i64 wanted = asked(run->chunks[reader], in, out);
            if (wanted >= 0 && (rows < 0 || wanted < rows)) rows = wanted;
        }
    }
    rows = rows < 0 ? stripe_rows : most(1, rows);
    if (part < run->last && inner_rows) rows = least(rows, inner_rows);
    if (facts[PART_MOST_ROWS]) rows = least(rows, facts[PART_MOST_ROWS]);
    return facts[PART_ATOMIC] ? facts[PART_ROWS] : least(facts[PART_ROWS], div_up(rows, facts[PART_ALIGN]) * facts[PART_ALIGN]);
}

static void produce(Run *run, i64 part, i64 until)
{
    const Graph *g = run->graph;
    const i64 *facts = part_at(g, part);
    if (until <= 0) return;
    until = facts[PART_ATOMIC] ? facts[PART_ROWS] : least(facts[PART_NEEDED], border_from(facts, until));
    if (run->done[part] < until)
        for (i64 a = g->after_of[part]; a < g->after_of[part + 1]; a++)
            if (g->after[a] >= run->first) produce(run, g->after[a], part_at(g, g->after[a])[PART_NEEDED]);
    while (run->done[part] < until && !run->jobs.failed) {
        i64 start = run->done[part], end = start + run->chunks[part];
        end = end < until ? least(until, most(border_until(facts, end), border_from(facts, start + 1))) : until;
        for (i64 i = g->inputs_of[part]; i < g->inputs_of[part + 1]; i++) {
            const i64 *in = g->inputs + i * IN_FIELDS;
            i64 tensor = in[IN_TENSOR], last = demand(in, start, end).high;
            for (i64 w = g->writers_of[tensor]; w < g->writers_of[tensor + 1]; w++) {
                i64 writer = g->writers[2 * w];
                if (run->first <= writer && writer < part)
                    produce(run, writer, rows_until(g, writer, g->outputs + g->writers[2 * w + 1] * OUT_FIELDS, last));
            }
        }
        growing_push(&run->jobs, part);
        growing_push(&run->jobs, start);
        growing_push(&run->jobs, end);
        run->done[part] = end;
    }
}

int jobs_of_group(const Graph *g, const i64 *group, Growing *jobs)
{
    Run run = {g, group[0], group[1], NULL, NULL, *jobs};
    run.chunks = calloc((size_t)part_count(g) * 2, sizeof(i64));
    if (run.chunks) {
        run.done = run.chunks + part_count(g);
        for (i64 part = run.last; part >= run.first; part--) run.chunks[part] = chunk(&run, part, group[2], group[3]);
        produce(&run, run.last, part_at(g, run.last)[PART_NEEDED]);
        for (i64 part = run.first; part < run.last; part++) produce(&run, part, part_at(g, part)[PART_NEEDED]);
    } else
        run.jobs.failed = 1;
    free(run.chunks);
    *jobs = run.jobs;
    return jobs->failed;
}

PyObject *native_depth_first(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    Flat flats[2];
    Graph graph;
    Growing jobs = {0};
    if (count != 2 || flat_all(arguments, flats, 2, 2) < 0) return count == 2 ? NULL : PyErr_Format(PyExc_TypeError, "depth_first(graph, group)");
    if (graph_get(&flats[0], &graph) < 0 || !flat_has(&flats[1], 4) || !parts_fit(&graph, flats[1].at[0], flats[1].at[1])) {
        flat_release(flats, 2);
        return NULL;
    }
    jobs_of_group(&graph, flats[1].at, &jobs);
    flat_release(flats, 2);
    return growing_bytes(&jobs);
}

/* distances(graph, jobs) -> for every job the rows by which the one before it begins behind the first row of that part from which on this
   one reads all of its operands; FAR if it reads none of them, or is the first. */
PyObject *native_distances(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    Flat flats[2];
    Graph graph, *g = &graph;
    Growing out = {0};
    if (count != 2) return PyErr_Format(PyExc_TypeError, "distances(graph, jobs)");
    if (flat_all(arguments, flats, 2, 2) < 0) return NULL;
    if (graph_get(&flats[0], g) < 0 || !jobs_fit(g, &flats[1])) {
        flat_release(flats, 2);
        return NULL;
    }
    for (i64 step = 0; step < flats[1].length / 3; step++) {
        const i64 *job = flats[1].at + 3 * step, *before = job - 3;
        i64 first = -1;
        for (i64 i = g->inputs_of[job[0]]; step && i < g->inputs_of[job[0] + 1]; i++) {
            const i64 *in = g->inputs + i * IN_FIELDS;
            for (i64 o = g->outputs_of[before[0]]; o < g->outputs_of[before[0] + 1]; o++) {
                const i64 *out_of = g->outputs + o * OUT_FIELDS;
                if (out_of[OUT_TENSOR] != in[IN_TENSOR]) continue;
                first = most(first, most(0, rows_until(g, before[0], out_of, demand(in, job[1], job[2]).low + 1) - 1));
            }
        }
        growing_push(&out, first < 0 ? FAR : before[1] - first);
    }
    flat_release(flats, 2);
    return growing_bytes(&out);
}
