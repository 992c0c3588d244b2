/* Live rows of tensors and the buffers that hold them: cascader.plan.liveness and cascader.plan.buffers in C. */
#include "core.h"

typedef struct {
    i64 start, end, *low, *high;
} Life;

typedef struct {
    const Graph *graph;
    const i64 *jobs;
    i64 steps;
    Life *lives;
    i64 *rows;
} Liveness;

void rolled(i64 *low, i64 *high, i64 steps, i64 rows)
{
    i64 settled = 0, highest = 0;
    /* The buffer is settled behind the last step at which live rows wrap around its end. */
    for (i64 step = 0; step < steps; step++)
        if (high[step] > low[step] && low[step] / rows < (high[step] - 1) / rows) settled = step + 1;
    for (i64 step = 0; step < steps; step++) {
        i64 live = high[step] - low[step];
        highest = most(highest, high[step]);
        if (live > 0 && step >= settled && highest > rows) {
            low[step] %= rows;
            high[step] = low[step] + live;
        } else {
            low[step] = 0;
            high[step] = live > 0 ? least(highest, rows) : 0;
        }
    }
}

/* First and last use of every tensor; `written` are those that a job writes. */
static void find_uses(Liveness *all, char *made)
{
    const Graph *g = all->graph;
    for (i64 t = 0; t < tensor_count(g); t++) all->lives[t].start = -1;
    for (i64 step = 0; step < all->steps; step++) {
        i64 part = all->jobs[3 * step];
        for (i64 i = g->inputs_of[part]; i < g->inputs_of[part + 1]; i++) {
            Life *life = &all->lives[g->inputs[i * IN_FIELDS + IN_TENSOR]];
            if (life->start < 0) life->start = step;
            life->end = step + 1;
        }
        for (i64 o = g->outputs_of[part]; o < g->outputs_of[part + 1]; o++) {
            i64 tensor = g->outputs[o * OUT_FIELDS + OUT_TENSOR];
            if (all->lives[tensor].start < 0) all->lives[tensor].start = step;
            all->lives[tensor].end = step + 1;
            made[tensor] = 1;
        }
    }
}

/* A span for every tensor that lives, with room for its rows. Returns 0, or -1 without memory. */
static int make_room(Liveness *all, const char *made)
{
    const Graph *g = all->graph;
    i64 total = 0;
    for (i64 t = 0; t < tensor_count(g); t++) {
        const i64 *facts = tensor_at(g, t);
        Life *life = &all->lives[t];
        if (life->start < 0) {
            if (!facts[TENSOR_PRESENT]) continue;
            life->start = 0;
            life->end = facts[TENSOR_KEPT] ? most(all->steps, 1) : 1;
        } else {
            if (facts[TENSOR_PRESENT]) life->start = 0;
            if (facts[TENSOR_KEPT]) life->end = all->steps;
        }
        total += life->end - life->start;
    }
    all->rows = malloc((size_t)(2 * total + 1) * sizeof(i64));
    if (!all->rows) return -1;
    i64 *free_rows = all->rows;
    for (i64 t = 0; t < tensor_count(g); t++) {
        Life *life = &all->lives[t];
        if (life->start < 0) continue;
        i64 steps = life->end - life->start, whole = tensor_at(g, t)[TENSOR_PRESENT] || !made[t];
        life->low = free_rows;
        life->high = free_rows + steps;
        free_rows += 2 * steps;
        for (i64 step = 0; step < steps; step++) {
            life->low[step] = FAR;
            life->high[step] = whole ? tensor_at(g, t)[TENSOR_ROWS] : 0;
        }
    }
    return 0;
}

static void touch(Life *life, i64 step, i64 low, i64 high)
{
    i64 at = step - life->start;
    life->low[at] = least(life->low[at], low);
    life->high[at] = most(life->high[at], high);
}

