/* The estimates of one kernel, with its constants in the arena and at home, as KernelEstimate of cascader/ethosu/cost/kernel_estimate.py
   makes them: that is the specification, with reasons. */

#include "kernel.h"

#include "block_work.h"
#include "estimate.h"
#include "flow.h"
#include "option.h"
#include "shram.h"

enum { READ_BEFORE_STORES = 2, OWN_BLOCK = 5, BLOCK_SIZE = 3, FITTING_SIZE = 4, MOST_BLOCKS = 64 };

/* Where a kernel reads, in turn staged, at home, and at home beside a copy; cycles of a word of constants in a long stream, staged and at
   home; and the shares of cycles that block_choice.py and kernel_estimate.py name. */
typedef struct {
    Sources sources[3];
    double rates[2], promising, worthwhile, read_penalty;
} Memories;

typedef struct {
    i64 shram[3], operand_latency, worst_operand_latency, command_cycles, overhead, blocks, partitions, chooses;
} Numbers;

typedef struct {
    double cycles;
    i64 number;
} Ranked;

/* A block with its partition and its load, a place in `loads`; its cycles are filled in when its flows are known. */
typedef struct {
    i64 block[BLOCK_SIZE], shram[3], load, length, stored, cold, prefetched, tail, prefetched_tail;
} InBlock;

typedef struct {
    const Flat *operation, *decoding, *kernel, *query, *grid;
    const Memories *memories;
    const Numbers *numbers;
    const Sources *sources;
    double home_rate, *cycles;
    Ranked *ranked;
    i64 *row, *blocks, staged, near, promising, found;
    InBlock *in_blocks;
    Growing *loads;
} Kernel;

static const i64 *load_at(const Kernel *k, const InBlock *b) { return k->loads->at + b->load; }

