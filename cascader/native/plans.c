/* The plans of all groups that end with one part: cascader.plan.plans and cascader.plan.group_costs in C. */
#include "core.h"

/* In place of a cost until the device is asked. */
#define UNKNOWN (-((i64)1 << 62))

enum { COST_STAGED, COST_DIRECT, COST_FIELDS };
enum { CHOICE, CHOICE_BYTES, CHOICE_CYCLES, CHOICE_COLD, CHOICE_FIELDS };
enum { PLAN_FIRST, PLAN_MEMORY, PLAN_CYCLES, PLAN_COLD, PLAN_ROWS, PLAN_INNER, PLAN_CHOICE, PLAN_FIELDS };

/* The table of the parts: where the costs of each begin, by height, and its constants' bytes and cycles to copy them. */
typedef struct {
    const Graph *graph;
    const i64 *begins, *sizes, *transfers, *staging;
    i64 *costs, choices, last, in_place;
    PyObject *ask;
} Planning;

/* The groups that are asked for the same rows, from the longest one on: their bytes, and their choices with the number of each. */
typedef struct {
    i64 first, rows, inner, *choices, *counts;
    Growing jobs, bytes;
} Ending;

/* The costs of a job; NULL if the device raised. */
static const i64 *costs_of(const Planning *p, const i64 *job)
{
    i64 *found = p->costs + COST_FIELDS * (p->begins[job[0]] + job[2] - job[1]);
    if (found[COST_STAGED] == UNKNOWN) {
        /* Whoever is asked writes both costs down. */
        PyObject *answer = PyObject_CallFunction(p->ask, "LLL", (long long)job[0], (long long)job[1], (long long)job[2]);
        if (!answer) return NULL;
        Py_DECREF(answer);
    }
    return found;
}

/* Cycles of each part until the first job of each, and in the end (the last row), with constants read from home and staged. The parts
   stand in the order of their first jobs. */
typedef struct {
    i64 count, *parts, *direct, *saved;
} Work;

static int work_of(const Planning *p, const Growing *jobs, i64 first, Work *work)
{
    i64 most_parts = p->last - first + 1, *spent;
    size_t room = (size_t)(most_parts * (2 * most_parts + 6));
    work->count = 0;
    work->parts = malloc(room * sizeof(i64));
    if (!work->parts) return PyErr_NoMemory(), -1;
    work->direct = work->parts + 2 * most_parts;
    work->saved = work->direct + most_parts * (most_parts + 1);
    spent = work->saved + most_parts * (most_parts + 1);
    i64 *column = work->parts + most_parts;
    for (i64 i = 0; i < most_parts; i++) column[i] = -1, spent[i] = spent[most_parts + i] = 0;
    for (size_t at = 0; at <= jobs->length; at += 3) {
        const i64 *job = jobs->at + at;
        int ends = at == jobs->length;
        if (ends || column[job[0] - first] < 0) {
            /* Nothing is spent yet on parts that come later. */
            for (i64 i = 0; i < most_parts; i++) {
                work->direct[work->count * most_parts + i] = spent[i];
                work->saved[work->count * most_parts + i] = spent[i] - spent[most_parts + i];
            }
            if (ends) break;
            column[job[0] - first] = work->count;
            work->parts[work->count++] = job[0];
        }
        const i64 *costs = costs_of(p, job);
        if (!costs) return free(work->parts), -1;
        spent[column[job[0] - first]] += costs[COST_DIRECT];
        spent[most_parts + column[job[0] - first]] += costs[COST_STAGED];
    }
    return 0;
}

/* The cycles and bytes that a group takes with each choice until the first job of each part, and in the end. The group grows part by part, the
   last part first. */