static void follow_jobs(Liveness *all)
{
    const Graph *g = all->graph;
    for (i64 step = 0; step < all->steps; step++) {
        const i64 *job = all->jobs + 3 * step;
        for (i64 i = g->inputs_of[job[0]]; i < g->inputs_of[job[0] + 1]; i++) {
            const i64 *in = g->inputs + i * IN_FIELDS;
            touch(&all->lives[in[IN_TENSOR]], step, demand(in, job[1], job[2]).low, 0);
        }
        for (i64 o = g->outputs_of[job[0]]; o < g->outputs_of[job[0] + 1]; o++) {
            const i64 *out = g->outputs + o * OUT_FIELDS;
            Rows rows = written(g, job[0], out, job[1], job[2]);
            touch(&all->lives[out[OUT_TENSOR]], step, rows.low, least(tensor_at(g, out[OUT_TENSOR])[TENSOR_ROWS], rows.high));
        }
    }
}

static void settle(Liveness *all)
{
    const Graph *g = all->graph;
    for (i64 t = 0; t < tensor_count(g); t++) {
        Life *life = &all->lives[t];
        const i64 *facts = tensor_at(g, t);
        if (life->start < 0) continue;
        i64 steps = life->end - life->start, next = FAR;
        if (facts[TENSOR_PRESENT]) life->low[0] = 0;
        for (i64 step = steps - 1; step >= 0; step--) next = life->low[step] = facts[TENSOR_KEPT] ? 0 : least(next, life->low[step]);
        for (i64 step = 0, made = 0; step < steps; step++) {
            made = life->high[step] = most(made, life->high[step]);
            life->low[step] = least(life->low[step], made);
        }
    }
}

/* The live rows of a family of tensors, joined and put behind each other in `out`; the buffer's rows are returned. */
static i64 join(const Liveness *all, const i64 *family, i64 count, int rolls, i64 *low, i64 *high, i64 start, i64 steps)
{
    const Graph *g = all->graph;
    i64 live = 0, made = 0, unit = 1;
    for (i64 step = 0; step < steps; step++) low[step] = FAR, high[step] = 0;
    for (i64 member = 0; member < count; member++) {
        const Life *life = &all->lives[family[member]];
        unit = common_multiple(unit, tensor_at(g, family[member])[TENSOR_ROLL]);
        for (i64 step = life->start; step < life->end; step++) {
            i64 from = life->low[step - life->start], until = life->high[step - life->start];
            if (until <= from) continue;
            low[step - start] = least(low[step - start], from);
            high[step - start] = most(high[step - start], until);
        }
    }
    for (i64 step = 0; step < steps; step++) {
        if (high[step] <= low[step]) low[step] = high[step] = 0;
        live = most(live, high[step] - low[step]);
        made = most(made, high[step]);
    }
    i64 rows = rolls ? rolling_rows(unit, live, made) : made;
    if (rows < made) rolled(low, high, steps, rows);
    return rows;
}

/* The first tensor, in its order, of each that lives: a result has that of the operand which it is stored over. */
static void find_heads(const Liveness *all, i64 in_place, i64 *head)
{
    const Graph *g = all->graph;
    for (i64 t = 0; t < tensor_count(g); t++) head[t] = all->lives[t].start < 0 ? -1 : t;
    for (i64 part = 0; in_place && part < part_count(g); part++) {
        i64 operand = part_at(g, part)[PART_IN_PLACE];
        if (operand < 0 || head[operand] < 0) continue;
        i64 output = g->outputs[g->outputs_of[part] * OUT_FIELDS + OUT_TENSOR];
        if (head[output] >= 0) head[output] = head[operand];
    }
}

/* [buffers, most bytes live at one step], then of every buffer its start, its end, where its bytes begin, its rows and where its tensors
   begin (with one more), then the tensors of all, then the low and the high bytes of each. */
