/* What two kernels in a row share in any of their blocks, as Coupling of cascader/ethosu/cost/coupling.py says: that is the specification,
   with reasons. */

#include "coupling.h"

#include "blockdep.h"
#include "flow.h"
#include "option.h"

enum { HONOURED, IGNORED, DRAINED };
enum { MOST_DISTANCE = 3 };

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

/* The units behind the first kernel in one of its blocks, and when it is done. */
typedef struct {
    Units units;
    double done;
} Ended;

/* The second kernel's first blocks in one of its blocks: cycles in which their words pass, and when they are done on their own. */
typedef struct {
    double moving, alone;
} Begun;

static const i64 *load_of(const Side *side, const Option *option) { return side->flat + side->flat[0] + option->load; }

static int end(const Terms *t, const Side *one, const Option *option, Ended *ended)
{
    const i64 *load = load_of(one, option);
    Run run = {most(0, load[LOAD_PLACES] - t->near), load[LOAD_PLACES], 0, 1};
    Flow flow;
    memset(&ended->units, 0, sizeof(Units));
    ended->units.latency = (double)t->latency[0];
    if (flow_of_load(load, one->sources, &ended->units, run, &flow) < 0) return -1;
    ended->done = flow.cycles;
    return 0;
}

static int begin(const Terms *t, const Side *two, const Option *option, Begun *begun)
{
    const i64 *load = load_of(two, option), *order = load + LOAD_HEAD, *kinds = order + load[LOAD_PLACES];
    const Source *home = &two->sources->home;
    Run run = {0, least(t->near, load[LOAD_PLACES]), 0, 1};
    i64 fetched = 0, stored = 0, constants = 0;
    for (i64 place = 0; place < run.last; place++) {
        const i64 *block = load + kinds[order[place]], *step = block + 3;
        stored += block[1];
        for (i64 s = 0; s < block[2]; s++, step += STEP_SIZE) {
            fetched += step[0];
            constants += step[2];
        }
    }
    Units units = {0};
    Flow flow;
    if (flow_of_load(load, two->sources, &units, run, &flow) < 0) return -1;
    double rate = larger(source_cycles(home, (i64)home->burst, 1) / home->burst, home->sustained);
    begun->moving = moving_cycles(two->sources, fetched + (two->sources->shared != 0 ? constants : 0), stored);
    begun->alone = larger(flow.cycles, (double)constants * rate);
    return 0;
}

/* Blocks of the first kernel that may be unfinished when the second one begins; less than nothing if memory ran out. */
static i64 distance_of(const Terms *t, const Flat *pair, const Option *one, const Option *two)
{
    if (t->rule != HONOURED) return t->rule == IGNORED ? MOST_DISTANCE : 0;
    return pair->length ? blocks_between(pair->at, one->block, two->block) : t->limit;
}

/* Coupling.shared; the units behind the first kernel are those of `ended`. Returns 0, or -1 if memory ran out. */
static int share(const Terms *t, const Flat *pair, const Side *sides, const Option *one, const Option *two, const Ended *ended,
                 const Begun *begun, i64 *found)
{
    i64 waits = most(0, two->lead - one->tail);
    int is_apart = t->is_apart || (t->drains && memcmp(one->shram, two->shram, sizeof one->shram));
    i64 distance = is_apart && !t->further ? 0 : distance_of(t, pair, one, two);
    *found = -waits - (is_apart && distance ? 0 : t->further);
    if (distance < 0) return -1;
    if (is_apart || !distance) return 0;
    const i64 *load = load_of(&sides[1], two);
    Run run = {0, least(t->near, load[LOAD_PLACES]), distance, 0};
    Units units = ended->units;
    Flow flow;
    if (t->rule == IGNORED) units.stores = 0;
    if (flow_of_load(load, sides[1].sources, &units, run, &flow) < 0) return -1;
    *found = most(-waits, ceiling(begun->alone - larger(flow.cycles - ended->done, begun->moving)) + t->latency[1]);
    return 0;
}

/* The cycles of the two in the blocks that cost least together, and what they share: for each block of the first a row. */
static int fill(const Terms *t, const Flat *pair, const Side *sides, Ended *ended, Begun *begun, i64 *out)
{
    for (i64 i = 0; i < t->count[0]; i++)
        if (end(t, &sides[0], &sides[0].options[i], &ended[i]) < 0) return -1;
    for (i64 j = 0; j < t->count[1]; j++)
        if (begin(t, &sides[1], &sides[1].options[j], &begun[j]) < 0) return -1;
    i64 least_cost = INT64_MAX, *shared = out + 1;
    for (i64 i = 0; i < t->count[0]; i++)
        for (i64 j = 0; j < t->count[1]; j++, shared++) {
            const Option *one = &sides[0].options[i], *two = &sides[1].options[j];
            if (share(t, pair, sides, one, two, &ended[i], &begun[j], shared) < 0) return -1;
            i64 cycles = one->cycles + two->cycles - *shared, cost = cycles + one->burden + two->burden;
            if (cost < least_cost || (cost == least_cost && cycles < out[0])) {
                least_cost = cost;
                out[0] = cycles;
            }
        }
    return 0;
}

/* coupling(estimates of one, of two, sources of one, of two, pair, terms): see `fill`. The pair is empty where the terms say the distance. */
PyObject *coupling(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Flat f[6];
    (void)module;
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "two estimates, their sources, a pair of kernels and terms are needed");
        return NULL;
    }
    if (flat_all(arguments, f, 6, 6) < 0) return NULL;
    const Terms *t = (const Terms *)f[5].view.buf;
    PyObject *result = NULL;
    if (f[2].length != SOURCES_SIZE || f[3].length != SOURCES_SIZE || f[5].length * 8 != (Py_ssize_t)sizeof(Terms) || t->count[0] < 1 ||
        t->count[1] < 1 || (f[4].length && !is_pair(&f[4])))
        PyErr_SetString(PyExc_ValueError, "these are no kernels in a row");
    else {
        Side sides[2];
        for (int i = 0; i < 2; i++) sides[i] = (Side){f[i].at, (const Option *)(f[i].at + t->begin[i]), (const Sources *)f[2 + i].view.buf};
        size_t numbers = (size_t)(1 + t->count[0] * t->count[1]);
        Ended *ended = malloc((size_t)t->count[0] * sizeof(Ended));
        Begun *begun = malloc((size_t)t->count[1] * sizeof(Begun));
        i64 *out = malloc(numbers * sizeof(i64));
        if (!ended || !begun || !out || fill(t, &f[4], sides, ended, begun, out) < 0) PyErr_NoMemory();
        else result = PyBytes_FromStringAndSize((const char *)out, (Py_ssize_t)(numbers * sizeof(i64)));
        free(ended);
        free(begun);
        free(out);
    }
    flat_release(f, 6);
    return result;
}