static void add_part(const Planning *p, const Work *work, i64 longest, i64 column, i64 *spent)
{
    i64 wide = p->last - longest + 1, size = p->sizes[work->parts[column]];
    int worth = size > 0 && work->saved[work->count * wide + column] > 0;
    for (i64 choice = 0; choice < p->choices; choice++)
        for (i64 time = 0; time <= work->count; time++) {
            i64 saved = worth && size <= p->staging[choice] ? work->saved[time * wide + column] : 0;
            spent[choice * (wide + 1) + time] += work->direct[time * wide + column] - saved;
        }
}

/* The cost of the group from `first` on with a choice, of which `spent` is what it takes; returns the number of parts that are staged. */
static i64 cost_of(const Planning *p, const Work *work, i64 longest, i64 first, i64 choice, const i64 *spent, i64 *line)
{
    i64 wide = p->last - longest + 1, copied = 0, late = 0, staged = 0, bytes = 0;
    const i64 *saved = work->saved + work->count * wide;
    for (i64 time = 0; time < work->count; time++) {
        i64 part = work->parts[time], size = p->sizes[part];
        if (part < first || saved[time] <= 0 || size <= 0 || size > p->staging[choice]) continue;
        staged++;
        bytes += size;
        copied += p->transfers[part];
        late = most(late, copied - spent[time]);
    }
    line[CHOICE] = choice;
    line[CHOICE_BYTES] = bytes;
    line[CHOICE_CYCLES] = most(spent[work->count], copied);
    line[CHOICE_COLD] = spent[work->count] + late;
    return staged;
}

/* The choices of each group, from the longest on; a larger size stages all that a smaller one does: where it stages no more, the choice is
   the same. */
static void add_choices(const Planning *p, const Work *work, Ending *ending, i64 *spent)
{
    i64 wide = p->last - ending->first + 1;
    for (i64 first = p->last; first >= ending->first; first--) {
        i64 number = first - ending->first, count = 0, before = -1;
        for (i64 column = 0; column < work->count; column++)
            if (work->parts[column] == first) add_part(p, work, ending->first, column, spent);
        for (i64 choice = 0; choice < p->choices; choice++) {
            i64 *line = ending->choices + (number * p->choices + count) * CHOICE_FIELDS;
            i64 staged = cost_of(p, work, ending->first, first, choice, spent + choice * (wide + 1), line);
            count += staged != before;
            before = staged;
        }
        ending->counts[number] = count;
    }
}

static int ending_make(const Planning *p, Ending *ending)
{
    i64 group[4] = {ending->first, p->last, ending->rows, ending->inner}, how[3] = {ending->first, p->last, p->in_place};
    Work work;
    if (jobs_of_group(p->graph, group, &ending->jobs)) return PyErr_NoMemory(), -1;
    if (bytes_of_groups(p->graph, ending->jobs.at, (i64)ending->jobs.length / 3, how, &ending->bytes)) return PyErr_NoMemory(), -1;
    if (work_of(p, &ending->jobs, ending->first, &work) < 0) return -1;
    i64 wide = p->last - ending->first + 1;
    i64 *spent = calloc((size_t)(p->choices * (wide + 1)), sizeof(i64));
    ending->choices = malloc((size_t)(wide * p->choices * CHOICE_FIELDS) * sizeof(i64));
    ending->counts = malloc((size_t)wide * sizeof(i64));
    int made = spent && ending->choices && ending->counts;
    if (made) add_choices(p, &work, ending, spent);
    free(work.parts);
    free(spent);
    return made ? 0 : (PyErr_NoMemory(), -1);
}

static void ending_free(Ending *ending)
{
    free(ending->jobs.at);
    free(ending->bytes.at);
    free(ending->choices);
    free(ending->counts);
}

