/* The cycles that two kernels in a row share in any of their blocks. Coupling of cascader/ethosu/cost/coupling.py is the specification, with
   reasons. */

#include "coupling.h"

#include "blockdep.h"
#include "flow.h"
#include "option.h"

enum { HONOURED, IGNORED, DRAINED };
enum { MOST_DISTANCE = 3, MOST_NEAR = 1 << 20 };

/* Where the options of both are and how many, cycles until what a kernel has stored may be read, the distance where no pair of kernels
   tells it, whether the two are apart and whether other partitions drain, the rule of BLOCKDEP, cycles of further responses, and the blocks
   at the end and at the beginning that count. */
typedef struct {
    i64 begin[2], count[2], latency[2], limit, is_apart, drains, rule, further, near;
} Terms;

/* One of the two kernels: its estimates, its options and where it reads. */
typedef struct {
    const i64 *flat;
    const Option *options;
    const Sources *sources;
} Side;

/* The units behind the first kernel in one of its blocks, when it is done, and for how long its path was idle, once that was asked for. */
typedef struct {
    Units units;
    double done, idle;
    int is_known;
} Ended;

/* The second kernel's first blocks in one of its blocks: cycles in which their words pass, when they are done on their own, and what it
   shares with any other kernel at most. */
typedef struct {
    double moving, alone;
    i64 most;
} Begun;

/* Two kernels in a row: their terms, their dependency, and what is known of them so far. */
typedef struct {
    const Terms *terms;
    const Flat *pair;
    Side one, two;
    Ended *ended;
} Couple;

static const i64 *load_of(const Side *side, const Option *option) { return side->flat + side->flat[0] + option->load; }

/* For how long the path is idle between a kernel's last load and its last store: the end of _ended in Python. */
static double idle_behind_loads(const i64 *load, const Sources *sources, const Units *units)
{
    const i64 *order = load + LOAD_HEAD, *kinds = order + load[LOAD_PLACES];
    i64 count = (i64)units->stores, stored = 0;
    if (!count) return 0;
    for (i64 k = 0; k < count; k++)
        if (units->last[k] > units->port) stored += load[kinds[order[load[LOAD_PLACES] - count + k]] + 1];
    return larger(0, units->last[count - 1] - units->port - moving_cycles(sources, 0, stored));
}

/* _ended in Python */
static int end(Couple *c, i64 number)
{
    Ended *ended = &c->ended[number];
    const i64 *load = load_of(&c->one, &c->one.options[number]);
    Run run = {most(0, load[LOAD_PLACES] - c->terms->near), load[LOAD_PLACES], 0, 1};
    Flow flow;
    if (ended->is_known) return 0;
    ended->units.latency = (double)c->terms->latency[0];
    if (flow_of_load(load, c->one.sources, &ended->units, run, &flow) < 0) return -1;
    ended->done = flow.cycles;
    ended->idle = c->one.sources->ifm_ahead != 0 ? idle_behind_loads(load, c->one.sources, &ended->units) : 0;
    ended->is_known = 1;
    return 0;
}

/* _begun and _most_shared in Python */
static int begin(const Couple *c, const Option *option, Begun *begun)
{
    const i64 *load = load_of(&c->two, option), *order = load + LOAD_HEAD, *kinds = order + load[LOAD_PLACES];
    const Sources *sources = c->two.sources;
    Run run = {0, least(c->terms->near, load[LOAD_PLACES]), 0, 1};
    i64 fetched = 0, stored = 0, constants = 0;
    for (i64 place = 0; place < run.last; place++) {
        const i64 *block = load + kinds[order[place]], *step = block + BLOCK_HEAD;
        stored += block[1];
        for (i64 s = 0; s < block[2]; s++, step += STEP_SIZE) {
            fetched += step[0];
            constants += step[2];
        }
    }
    Units units = {0};
    Flow flow;
    if (flow_of_load(load, sources, &units, run, &flow) < 0) return -1;
    begun->moving = moving_cycles(sources, fetched + (sources->shared != 0 ? constants : 0), stored);
    begun->alone = larger(flow.cycles, (double)constants * source_rate(&sources->home));
    /* The words may pass while the first kernel's path is idle. */
    double least_behind = c->one.sources->ifm_ahead != 0 ? 0 : begun->moving;
    begun->most = most(most(0, ceiling(begun->alone - least_behind) + c->terms->latency[1]), -c->terms->further);
    return 0;
}

/* Blocks of the first kernel that may be unfinished when the second one begins; less than nothing if memory ran out. */
static i64 distance_of(const Couple *c, const Option *one, const Option *two)
{
    const Terms *t = c->terms;
    if (t->rule != HONOURED) return t->rule == IGNORED ? MOST_DISTANCE : 0;
    return c->pair->length ? blocks_between(c->pair->at, one->block, two->block) : t->limit;
}

