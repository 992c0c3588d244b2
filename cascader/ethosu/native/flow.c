/* Loads and flows as cascader/ethosu/cost/kernel_load.py and kernel_flow.py work them out: that is the specification, with reasons.

   A load is a row of integers: places, kinds of blocks, words of the feature maps and of the constants, blocks that fetch, the kind at
   every place, where each
   kind is, and of each kind output cycles, stored words, steps, stores, and of every step words and transactions of its fetches, words and
   transactions of its constants, MAC cycles, and whether it goes on in the slot of the step before. */

#include "flow.h"

#include "work.h"

static void add_reads(const Flat *work, i64 at, i64 burst, i64 *words, i64 *transactions)
{
    if (!at) return;
    const i64 *read = work->at + at;
    i64 reads = *read++;
    for (i64 r = 0; r < reads; r++) {
        i64 pairs = read[2];
        read += 3;
        for (i64 p = 0; p < pairs; p++, read += 2) {
            *words += read[0] * read[1];
            *transactions += read[0] * div_up(read[1], burst);
        }
    }
}

static i64 written(const Flat *work, i64 at, i64 burst, i64 *transactions)
{
    const i64 *runs = work->at + at;
    i64 words = 0;
    for (i64 p = 0; p < runs[0]; p++) {
        words += runs[1 + 2 * p] * runs[2 + 2 * p];
        *transactions += runs[1 + 2 * p] * div_up(runs[2 + 2 * p], burst);
    }
    return words;
}

int load_of_work(const Flat *work, i64 map_burst, i64 burst, Growing *out)
{
    i64 places = work->at[0], depths = work->at[1], columns = work->at[2], kinds = columns * depths, maps = 0, constants = 0, fetching = 0;
    const i64 *sequence = work->at + work->at[3], *jobs = work->at + work->at[4];
    i64 *times = calloc((size_t)(columns ? columns : 1), sizeof(i64));
    if (!times) {
        out->failed = 1;
        return -1;
    }
    size_t begin = out->length;
    for (i64 p = 0; p < places; p++) times[sequence[p]]++;
    growing_push(out, places * depths);
    growing_push(out, kinds);
    for (int i = LOAD_MAPS; i < LOAD_HEAD; i++) growing_push(out, 0);
    for (i64 p = 0; p < places; p++)
        for (i64 d = 0; d < depths; d++) growing_push(out, sequence[p] * depths + d);
    size_t table = out->length;
    for (i64 k = 0; k < kinds; k++) growing_push(out, 0);
    for (i64 k = 0; k < kinds; k++) {
        const i64 *job = work->at + jobs[k];
        i64 stores = 0, stored = written(work, job[1], burst, &stores), moved = stored, read = 0;
        if (!out->failed) out->at[table + (size_t)k] = (i64)(out->length - begin);
        growing_push(out, job[0]);
        growing_push(out, stored);
        growing_push(out, job[3]);
        growing_push(out, stores);
        for (i64 s = 0; s < job[3]; s++) {
            const i64 *step = job + 4 + 3 * s;
            i64 fetched = 0, fetches = 0, words = 0, reads = 0;
            add_reads(work, step[0] < 0 ? -1 - step[0] : step[0], map_burst, &fetched, &fetches);
            add_reads(work, step[1], burst, &words, &reads);
            if (!s) add_reads(work, job[2], burst, &words, &reads);
            growing_push(out, fetched);
            growing_push(out, fetches);
            growing_push(out, words);
            growing_push(out, reads);
            growing_push(out, step[2]);
            growing_push(out, step[0] < 0);
            moved += fetched;
            read += words;
        }
        maps += times[k / depths] * moved;
        fetching += moved > stored ? times[k / depths] : 0;
        constants += times[k / depths] * read;
    }
    if (!out->failed) {
        out->at[begin + LOAD_MAPS] = maps;
        out->at[begin + LOAD_CONSTANTS] = constants;
        out->at[begin + LOAD_FETCHING] = fetching;
    }
    free(times);
    return out->failed ? -1 : 0;
}

