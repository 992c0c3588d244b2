/* The bytes of part groups that grow part by part: cascader.plan.group_bytes in C. */
#include "core.h"

/* `read` and `written` are NULL for tensors that take no part yet; then `held` is their only value. `before` links what shares a buffer. */
typedef struct {
    i64 *read, *written, *held, passing, before, head;
} Tensor;

typedef struct {
    const Graph *graph;
    const i64 *jobs;
    i64 steps, earliest, first, last, in_place, *total, *low, *high, *spare, *steps_of, *begins;
    Tensor *tensors;
    int failed;
} Group;

static i64 first_writer(const Graph *g, i64 t)
{
    return g->writers_of[t] < g->writers_of[t + 1] ? g->writers[2 * g->writers_of[t]] : part_count(g);
}

static i64 last_reader(const Graph *g, i64 t)
{
    return g->readers_of[t] < g->readers_of[t + 1] ? g->readers[2 * (g->readers_of[t + 1] - 1)] : -1;
}

static i64 made_before(const Graph *g, i64 t, i64 part)
{
    i64 made = 0, rows = tensor_at(g, t)[TENSOR_ROWS];
    if (tensor_at(g, t)[TENSOR_PRESENT]) return rows;
    for (i64 w = g->writers_of[t]; w < g->writers_of[t + 1]; w++) {
        i64 writer = g->writers[2 * w];
        const i64 *out = g->outputs + g->writers[2 * w + 1] * OUT_FIELDS;
        if (writer < part) made = most(made, least(rows, written(g, writer, out, 0, part_at(g, writer)[PART_NEEDED]).high));
    }
    return made;
}

static i64 wanted_after(const Graph *g, i64 t, i64 part)
{
    i64 wanted = FAR;
    if (tensor_at(g, t)[TENSOR_KEPT]) return 0;
    for (i64 w = g->writers_of[t]; w < g->writers_of[t + 1]; w++)
        if (g->writers[2 * w] > part) wanted = least(wanted, written(g, g->writers[2 * w], g->outputs + g->writers[2 * w + 1] * OUT_FIELDS, 0, 1).low);
    for (i64 r = g->readers_of[t]; r < g->readers_of[t + 1]; r++)
        if (g->readers[2 * r] > part) wanted = least(wanted, demand(g->inputs + g->readers[2 * r + 1] * IN_FIELDS, 0, 1).low);
    return wanted;
}

static int is_present(const Group *group, i64 t)
{
    return tensor_at(group->graph, t)[TENSOR_PRESENT] || first_writer(group->graph, t) < group->first;
}

static int stays(const Group *group, i64 t)
{
    return tensor_at(group->graph, t)[TENSOR_KEPT] || last_reader(group->graph, t) > group->last;
}

static i64 *filled(Group *group, i64 value)
{
    i64 *values = malloc((size_t)(group->steps + 1) * sizeof(i64));
    if (!values) {
        group->failed = 1;
        return NULL;
    }
    for (i64 step = 0; step < group->steps; step++) values[step] = value;
    return values;
}

static void note_need(Group *group, i64 t, i64 step, i64 row)
{
    Tensor *tensor = &group->tensors[t];
    if (tensor->read) tensor->read[step] = least(tensor->read[step], row);
}

static void touch_part(Group *group, i64 part)
{
    const Graph *g = group->graph;
    for (i64 i = g->inputs_of[part]; i < g->inputs_of[part + 1]; i++) {
        Tensor *tensor = &group->tensors[g->inputs[i * IN_FIELDS + IN_TENSOR]];
        if (!tensor->read) tensor->read = filled(group, FAR);
    }
    for (i64 o = g->outputs_of[part]; o < g->outputs_of[part + 1]; o++) {
        Tensor *tensor = &group->tensors[g->outputs[o * OUT_FIELDS + OUT_TENSOR]];
        if (!tensor->read) tensor->read = filled(group, FAR);
        if (!tensor->written) tensor->written = filled(group, 0);
    }
    const i64 *begins = group->begins + part - group->earliest;
    for (i64 at = begins[0]; at < begins[1] && !group->failed; at++) {
        i64 step = group->steps_of[at];
        const i64 *job = group->jobs + 3 * step;
        for (i64 i = g->inputs_of[part]; i < g->inputs_of[part + 1]; i++) {
            const i64 *in = g->inputs + i * IN_FIELDS;
            note_need(group, in[IN_TENSOR], step, demand(in, job[1], job[2]).low);
        }
        for (i64 o = g->outputs_of[part]; o < g->outputs_of[part + 1]; o++) {
            const i64 *out = g->outputs + o * OUT_FIELDS;
            Rows rows = written(g, part, out, job[1], job[2]);
            note_need(group, out[OUT_TENSOR], step, rows.low);
            group->tensors[out[OUT_TENSOR]].written[step] = least(tensor_at(g, out[OUT_TENSOR])[TENSOR_ROWS], rows.high);
        }
    }
}