static int write_buffers(const Liveness *all, const i64 *crossing, i64 in_place, Growing *out)
{
    const Graph *g = all->graph;
    i64 tensors = tensor_count(g), steps = most(all->steps, 1), buffers = 0, total = 0, members = 0, live = 0;
    i64 *head = malloc((size_t)(3 * tensors + 3 * steps + 4) * sizeof(i64));
    if (!head) return -1;
    i64 *family = head + tensors, *leader = family + tensors, *low = leader + tensors, *high = low + steps, *held = high + steps;
    find_heads(all, in_place, head);
    for (i64 t = 0; t < tensors; t++) leader[t] = -1;
    for (i64 t = 0; t < tensors; t++) {
        if (head[t] < 0) continue;
        members++;
        if (leader[head[t]] < 0) leader[head[t]] = buffers++;
    }
    memset(held, 0, (size_t)steps * sizeof(i64));
    i64 starts = BUFFERS_HEAD, ends = starts + buffers, offsets = ends + buffers, rows_at = offsets + buffers, tensors_at = rows_at + buffers;
    i64 place = tensors_at + buffers + 1, number = 0;
    for (i64 i = 0; i < place + members; i++) growing_push(out, 0);
    if (out->failed) {
        free(head);
        return -1;
    }
    for (i64 t = 0; t < tensors; t++) {
        if (head[t] < 0) continue;
        i64 count = 0, start = all->lives[t].start, end = all->lives[t].end, mine = head[t];
        int rolls = 1;
        for (i64 other = t; other < tensors; other++)
            if (head[other] == mine) {
                family[count++] = other;
                head[other] = -1;
                start = least(start, all->lives[other].start);
                end = most(end, all->lives[other].end);
                if (crossing[other]) rolls = 0;
            }
        i64 bytes = tensor_at(g, t)[TENSOR_ROW_BYTES];
        i64 rows = join(all, family, count, rolls, low, high, start, end - start);
        out->at[starts + number] = start;
        out->at[ends + number] = end;
        out->at[offsets + number] = (i64)out->length;
        out->at[rows_at + number] = rows;
        out->at[tensors_at + number] = total;
        for (i64 i = 0; i < count; i++) out->at[place + total++] = family[i];
        number++;
        for (i64 i = 0; i < end - start; i++) growing_push(out, low[i] * bytes);
        for (i64 i = 0; i < end - start; i++) growing_push(out, high[i] * bytes);
        for (i64 i = 0; i < end - start; i++) held[start + i] += (high[i] - low[i]) * bytes;
        if (out->failed) break;
    }
    for (i64 step = 0; step < steps; step++) live = most(live, held[step]);
    if (!out->failed) {
        out->at[tensors_at + buffers] = total;
        out->at[BUFFERS] = buffers;
        out->at[LIVE] = live;
    }
    free(head);
    return 0;
}

int make_buffers(const Graph *graph, const i64 *jobs, i64 steps, const i64 *crossing, i64 in_place, Growing *out)
{
    Liveness all = {graph, jobs, steps, NULL, NULL};
    char *made = calloc((size_t)tensor_count(graph) + 1, 1);
    all.lives = calloc((size_t)tensor_count(graph) + 1, sizeof(Life));
    out->failed = !made || !all.lives;
    if (!out->failed) {
        find_uses(&all, made);
        out->failed = make_room(&all, made) < 0;
    }
    if (!out->failed) {
        follow_jobs(&all);
        settle(&all);
        out->failed = write_buffers(&all, crossing, in_place, out) < 0 || out->failed;
    }
    free(made);
    free(all.lives);
    free(all.rows);
    return out->failed ? -1 : 0;
}

PyObject *native_buffers(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    Flat flats[4];
    Graph graph;
    Growing out = {0};
    if (count != 4) return PyErr_Format(PyExc_TypeError, "buffers(graph, jobs, crossing, [in_place])");
    if (flat_all(arguments, flats, 4, 4) < 0) return NULL;
    if (graph_get(&flats[0], &graph) < 0 || !jobs_fit(&graph, &flats[1]) ||
        !flat_has(&flats[2], (Py_ssize_t)tensor_count(&graph)) || !flat_has(&flats[3], 1)) {
        flat_release(flats, 4);
        return NULL;
    }
    make_buffers(&graph, flats[1].at, flats[1].length / 3, flats[2].at, flats[3].at[0], &out);
    flat_release(flats, 4);
    return growing_bytes(&out);
}