PyObject *kernel_load(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Flat work;
    Growing out = {0};
    (void)module;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "block work and two bursts are needed");
        return NULL;
    }
    i64 map_burst = PyLong_AsLongLong(arguments[1]), burst = PyLong_AsLongLong(arguments[2]);
    if (PyErr_Occurred() || flat_all(arguments, &work, 1, 1) < 0) return NULL;
    if (!is_work(&work, INT64_MAX) || map_burst < 1 || burst < 1) {
        flat_release(&work, 1);
        PyErr_SetString(PyExc_ValueError, "this is no work of blocks");
        return NULL;
    }
    load_of_work(&work, map_burst, burst, &out);
    flat_release(&work, 1);
    return growing_bytes(&out);
}

/* Cycles of a step: fetches on the port and into the input buffer, constants (less than nothing where there are none), constants at their
   sustained rate, MACs; fills of its slot and of the next one (less than nothing: of the next block); and whether it goes on in the slot of
   the step before.
   A step ends and begins within a burst: while one of the two parts counts under the cap, half a burst is lost there. */
typedef struct {
    double fetch, fill, read, sustained, mac, slot_fill, next_fill;
    int goes_on;
} StepCosts;

typedef struct {
    const StepCosts *steps;
    i64 count;
    double output, stored, answered;
} BlockCosts;

static BlockCosts block_costs(const i64 *block, const Sources *sources, StepCosts *steps)
{
    const Source *maps = &sources->maps, *home = &sources->home;
    Source writes = {sources->store_word, sources->write_latency, sources->most_writes, 0, 0};
    int bursts = sources->bursts_ahead != 0;
    BlockCosts costs = {steps, block[2], (double)block[0], (double)block[1] * sources->store_word, source_cycles(&writes, block[1], block[3])};
    for (i64 s = 0; s < block[2]; s++) {
        const i64 *step = block + BLOCK_HEAD + STEP_SIZE * s;
        double read = source_cycles(home, step[2], step[3]);
        steps[s] = (StepCosts){
            step[0] ? source_cycles(maps, step[0], step[1]) : -1.0,
            (double)step[0] * sources->fill,
            !step[2] ? -1.0 : bursts ? (double)step[2] * home->word : read,
            larger(((double)step[2] + home->burst / 2) * home->sustained, bursts ? read : 0.0),
            (double)step[4],
            0,
            -1,
            step[5] != 0,
        };
    }
    double fill = 0, next = -1;
    for (i64 s = sources->turn_share > 1 ? block[2] : 0; s-- > 0;) {
        fill += steps[s].fill;
        if (steps[s].goes_on) continue;
        steps[s].slot_fill = fill;
        steps[s].next_fill = next;
        next = fill;
        fill = 0;
    }
    return costs;
}

/* _Units.take, but for what the last slot but one allows */
static void take_slot(Units *u, const StepCosts *step, double latency, double following)
{
    u->load_from = larger(u->filled, u->asked + latency);
    u->load_to = u->load_from + step->slot_fill;
    u->next_from = larger(u->load_to, u->slot + latency);
    u->next_to = u->next_from + (step->next_fill < 0 ? following : step->next_fill);
    u->slot_before = u->slot;
}

/* _Units.beside_loads */
static double beside_loads(const Units *u, const Sources *sources, double cycle, double read)
{
    double slow = sources->turn_share, ahead = sources->issued_ahead, begins[2] = {u->load_from, u->next_from};
    double ends[2] = {(u->next_from <= u->load_to ? u->next_to : u->load_to) - ahead, u->next_to - ahead};
    for (int i = 0; i < 2 && slow > 1; i++) {
        double before = larger(0.0, begins[i] - cycle);
        if (!(read > before && ends[i] > larger(cycle, begins[i]))) continue;
        double meanwhile = (ends[i] - cycle - before) / slow;
        if (read - before < meanwhile) meanwhile = read - before;
        cycle += before + meanwhile * slow;
        read -= before + meanwhile;
    }
    return cycle + read;
}