/* Live rows of one tensor. */
static void span(const Group *group, i64 t, i64 *low, i64 *high)
{
    const Graph *g = group->graph;
    const Tensor *tensor = &group->tensors[t];
    i64 made = made_before(g, t, group->first), wanted = wanted_after(g, t, group->last), steps = group->steps;
    for (i64 step = 0; step < steps; step++) high[step] = made = tensor->written ? most(made, tensor->written[step]) : made;
    if (tensor_at(g, t)[TENSOR_KEPT]) {
        memset(low, 0, (size_t)steps * sizeof(i64));
        return;
    }
    made = steps ? high[0] : 0;
    for (i64 step = steps - 1; step >= 0; step--) {
        wanted = least(wanted, tensor->read[step]);
        if (wanted == FAR) high[step] = 0;
        low[step] = least(wanted, high[step]);
    }
    if (steps && tensor_at(g, t)[TENSOR_PRESENT] && group->first == 0) {
        low[0] = 0;
        high[0] = made;
    }
}

/* Live rows of the tensors of one buffer in group->low and group->high; where none is live, those of the last tensor. */
static void join_spans(Group *group, i64 head)
{
    i64 *low = group->spare, *high = group->spare + group->steps;
    span(group, head, group->low, group->high);
    for (i64 t = group->tensors[head].before; t >= 0; t = group->tensors[t].before) {
        span(group, t, low, high);
        for (i64 step = 0; step < group->steps; step++) {
            if (high[step] <= low[step]) continue;
            int alive = group->high[step] > group->low[step];
            group->low[step] = alive ? least(group->low[step], low[step]) : low[step];
            group->high[step] = alive ? most(group->high[step], high[step]) : high[step];
        }
    }
}

/* Count the live bytes of the buffer of `head` in place of those before. */
static void update(Group *group, i64 head)
{
    i64 live = 0, made = 0, unit = 1, inside = 1, row_bytes = tensor_at(group->graph, head)[TENSOR_ROW_BYTES];
    Tensor *tensor = &group->tensors[head];
    if (!tensor->held) tensor->held = filled(group, tensor->passing);
    if (group->failed) return;
    join_spans(group, head);
    for (i64 step = 0; step < group->steps; step++) {
        live = most(live, group->high[step] - group->low[step]);
        made = most(made, group->high[step]);
    }
    for (i64 t = head; t >= 0; t = group->tensors[t].before) {
        unit = common_multiple(unit, tensor_at(group->graph, t)[TENSOR_ROLL]);
        if (is_present(group, t) || stays(group, t)) inside = 0;
    }
    i64 rows = rolling_rows(unit, live, made);
    if (rows < made && inside) rolled(group->low, group->high, group->steps, rows);
    for (i64 step = 0; step < group->steps; step++) {
        i64 held = (group->high[step] - group->low[step]) * row_bytes;
        group->total[step] += held - tensor->held[step];
        tensor->held[step] = held;
    }
}

static void share(Group *group, i64 operand, i64 output)
{
    Tensor *old = &group->tensors[operand];
    /* Slices of a result share its operand's buffer one after the other. */
    if (old->head == group->tensors[output].head) return;
    for (i64 step = 0; step < group->steps; step++) {
        group->total[step] -= old->held ? old->held[step] : old->passing;
        if (old->held) old->held[step] = 0;
    }
    old->passing = 0;
    i64 t = output;
    while (group->tensors[t].before >= 0) t = group->tensors[t].before;
    group->tensors[t].before = operand;
    old->head = group->tensors[output].head;
}

/* Sort the steps by their parts, from the `earliest` one of the group on. */
static int sort_steps(Group *group)
{
    i64 parts = group->last + 1 - group->earliest, *begins = calloc((size_t)(parts + 2 + group->steps), sizeof(i64));
    if (!begins) return -1;
    group->begins = begins;
    group->steps_of = begins + parts + 2;
    for (i64 step = 0; step < group->steps; step++) {
        i64 part = group->jobs[3 * step] - group->earliest;
        if (0 <= part && part < parts) begins[part + 2]++;
    }
    for (i64 part = 0; part < parts; part++) begins[part + 2] += begins[part + 1];
    for (i64 step = 0; step < group->steps; step++) {
        i64 part = group->jobs[3 * step] - group->earliest;
        if (0 <= part && part < parts) group->steps_of[begins[part + 1]++] = step;
    }
    return 0;
}