/* Coupling.shared; returns 0, or -1 if memory ran out. */
static int share(Couple *c, i64 number, const Option *two, const Begun *begun, i64 *found)
{
    const Terms *t = c->terms;
    const Option *one = &c->one.options[number];
    i64 waits = most(0, two->lead - one->tail);
    int is_apart = t->is_apart || (t->drains && memcmp(one->shram, two->shram, sizeof one->shram));
    i64 distance = is_apart && !t->further ? 0 : distance_of(c, one, two);
    *found = -waits - (is_apart && distance ? 0 : t->further);
    if (distance < 0) return -1;
    if (is_apart || !distance) return 0;
    const i64 *load = load_of(&c->two, two);
    Run run = {0, least(t->near, load[LOAD_PLACES]), distance, 0};
    Flow flow;
    if (end(c, number) < 0) return -1;
    Units units = c->ended[number].units;
    if (t->rule == IGNORED) units.stores = 0;
    if (flow_of_load(load, c->two.sources, &units, run, &flow) < 0) return -1;
    *found = most(-waits, ceiling(begun->alone - larger(flow.cycles - c->ended[number].done, begun->moving - c->ended[number].idle)) + t->latency[1]);
    return 0;
}

/* Coupling.together: the cycles in the blocks that cost least together. */
static int together(Couple *c, Growing *out)
{
    i64 least_cost = INT64_MAX, fewest = 0;
    for (i64 j = 0; j < c->terms->count[1]; j++) {
        const Option *two = &c->two.options[j];
        Begun begun;
        if (begin(c, two, &begun) < 0) return -1;
        for (i64 i = 0; i < c->terms->count[0]; i++) {
            const Option *one = &c->one.options[i];
            i64 cycles = one->cycles + two->cycles, read_penalty = one->read_penalty + two->read_penalty, shared;
            if (least_cost != INT64_MAX && cycles + read_penalty - begun.most > least_cost) continue;
            if (share(c, i, two, &begun, &shared) < 0) return -1;
            cycles -= shared;
            if (cycles + read_penalty < least_cost || (cycles + read_penalty == least_cost && cycles < fewest)) {
                least_cost = cycles + read_penalty;
                fewest = cycles;
            }
        }
    }
    growing_push(out, fewest);
    return 0;
}

/* Coupling.least: for each block of the second kernel the least of some costs less what is shared, and its place. */
static int least_costs(Couple *c, const i64 *costs, Growing *out)
{
    for (i64 j = 0; j < c->terms->count[1]; j++) {
        const Option *two = &c->two.options[j];
        Begun begun;
        i64 best = 0, at = -1, shared;
        if (begin(c, two, &begun) < 0) return -1;
        for (i64 i = 0; i < c->terms->count[0]; i++) {
            if (at >= 0 && costs[i] - begun.most >= best) continue;
            if (share(c, i, two, &begun, &shared) < 0) return -1;
            if (at >= 0 && costs[i] - shared >= best) continue;
            best = costs[i] - shared;
            at = i;
        }
        growing_push(out, best);
        growing_push(out, at);
    }
    return 0;
}

/* Whether one of the two kernels has its options, and each option a load with the blocks that are looked at. */
static int side_fits(const Flat *flat, const Terms *t, int side)
{
    i64 length = flat->length, begin = t->begin[side], count = t->count[side];
    if (length < 1 || begin < 0 || begin > length || count > (length - begin) / OPTION_SIZE || flat->at[0] < 0 || flat->at[0] > length) return 0;
    const Option *option = (const Option *)(flat->at + begin);
    const i64 *loads = flat->at + flat->at[0];
    length -= flat->at[0];
    for (i64 i = 0; i < count; i++, option++) {
        if (!are_within(option->block, 3, 1, 1, INT64_MAX)) return 0;
        if (option->load < 0 || option->load_end > length || option->load_end - option->load < LOAD_HEAD) return 0;
        const i64 *load = loads + option->load, places = load[LOAD_PLACES];
        if (places < 0 || !load_fits(load, option->load_end - option->load, side ? 0 : most(0, places - t->near), side ? least(t->near, places) : places))
            return 0;
    }
    return 1;
}

/* coupling(estimates of one, of two, sources of one, of two, pair, terms, costs): `together` without costs, `least_costs` with one for each
   block of the first kernel. The pair is empty where the terms say the distance. */
PyObject *coupling(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Flat f[7];
    Growing out = {0};
    (void)module;
    if (count != 7) {
        PyErr_SetString(PyExc_TypeError, "two estimates, their sources, a pair of kernels, terms and costs are needed");
        return NULL;
    }
    if (flat_all(arguments, f, 7, 7) < 0) return NULL;
    const Terms *t = (const Terms *)f[5].view.buf;
    if (f[2].length != SOURCES_SIZE || f[3].length != SOURCES_SIZE || f[5].length * 8 != (Py_ssize_t)sizeof(Terms) || t->count[0] < 1 ||
        t->count[1] < 1 || (f[4].length && !is_pair(&f[4])) || !are_within(&t->near, 1, 1, 0, MOST_NEAR) ||
        !are_within(&t->limit, 1, 1, 0, MOST_DISTANCE + 1) || !side_fits(&f[0], t, 0) || !side_fits(&f[1], t, 1) || (f[6].length && f[6].length != t->count[0])) {
        flat_release(f, 7);
        PyErr_SetString(PyExc_ValueError, "these are no kernels in a row");
        return NULL;
    }
    Couple c = {t, &f[4], {f[0].at, (const Option *)(f[0].at + t->begin[0]), (const Sources *)f[2].view.buf},
                {f[1].at, (const Option *)(f[1].at + t->begin[1]), (const Sources *)f[3].view.buf}, NULL};
    c.ended = calloc((size_t)t->count[0], sizeof(Ended));
    if (!c.ended || (f[6].length ? least_costs(&c, f[6].at, &out) : together(&c, &out)) < 0) out.failed = 1;
    free(c.ended);
    flat_release(f, 7);
    return growing_bytes(&out);
}