static void run_block(Units *u, const BlockCosts *block, const Sources *sources, int *prefetched, i64 following, const BlockCosts *after)
{
    const Source *maps = &sources->maps, *home = &sources->home;
    int shared = sources->shared != 0, single = sources->single != 0;
    if (single) {
        u->output_before = u->output;
        u->store_before = u->store;
    }
    double begin = u->mac > u->output_before ? u->mac : u->output_before;
    i64 slots = 0, fetches = 0;
    for (i64 s = 0; s < block->count; s++) {
        const StepCosts *step = &block->steps[s];
        if (single) u->mac_before = u->mac;
        if (sources->ifm_ahead != 0) {
            if (!step->goes_on) {
                u->asked = larger(u->asked, single ? u->mac : u->slot_before);
                take_slot(u, step, maps->latency, after && after->count ? after->steps->slot_fill : 0.0);
                slots++;
            }
            if (step->fetch >= 0) {
                double start = u->asked + maps->latency;
                u->port = larger(u->port, start) + step->fetch;
                u->filled = larger(u->filled, start) + step->fill;
                u->load = larger(u->load, larger(u->port, u->filled));
                fetches++;
            }
        } else if (step->fetch >= 0) {
            double start = (u->load > u->mac_before ? u->load : u->mac_before) + maps->latency;
            u->load = u->port = (u->port > start ? u->port : start) + step->fetch;
        }
        if (*prefetched) {
            --*prefetched;
        } else if (step->read >= 0 && sources->bursts_ahead != 0) {
            u->begun = larger(u->begun, u->mac_earlier);
            double start = u->begun + home->latency;
            u->stream = u->decoder = beside_loads(u, sources, larger(u->stream, start), step->read);
            if (shared) {
                u->port = larger(u->port, start) + step->read;
                u->decoder = larger(u->decoder, u->port);
            }
            u->allowance = larger(u->allowance, u->begun) + step->sustained;
            u->decoder = larger(u->allowance, u->decoder);
        } else if (step->read >= 0) {
            double start = u->decoder > u->mac_before ? u->decoder : u->mac_before;
            if (shared) {
                start += home->latency;
                u->decoder = u->port = (u->port > start ? u->port : start) + step->read;
            } else {
                u->allowance = (u->allowance > start ? u->allowance : start) + step->sustained;
                u->decoder = start + home->latency + step->read;
                u->decoder = larger(u->allowance, u->decoder);
            }
        }
        u->mac_earlier = u->mac_before;
        u->mac_before = u->mac;
        begin = begin > u->load ? begin : u->load;
        begin = u->mac = (begin > u->decoder ? begin : u->decoder) + step->mac;
        u->slot = u->mac;
    }
    double output = larger(larger(u->output, u->mac), u->store_before + sources->slot_response) + block->output;
    u->output_before = u->output;
    u->output = output;
    double store = larger(u->store + sources->slot_response, output);
    if (sources->stores_queue != 0 && fetches && following * slots >= 2) store = larger(store, u->store + maps->latency);
    if (sources->most_writes != 0) {
        u->answered = larger(u->answered, store) + block->answered;
        store = larger(store, u->answered - sources->write_latency - block->stored);
    }
    store += block->stored;
    u->store_before = u->store;
    u->store = store;
    int stores = (int)u->stores;
    if (stores == MOST_STORES) {
        memmove(u->last, u->last + 1, (MOST_STORES - 1) * sizeof(double));
        stores--;
    }
    u->last[stores] = store;
    u->stores = stores + 1;
}

int load_fits(const i64 *load, i64 length, i64 first, i64 last)
{
    if (length < LOAD_HEAD || !are_within(load, 2, 1, 0, length)) return 0;
    i64 count = load[LOAD_PLACES], kinds = load[LOAD_KINDS], head = LOAD_HEAD + count + kinds;
    const i64 *places = load + LOAD_HEAD + count;
    if (head > length || first < 0 || last > count || !are_within(places, kinds, 1, head, length - BLOCK_HEAD + 1)) return 0;
    for (i64 k = 0; k < kinds; k++) {
        i64 steps = load[places[k] + 2];
        if (steps < 0 || steps > (length - places[k] - BLOCK_HEAD) / STEP_SIZE) return 0;
    }
    return are_within(load + LOAD_HEAD + first, last - first, 1, 0, kinds);
}