/* The plans of one group, behind those that are there. */
static void add_plans(const Ending *ending, i64 choices, i64 last, i64 first, Growing *found)
{
    i64 number = first - ending->first, memory = ending->bytes.at[last - first];
    for (i64 at = 0; at < ending->counts[number]; at++) {
        const i64 *choice = ending->choices + (number * choices + at) * CHOICE_FIELDS;
        i64 plan[PLAN_FIELDS] = {first, memory + choice[CHOICE_BYTES], choice[CHOICE_CYCLES], choice[CHOICE_COLD], ending->rows, ending->inner, choice[CHOICE]};
        for (int field = 0; field < PLAN_FIELDS; field++) growing_push(found, plan[field]);
    }
}

/* pareto: those plans, by ascending memory, that are faster than all that need less; `marks` has 1 for each that is kept already. */
static void add_front(const i64 *plans, i64 count, int cost, i64 *order, char *marks, Growing *out)
{
    i64 fewest = -1;
    for (i64 i = 0; i < count; i++) {
        i64 at = i, memory = plans[i * PLAN_FIELDS + PLAN_MEMORY], cycles = plans[i * PLAN_FIELDS + cost];
        for (; at > 0; at--) {
            const i64 *other = plans + order[at - 1] * PLAN_FIELDS;
            if (other[PLAN_MEMORY] < memory || (other[PLAN_MEMORY] == memory && other[cost] <= cycles)) break;
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    for (i64 i = 0; i < count; i++) {
        const i64 *plan = plans + order[i] * PLAN_FIELDS;
        if (i && plan[cost] >= fewest) continue;
        fewest = plan[cost];
        for (int field = 0; field < PLAN_FIELDS && !marks[order[i]]; field++) growing_push(out, plan[field]);
        marks[order[i]] = 1;
    }
}

static int add_fronts(const Growing *found, Growing *out)
{
    i64 count = (i64)found->length / PLAN_FIELDS;
    i64 *order = calloc((size_t)count + 1, sizeof(i64));
    char *marks = calloc((size_t)count + 1, 1);
    if (order && marks && !found->failed) {
        add_front(found->at, count, PLAN_CYCLES, order, marks, out);
        add_front(found->at, count, PLAN_COLD, order, marks, out);
    } else
        out->failed = 1;
    free(order);
    free(marks);
    return out->failed ? (PyErr_NoMemory(), -1) : 0;
}

/* The group's plans from the ending of its rows, which is made if it is the first that is asked for those. */
static int add_group(const Planning *p, Ending *endings, i64 *made, const i64 *group, Growing *found)
{
    i64 at = 0;
    while (at < *made && (endings[at].rows != group[2] || endings[at].inner != group[3])) at++;
    if (at == *made) {
        Ending fresh = {group[0], group[2], group[3], NULL, NULL, {0}, {0}};
        endings[(*made)++] = fresh;
        if (ending_make(p, &endings[at]) < 0) return -1;
    }
    add_plans(&endings[at], p->choices, p->last, group[0], found);
    return 0;
}

/* Whether the jobs of parts from `first` on are the same ones. A group's jobs are those of any longer one that ends with it and asks for the
   same rows, without the parts before it. */
static int same_jobs(const Growing *one, const Growing *two, i64 first)
{
    size_t a = 0, b = 0;
    for (;; a += 3, b += 3) {
        while (a < one->length && one->at[a] < first) a += 3;
        while (b < two->length && two->at[b] < first) b += 3;
        if (a >= one->length || b >= two->length) return a >= one->length && b >= two->length;
        if (memcmp(one->at + a, two->at + b, 3 * sizeof(i64))) return 0;
    }
}

/* The jobs of the longest group in the fewest rows, without a bound for inner rows and then with each. */
static int jobs_inside(const Planning *p, i64 first, const Flat *rows, const Flat *inner, Growing *inside)
{
    for (Py_ssize_t i = 0; i <= inner->length && rows->length && inner->length; i++) {
        i64 group[4] = {first, p->last, rows->at[0], i ? inner->at[i - 1] : 0};
        if (jobs_of_group(p->graph, group, &inside[i])) return PyErr_NoMemory(), -1;
    }
    return 0;
}

/* Groups that begin with `first`: each number of rows, then each bound for inner rows that comes to jobs of its own. */
static int add_first(const Planning *p, Ending *endings, i64 *made, i64 first, const Flat *rows, const Flat *inner, const Growing *inside, Growing *found)
{
    i64 group[4] = {first, p->last, 0, 0};
    int failed = 0;
    for (Py_ssize_t i = 0; i < rows->length && !failed; i++) {
        group[2] = rows->at[i];
        failed = add_group(p, endings, made, group, found);
    }
    for (Py_ssize_t i = 0; i < inner->length && !failed && rows->length; i++) {
        Py_ssize_t at = 0;
        while (at <= i && !same_jobs(&inside[at], &inside[i + 1], first)) at++;
        if (at <= i) continue;
        group[2] = rows->at[0];
        group[3] = inner->at[i];
        failed = add_group(p, endings, made, group, found);
    }
    return failed;
}

/* Whether there is a cost for every height of each part; else an exception is set. */
static int costs_fit(const Graph *graph, const i64 *begins, i64 costs)
{
    int fits = 1;
    for (i64 part = 0; part < part_count(graph); part++) {
        const i64 *facts = part_at(graph, part);
        fits &= begins[part] >= 0 && begins[part] < costs && most(facts[PART_ROWS], facts[PART_NEEDED]) < costs - begins[part];
    }
    if (!fits) PyErr_SetString(PyExc_ValueError, "costs are of every height of each part");
    return fits;
}

/* plans(graph, parts, costs, staging, rows, inner, [last, first, rows of the last part alone, in_place], ask) -> a line for each plan.
   `parts` has where the costs of each begin, bytes and copies' cycles, each for all parts. */
PyObject *native_plans(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    Flat f[7];
    Graph graph;
    Growing out = {0};
    if (count != 8) return PyErr_Format(PyExc_TypeError, "plans(graph, parts, costs, staging, rows, inner, how, ask)");
    if (flat_all(arguments, f, 7, 7) < 0) return NULL;
    if (graph_get(&f[0], &graph) < 0 || !flat_has(&f[1], (Py_ssize_t)(3 * part_count(&graph))) || !flat_has(&f[6], 4) ||
        !parts_fit(&graph, f[6].at[1], f[6].at[0]) || !costs_fit(&graph, f[1].at, f[2].length / COST_FIELDS)) {
        flat_release(f, 7);
        return NULL;
    }
    i64 parts = part_count(&graph), made = 0, failed = 0, single[1] = {f[6].at[2]};
    Planning p = {&graph, f[1].at, f[1].at + parts, f[1].at + 2 * parts, f[3].at, f[2].at, f[3].length, f[6].at[0], f[6].at[3], arguments[7]};
    Flat alone = f[4], none = f[5];
    alone.at = single;
    alone.length = 1;
    none.length = 0;
    Ending *endings = calloc((size_t)(f[4].length + f[5].length + 1), sizeof(Ending));
    Growing *inside = calloc((size_t)f[5].length + 1, sizeof(Growing));
    if (!endings || !inside) failed = (PyErr_NoMemory(), -1);
    if (!failed && f[6].at[1] < p.last) failed = jobs_inside(&p, f[6].at[1], &f[4], &f[5], inside);
    for (i64 first = f[6].at[1]; first <= p.last && !failed; first++) {
        Growing found = {0};
        int is_last = first == p.last;
        failed = add_first(&p, endings, &made, first, is_last ? &alone : &f[4], is_last ? &none : &f[5], inside, &found);
        if (!failed) failed = add_fronts(&found, &out);
        free(found.at);
    }
    for (Py_ssize_t i = 0; inside && i <= f[5].length; i++) free(inside[i].at);
    free(inside);
    while (made--) ending_free(&endings[made]);
    free(endings);
    flat_release(f, 7);
    if (!failed) return growing_bytes(&out);
    free(out.at);
    return NULL;
}