static int by_cycles(const void *one, const void *two)
{
    const Ranked *a = one, *b = two;
    if (a->cycles != b->cycles) return a->cycles < b->cycles ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

/* Ranking: the blocks that are worth a look, the fastest first; how many of them beat the own one. */
static int rank(Kernel *k)
{
    const i64 *own = k->operation->at + OWN_BLOCK, count = k->grid->length / BLOCK_SIZE, *ofm = k->operation->at + 2;
    i64 worst = k->numbers->worst_operand_latency;
    memcpy(k->blocks, own, BLOCK_SIZE * sizeof(i64));
    memcpy(k->blocks + BLOCK_SIZE, k->grid->at, (size_t)k->grid->length * sizeof(i64));
    if (estimate_blocks(k->kernel, (const double *)k->sources, k->blocks, count + 1, k->cycles) < 0) return -1;
    k->near = k->promising = 0;
    for (i64 b = 0; b <= count; b++) {
        const i64 *block = k->blocks + BLOCK_SIZE * b;
        i64 places = div_up(ofm[0], block[0]) * div_up(ofm[1], block[1]) * div_up(ofm[2], block[2]);
        k->cycles[b] = larger(k->cycles[b] + k->sources->kernel_start, worst ? (double)(worst * places) : 0.0);
        if (!b || !(k->cycles[b] < k->cycles[0] * k->memories->worthwhile)) continue;
        k->ranked[k->near++] = (Ranked){k->cycles[b], b};
        k->promising += k->cycles[b] < k->cycles[0] * k->memories->promising;
    }
    qsort(k->ranked, (size_t)k->near, sizeof(Ranked), by_cycles);
    for (i64 b = 0; b < k->near; b++) memcpy(k->blocks + BLOCK_SIZE * b, k->grid->at + BLOCK_SIZE * (k->ranked[b].number - 1), BLOCK_SIZE * sizeof(i64));
    return 0;
}

static int flow(const Kernel *k, const InBlock *b, const Sources *sources, int prefetched, Flow *found)
{
    Units units = {0};
    Run run = {0, load_at(k, b)[LOAD_PLACES], 0, prefetched};
    if (flow_of_load(load_at(k, b), sources, &units, run, found) == 0) return 0;
    PyErr_NoMemory();
    return -1;
}

/* _on_stores_path */
static double on_stores_path(const InBlock *b, const i64 *load, const Sources *sources)
{
    int reads = sources->constants_behind != 0 && load[LOAD_CONSTANTS];
    i64 reading = sources->read_behind != 0 ? load[LOAD_FETCHING] : reads ? load[LOAD_PLACES] : 0;
    if (reading <= READ_BEFORE_STORES) return 0;
    double path = stores_path(sources, (double)(load[LOAD_MAPS] - b->stored), (double)load[LOAD_CONSTANTS], (double)b->stored);
    return path + sources->gap * (double)(reading - READ_BEFORE_STORES);
}

/* _Kernel._paced */
static i64 paced(const Kernel *k, const InBlock *b, const Sources *sources, double cycles)
{
    const i64 *load = load_at(k, b);
    int together = sources->shared_cap != 0 && sources->apart == 0;
    i64 written = together ? 0 : b->stored, read = load[LOAD_MAPS] - written + (sources->shared != 0 ? load[LOAD_CONSTANTS] : 0);
    i64 operands = k->numbers->operand_latency * load[LOAD_PLACES] + (i64)sources->kernel_start;
    i64 least_cycles = most(operands, k->numbers->command_cycles);
    double moving = larger(moving_cycles(sources, read, written), on_stores_path(b, load, sources));
    return ceiling(larger(larger(cycles, moving), (double)least_cycles)) + k->numbers->overhead;
}

/* The cycles of a block if its first weights are there and if not, and its tails. */
static int run_block(const Kernel *k, InBlock *b)
{
    Flow prefetched, cold;
    if (flow(k, b, k->sources, 1, &prefetched) < 0 || flow(k, b, k->sources, 0, &cold) < 0) return -1;
    b->prefetched = paced(k, b, k->sources, prefetched.cycles);
    b->cold = paced(k, b, k->sources, cold.cycles);
    b->prefetched_tail = ceiling(prefetched.tail) + k->numbers->overhead;
    b->tail = ceiling(cold.tail) + k->numbers->overhead;
    return 0;
}

/* The kernel in one more block. One that is there already has its load and its cycles. */
static int add_block(Kernel *k, const i64 *block, const i64 *shram)
{
    InBlock *b = &k->in_blocks[k->found++];
    for (InBlock *other = k->in_blocks; other < b; other++)
        if (!memcmp(other->block, block, sizeof b->block)) {
            *b = *other;
            memcpy(b->shram, shram, sizeof b->shram);
            return 0;
        }
    memcpy(b->block, block, sizeof b->block);
    memcpy(b->shram, shram, sizeof b->shram);
    Flat row = *k->operation, work = {0};
    Growing made = {0};
    memcpy(k->row + OWN_BLOCK, block, sizeof b->block);
    row.at = k->row;
    if (work_of_blocks(&row, k->decoding, &made) < 0) return -1;
    work.at = made.at;
    b->load = (i64)k->loads->length;
    int failed = made.failed || load_of_work(&work, (i64)k->sources->maps.burst, (i64)k->sources->home.burst, k->loads) < 0;
    free(made.at);
    if (failed) {
        PyErr_NoMemory();
        return -1;
    }
    const i64 *load = load_at(k, b), *order = load + LOAD_HEAD, *places = order + load[LOAD_PLACES];
    b->length = (i64)k->loads->length - b->load;
    b->stored = 0;
    for (i64 p = 0; p < load[LOAD_PLACES]; p++) b->stored += load[places[order[p]] + 1];
    return run_block(k, b);
}

/* Add the first of the ranked blocks that fit. */
static int add_fitting(Kernel *k, i64 among, i64 wanted, i64 distinct)
{
    Growing found = {0};
    i64 how[2] = {least(wanted, MOST_BLOCKS), distinct};
    int result = fitting_blocks(k->query, k->blocks, among, how, &found);
    if (result < 0 || found.failed) PyErr_SetString(PyExc_ValueError, "this is no query of blocks");
    for (size_t at = 0; result == 0 && !found.failed && at < found.length; at += FITTING_SIZE)
        result = add_block(k, k->blocks + BLOCK_SIZE * found.at[at], found.at + at + 1);
    free(found.at);
    return result;
}

static i64 read_penalty(const Kernel *k, const InBlock *b)
{
    return k->staged ? 0 : (i64)((double)load_at(k, b)[LOAD_CONSTANTS] * k->home_rate * k->memories->read_penalty);
}

/* KernelEstimate.facts: cycles, lead, tail, contended cycles, cycles at home and of the decoder's reads. */
static int push_facts(const Kernel *k, Growing *out)
{
    const InBlock *best = k->in_blocks;
    for (i64 b = 1; b < k->found; b++) {
        const InBlock *other = &k->in_blocks[b];
        i64 cycles = k->staged ? other->prefetched : other->cold, fewest = k->staged ? best->prefetched : best->cold;
        if (cycles + read_penalty(k, other) < fewest + read_penalty(k, best)) best = other;
    }
    i64 constants = load_at(k, best)[LOAD_CONSTANTS], contended = best->cold, home = 0, reading = 0;
    if (!constants) {
        i64 cycles = k->staged ? best->prefetched : best->cold, facts[6] = {cycles, 0, k->staged ? best->prefetched_tail : best->tail, cycles, 0, 0};
        for (int i = 0; i < 6; i++) growing_push(out, facts[i]);
        return 0;
    }
    if (!k->staged) {
        Flow beside;
        if (flow(k, best, &k->memories->sources[2], 0, &beside) < 0) return -1;
        contended = most(contended, paced(k, best, &k->memories->sources[2], beside.cycles));
        home = ceiling((double)constants * k->home_rate);
        reading = ceiling((double)constants * source_rate(&k->sources->home));
    }
    i64 facts[6] = {best->cold, best->cold - best->prefetched, best->tail, contended, home, reading};
    for (int i = 0; i < 6; i++) growing_push(out, facts[i]);
    return 0;
}

/* KernelEstimate.options, of one block. */
static void push_option(const Kernel *k, const InBlock *b, Growing *out)
{
    i64 home = ceiling((double)load_at(k, b)[LOAD_CONSTANTS] * source_rate(&k->sources->home)) + k->numbers->overhead;
    i64 cycles = most(b->prefetched, home);
    Option option = {{0}, {0}, cycles, read_penalty(k, b), most(0, b->cold - cycles), b->tail, b->load, b->load + b->length};
    memcpy(option.block, b->block, sizeof b->block);
    memcpy(option.shram, b->shram, sizeof b->shram);
    for (int i = 0; i < OPTION_SIZE; i++) growing_push(out, ((const i64 *)&option)[i]);
}

/* The facts and the options with the constants in one place. */
static int push_estimate(Kernel *k, Growing *out)
{
    i64 chooses = k->numbers->chooses, blocks = chooses ? k->numbers->blocks : 0, partitions = chooses ? k->numbers->partitions : 0;
    k->found = 0;
    if ((chooses && rank(k) < 0) || add_block(k, k->operation->at + OWN_BLOCK, k->numbers->shram) < 0) return -1;
    if (chooses && add_fitting(k, k->promising, blocks, 0) < 0) return -1;
    i64 first = k->found;
    if (chooses && add_fitting(k, k->near, partitions, 1) < 0) return -1;
    if (push_facts(k, out) < 0) return -1;
    growing_push(out, 1 + k->found - first);
    push_option(k, k->in_blocks, out);
    for (i64 b = first; b < k->found; b++) push_option(k, &k->in_blocks[b], out);
    return 0;
}

/* kernel_estimates(operation, decoding, kernel, query, grid, memories, numbers): the estimate with the constants staged and at home, and
   the loads that their options refer to, from a place that comes first. */
PyObject *kernel_estimates(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Flat f[7];
    Growing out = {0}, loads = {0};
    (void)module;
    if (count != 7) {
        PyErr_SetString(PyExc_TypeError, "an operation, its decoding, its kernel, a query, blocks, memories and numbers are needed");
        return NULL;
    }
    if (flat_all(arguments, f, 7, 7) < 0) return NULL;
    Kernel k = {&f[0], &f[1], &f[2], &f[3], &f[4], (const Memories *)f[5].view.buf, (const Numbers *)f[6].view.buf, .loads = &loads};
    size_t room = (size_t)(f[4].length / BLOCK_SIZE + 1);
    int result = -1;
    if (f[5].length * 8 != (Py_ssize_t)sizeof(Memories) || f[6].length * 8 != (Py_ssize_t)sizeof(Numbers) || f[0].length < OWN_BLOCK + BLOCK_SIZE ||
        f[4].length % BLOCK_SIZE || !are_within(&((const Numbers *)f[6].view.buf)->blocks, 2, 1, 0, MOST_BLOCKS + 1))
        PyErr_SetString(PyExc_ValueError, "these are no memories and numbers of estimates");
    else {
        k.cycles = malloc(room * sizeof(double));
        k.ranked = malloc(room * sizeof(Ranked));
        k.blocks = malloc(room * BLOCK_SIZE * sizeof(i64));
        k.row = malloc((size_t)f[0].length * sizeof(i64));
        k.in_blocks = malloc((2 * MOST_BLOCKS + 1) * sizeof(InBlock));
        if (!k.cycles || !k.ranked || !k.blocks || !k.row || !k.in_blocks) PyErr_NoMemory();
        else {
            memcpy(k.row, f[0].at, (size_t)f[0].length * sizeof(i64));
            growing_push(&out, 0);
            result = 0;
            for (int place = 0; place < 2 && result == 0; place++) {
                k.sources = &k.memories->sources[place];
                k.staged = !place;
                k.home_rate = k.memories->rates[place];
                result = push_estimate(&k, &out);
            }
        }
    }
    if (!out.failed && out.length) out.at[0] = (i64)out.length;
    for (size_t i = 0; result == 0 && i < loads.length; i++) growing_push(&out, loads.at[i]);
    free(k.cycles);
    free(k.ranked);
    free(k.blocks);
    free(k.row);
    free(k.in_blocks);
    free(loads.at);
    flat_release(f, 7);
    if (result == 0) return growing_bytes(&out);
    free(out.at);
    return NULL;
}