int flow_of_load(const i64 *load, const Sources *sources, Units *u, Run run, Flow *flow)
{
    const i64 *sequence = load + LOAD_HEAD, *places = sequence + load[0];
    i64 kinds = load[1], steps = 0;
    for (i64 k = 0; k < kinds; k++) steps += load[places[k] + 2];
    BlockCosts *costs = calloc((size_t)kinds + 1, sizeof(BlockCosts));
    StepCosts *all = malloc(sizeof(StepCosts) * (size_t)(steps + 1)), *next = all;
    if (!costs || !all) {
        free(costs);
        free(all);
        return -1;
    }
    double released[MOST_STORES];
    int stores = (int)u->stores, prefetched = run.prefetched && sources->weights_ahead != 0 ? STEPS_PREFETCHED : 0;
    for (i64 i = 0; i <= run.distance; i++) {
        i64 ahead = run.distance - i;
        released[i] = ahead < stores ? u->last[stores - 1 - ahead] + u->latency * (run.distance ? 1 : 1 + sources->drain_responses) : 0.0;
    }
    double *handed = sources->bursts_ahead != 0 ? &u->begun : &u->decoder;
    *handed = larger(*handed, sources->ifm_ahead != 0 ? u->asked : u->load);
    for (i64 p = run.first; p < run.last; p++) {
        i64 kind = sequence[p], last = p + 1 == run.last;
        for (i64 at = p; at <= p + !last; at++)
            if (!costs[sequence[at]].steps) {
                costs[sequence[at]] = block_costs(load + places[sequence[at]], sources, next);
                next += costs[sequence[at]].count;
            }
        double *next = sources->ifm_ahead != 0 ? &u->asked : &u->load;
        *next = larger(*next, released[least(p - run.first, run.distance)]);
        if (sources->weights_ahead == 0) *handed = larger(*handed, *next);
        if (!p) *next += sources->kernel_start;
        run_block(u, &costs[kind], sources, &prefetched, run.last - 1 - p, last ? NULL : &costs[sequence[p + 1]]);
    }
    free(costs);
    free(all);
    double free = sources->bursts_ahead != 0 ? u->mac_earlier : u->mac_before, loaded = sources->ifm_ahead != 0 ? u->asked : u->load;
    *flow = (Flow){u->store, u->store - larger(larger(*handed, free), loaded)};
    return 0;
}

PyObject *kernel_flow(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Flat flats[3];
    (void)module;
    if (count != 7) {
        PyErr_SetString(PyExc_TypeError, "a load, sources, units, first and last place, whether it is prefetched and a distance are needed");
        return NULL;
    }
    i64 numbers[4];
    for (int i = 0; i < 4; i++) numbers[i] = PyLong_AsLongLong(arguments[3 + i]);
    if (PyErr_Occurred() || flat_all(arguments, flats, 3, 2) < 0) return NULL;
    Run run = {numbers[0], numbers[1], numbers[3], (int)numbers[2]};
    const i64 *load = flats[0].at;
    if (flats[0].length < LOAD_HEAD || flats[1].length != SOURCES_SIZE || flats[2].length != STATE_SIZE || run.distance < 0 ||
        run.distance >= MOST_STORES || !load_fits(load, flats[0].length, run.first, run.last) ||
        !(((const Units *)flats[2].view.buf)->stores >= 0 && ((const Units *)flats[2].view.buf)->stores <= MOST_STORES)) {
        flat_release(flats, 3);
        PyErr_SetString(PyExc_ValueError, "this is no flow");
        return NULL;
    }
    Flow flow;
    int result = flow_of_load(load, (const Sources *)flats[1].view.buf, (Units *)flats[2].view.buf, run, &flow);
    flat_release(flats, 3);
    return result < 0 ? PyErr_NoMemory() : Py_BuildValue("(dd)", flow.cycles, flow.tail);
}