/* Most live bytes of the group with one part more. */
static i64 grow(Group *group)
{
    const Graph *g = group->graph;
    i64 part = --group->first, found = 0;
    touch_part(group, part);
    if (group->failed) return 0;
    if (group->in_place && part_at(g, part)[PART_IN_PLACE] >= 0)
        share(group, part_at(g, part)[PART_IN_PLACE], g->outputs[g->outputs_of[part] * OUT_FIELDS + OUT_TENSOR]);
    for (i64 i = g->inputs_of[part]; i < g->inputs_of[part + 1]; i++) update(group, group->tensors[g->inputs[i * IN_FIELDS + IN_TENSOR]].head);
    for (i64 o = g->outputs_of[part]; o < g->outputs_of[part + 1]; o++) update(group, group->tensors[g->outputs[o * OUT_FIELDS + OUT_TENSOR]].head);
    for (i64 step = 0; step < group->steps; step++) found = most(found, group->total[step]);
    if (part == 0) {
        /* Inputs are filled with all of their rows, those too that nobody reads, or only a part behind the group. */
        i64 filled_bytes = group->total[0];
        for (i64 t = 0; t < tensor_count(g); t++) {
            const i64 *facts = tensor_at(g, t);
            const Tensor *tensor = &group->tensors[t];
            if (facts[TENSOR_PRESENT] && !facts[TENSOR_KEPT] && !tensor->read)
                filled_bytes += facts[TENSOR_ROWS] * facts[TENSOR_ROW_BYTES] - tensor->passing;
        }
        found = most(found, filled_bytes);
    }
    return found;
}

static int group_make(Group *group)
{
    const Graph *g = group->graph;
    i64 total = 0;
    if (sort_steps(group) < 0) return -1;
    group->tensors = calloc((size_t)tensor_count(g) + 1, sizeof(Tensor));
    group->low = malloc((size_t)(5 * group->steps + 1) * sizeof(i64));
    if (!group->tensors || !group->low) return -1;
    group->high = group->low + group->steps;
    group->total = group->high + group->steps;
    group->spare = group->total + group->steps;
    for (i64 t = 0; t < tensor_count(g); t++) {
        Tensor *tensor = &group->tensors[t];
        tensor->before = -1;
        tensor->head = t;
        if (is_present(group, t) && stays(group, t)) {
            i64 rows = made_before(g, t, group->first) - wanted_after(g, t, group->last);
            tensor->passing = most(0, rows) * tensor_at(g, t)[TENSOR_ROW_BYTES];
        }
        total += tensor->passing;
    }
    for (i64 step = 0; step < group->steps; step++) group->total[step] = total;
    return 0;
}

int bytes_of_groups(const Graph *g, const i64 *jobs, i64 steps, const i64 *how, Growing *out)
{
    Group group = {.graph = g, .jobs = jobs, .steps = steps, .earliest = how[0], .first = how[1] + 1, .last = how[1], .in_place = how[2]};
    group.failed = group_make(&group) < 0;
    while (!group.failed && group.first > how[0]) growing_push(out, grow(&group));
    for (i64 t = 0; group.tensors && t < tensor_count(g); t++) {
        free(group.tensors[t].read);
        free(group.tensors[t].written);
        free(group.tensors[t].held);
    }
    free(group.tensors);
    free(group.low);
    free(group.begins);
    out->failed |= group.failed;
    return out->failed;
}

/* group_bytes(graph, jobs, [first, last, in_place]) -> bytes of the groups that begin with part last, last - 1, ... first */
PyObject *native_group_bytes(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    Flat flats[3];
    Graph graph;
    Growing out = {0};
    if (count != 3) return PyErr_Format(PyExc_TypeError, "group_bytes(graph, jobs, group)");
    if (flat_all(arguments, flats, 3, 3) < 0) return NULL;
    if (graph_get(&flats[0], &graph) < 0 || !jobs_fit(&graph, &flats[1]) || !flat_has(&flats[2], 3) ||
        !parts_fit(&graph, flats[2].at[0], flats[2].at[1])) {
        flat_release(flats, 3);
        return NULL;
    }
    bytes_of_groups(&graph, flats[1].at, flats[1].length / 3, flats[2].at, &out);
    flat_release(flats, 3);
    return growing_bytes(&out);
}
