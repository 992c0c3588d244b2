/* Estimates as Estimator of cascader/ethosu/cost/block_estimator.py makes them: it is the specification, with reasons. Every sum of fractions
   has its terms in the same order, so that both are equal to the last bit. */

#include "estimate.h"

enum { BRICK_CHANNELS = 16, WEIGHT_SLOTS = 3 };

typedef struct {
    i64 ofm_height, ofm_width, ofm_depth, ofm_size, ifm_height, ifm_width, ifm_depth, ifm_size, ifm_bricks, ifm_stride_x, operands;
    i64 stride_y, stride_x, dilated_height, dilated_width, upscaled, ublock_height, ublock_width, ublock_depth;
    i64 weights, scales, rate, rate_divisor, decoding, shares, kept, kinds, pairs, first_step, last_step, output_start;
} Kernel;

typedef struct {
    i64 floor, plane, steps, delay, fill, spared, channels, share, first, times;
} Step;

typedef struct {
    i64 one, two, times;
} Pair;

typedef struct {
    double inner, last, first, least;
} Block;

typedef struct {
    const Kernel *kernel;
    const Step *steps;
    const Pair *pairs;
    const Sources *sources;
    Source maps, home;
    int shared, shared_cap, single, apart, ifm_ahead, bursts_ahead, stores_queue, waits, waits_behind;
    i64 beat;
    double pace, store_pace, fill, *macs, *readies;
} Estimator;

/* Blocks that fetch in a kernel without a load between two stores. */
enum { NO_LOAD_BETWEEN = 2 };

static double share_of(const Estimator *e, const Step *step, i64 depth)
{
    return (double)(depth * step->share) / (double)(e->kernel->ofm_depth * e->kernel->shares);
}

static i64 fetch(const Estimator *e, const Step *step, i64 height, i64 width, i64 depth, i64 *transactions)
{
    const Kernel *k = e->kernel;
    i64 rows = (height - 1) * k->stride_y + k->dilated_height, columns = (width - 1) * k->stride_x + k->dilated_width;
    if (k->upscaled) {
        rows = div_up(rows, 2);
        columns = div_up(columns, 2);
    }
    rows = least(rows, k->ifm_height);
    columns = least(columns, k->ifm_width);
    i64 channels = least(step->channels ? step->channels : depth, k->ifm_depth), runs, run;
    int whole = channels == k->ifm_depth && k->ifm_stride_x == k->ifm_depth * k->ifm_size;
    if (k->ifm_bricks) {
        runs = rows * div_up(channels, BRICK_CHANNELS);
        run = div_up(columns * BRICK_CHANNELS * k->ifm_size, e->beat);
    } else {
        runs = rows * (whole ? 1 : columns);
        run = div_up((whole ? columns : 1) * channels * k->ifm_size, e->beat);
    }
    runs *= k->operands;
    *transactions = runs * div_up(run, (i64)e->maps.burst);
    return runs * run;
}

static double mac(const Estimator *e, const Step *step, i64 height, i64 width, i64 depth)
{
    const Kernel *k = e->kernel;
    i64 ublocks = div_up(depth, k->ublock_depth), plane = div_up(height, k->ublock_height) * div_up(width, k->ublock_width);
    i64 delays = step->delay * ((step->steps - 1) * ublocks + (ublocks == 1));
    i64 cycles = most(step->floor, step->plane * plane) * step->steps * ublocks + delays + step->fill;
    i64 used = depth % k->ublock_depth;
    if (used && used <= k->ublock_depth / 2) cycles -= step->spared * plane;
    return larger((double)cycles, (double)k->decoding * share_of(e, step, depth));
}

static double constants(const Estimator *e, const Step *step, i64 depth, i64 *words)
{
    const Kernel *k = e->kernel;
    *words = ceiling((double)k->weights / (double)e->beat * share_of(e, step, depth));
    if (step->first) *words += div_up(k->scales * depth, k->ofm_depth * e->beat);
    double cycles = e->home.latency + source_cycles(&e->home, *words, div_up(*words, (i64)e->home.burst));
    if (!e->shared) cycles = larger(cycles, (double)*words * e->home.sustained);
    return *words > 0 ? cycles : 0.0;
}

/* Cycles in which words that are read and stored pass the feature maps' port. */
static double moving(const Estimator *e, i64 read, i64 stored)
{
    double both = (double)(read + stored);
    if (e->apart) return larger((double)read * e->pace, (double)stored * e->store_pace);
    return e->shared_cap ? both * e->pace : larger(both * e->maps.word, (double)most(read, stored) * e->pace);
}

static Block block_of(const Estimator *e, i64 height, i64 width, i64 depth, int fetches)
{
    const Kernel *k = e->kernel;
    i64 stored = div_up(height * width * (div_up(depth, BRICK_CHANNELS) * BRICK_CHANNELS) * k->ofm_size, e->beat), maps = 0, decoded = 0;
    for (i64 s = 0; s < k->kinds; s++) {
        const Step *step = &e->steps[s];
        i64 transactions, read_words, words = fetch(e, step, height, width, depth, &transactions);
        double read = constants(e, step, depth, &read_words), brought = fetches ? source_cycles(&e->maps, words, transactions) : 0.0;
        if (fetches) brought = larger(brought, (double)words * e->fill);
        double latency = fetches ? e->maps.latency : 0.0, macs = mac(e, step, height, width, depth);
        double waited = e->ifm_ahead ? larger(brought, (brought + latency + macs) / 2) : brought + latency;
        double ready = larger(waited, read);
        e->macs[s] = macs;
        if (e->shared) ready = larger(ready, brought + read - e->home.latency);
        decoded += step->times * read_words;
        if (e->bursts_ahead) {
            double came = larger(read - e->home.latency, 0.0);
            ready = larger(larger(waited, (read + macs) / WEIGHT_SLOTS), e->shared ? brought + came : came);
        }
        e->readies[s] = ready;
        if (fetches) maps += step->times * words;
    }
    double inner = 0.0;
    for (i64 p = 0; p < k->pairs; p++) {
        double one = e->macs[e->pairs[p].one], two = e->readies[e->pairs[p].two];
        inner += (double)e->pairs[p].times * (e->single ? one + two : larger(one, two));
    }
    i64 output = div_up(height * width * depth * k->rate, k->rate_divisor) + k->output_start;
    double slowest = larger((double)output, moving(e, maps + (e->shared ? decoded : 0), stored));
    /* Between two stores a load passes that is requested ahead. */
    if (e->waits && fetches) slowest = larger(slowest, e->maps.latency + (double)stored * e->maps.word);
    int reads = (e->sources->read_behind != 0 && fetches) || (e->sources->constants_behind != 0 && decoded);
    if (e->waits_behind && reads) slowest = larger(slowest, stores_path(e->sources, (double)maps, (double)decoded, (double)stored) + e->sources->gap);
    return (Block){inner, e->macs[k->last_step], e->readies[k->first_step], slowest};
}

static double before(const Estimator *e, const Block *block, double following)
{
    if (e->single) return block->inner + block->last + following + block->least;
    return larger(block->least, block->inner + larger(block->last, following));
}

/* The blocks in one place, one behind the other in depth. */
static double column_of(const Estimator *e, i64 height, i64 width, i64 side)
{
    i64 depth = e->kernel->ofm_depth, wholes = depth / side, rest = depth % side;
    Block none = {0, 0, 0, 0}, w0 = wholes ? block_of(e, height, width, side, 1) : none, w1 = w0;
    Block r0 = rest ? block_of(e, height, width, rest, 1) : none, r1 = r0;
    if (e->kernel->kept) {
        if (wholes) w1 = block_of(e, height, width, side, 0);
        if (rest) r1 = block_of(e, height, width, rest, 0);
    }
    double after = rest ? r1.first : w0.first, column = 0.0;
    if (wholes > 1) column = before(e, &w0, w1.first) + (double)(wholes - 2) * before(e, &w1, w1.first) + before(e, &w1, after);
    else if (wholes) column = before(e, &w0, after);
    if (rest) column += wholes ? before(e, &r1, w0.first) : before(e, &r0, r0.first);
    return column;
}

static double estimate(Estimator *e, i64 height, i64 width, i64 depth)
{
    const Kernel *k = e->kernel;
    i64 heights[2] = {height, k->ofm_height % height}, widths[2] = {width, k->ofm_width % width};
    i64 rows[2] = {k->ofm_height / height, heights[1] > 0}, columns[2] = {k->ofm_width / width, widths[1] > 0};
    double total = 0.0;
    /* Loads are requested behind the first block that fetches, and none behind the last one. */
    i64 fetching = (rows[0] + rows[1]) * (columns[0] + columns[1]) * (k->kept ? 1 : div_up(k->ofm_depth, depth));
    e->waits_behind = fetching > NO_LOAD_BETWEEN;
    e->waits = e->stores_queue && e->waits_behind;
    for (int y = 0; y < 2; y++)
        for (int x = 0; x < 2; x++)
            if (rows[y] && columns[x]) total += (double)(rows[y] * columns[x]) * column_of(e, heights[y], widths[x], depth);
    i64 last = (heights[1] ? heights[1] : height) * (widths[1] ? widths[1] : width) * (k->ofm_depth % depth ? k->ofm_depth % depth : depth);
    return total + (double)last * ((double)k->rate / (double)k->rate_divisor + (double)k->ofm_size / (double)e->beat);
}

#define LARGEST ((i64)1 << 31)

/* Whether no divisor of a kernel is 0, and its pairs and ends are steps that it has. */
static int kernel_fits(const Kernel *k, const i64 *pairs)
{
    return k->kinds < LARGEST && k->pairs < LARGEST && k->ofm_depth > 0 && k->ofm_depth < LARGEST && k->rate_divisor > 0 && k->shares > 0 && k->ublock_height > 0 &&
           k->ublock_width > 0 && k->ublock_depth > 0 && are_within(&k->first_step, 2, 1, 0, k->kinds) &&
           are_within(pairs, k->pairs, 3, 0, k->kinds) && are_within(pairs + 1, k->pairs, 3, 0, k->kinds);
}

int estimate_blocks(const Flat *flat, const double *sources, const i64 *blocks, i64 count, double *out)
{
    const Kernel *k = (const Kernel *)flat->view.buf;
    Estimator e = {.kernel = k};
    const Py_ssize_t fixed = (Py_ssize_t)(sizeof(Kernel) / 8);
    if (flat->length < fixed || k->kinds < 1 || k->pairs < 0 || flat->length != fixed + 10 * k->kinds + 3 * k->pairs ||
        !kernel_fits(k, flat->at + fixed + 10 * k->kinds) || !are_within(blocks, 3 * count, 1, 1, LARGEST)) {
        PyErr_SetString(PyExc_ValueError, "this is no kernel to estimate");
        return -1;
    }
    const Sources *s = (const Sources *)sources;
    if (!(s->maps.burst >= 1 && s->home.burst >= 1 && s->word_bytes >= 1 && s->word_bytes < LARGEST)) {
        PyErr_SetString(PyExc_ValueError, "bursts and words of estimates are above 0");
        return -1;
    }
    e.steps = (const Step *)(flat->at + fixed);
    e.pairs = (const Pair *)(flat->at + fixed + 10 * k->kinds);
    memcpy(&e.maps, sources, sizeof(Source));
    memcpy(&e.home, sources + 5, sizeof(Source));
    e.sources = s;
    e.shared = s->shared != 0;
    e.shared_cap = s->shared_cap != 0;
    e.single = s->single != 0;
    e.apart = s->apart != 0;
    e.store_pace = s->store_pace;
    e.ifm_ahead = s->ifm_ahead != 0;
    e.bursts_ahead = s->bursts_ahead != 0;
    e.stores_queue = s->stores_queue != 0;
    e.fill = s->fill;
    e.beat = (i64)s->word_bytes;
    e.pace = larger(e.maps.word, e.maps.sustained);
    e.macs = malloc(2 * sizeof(double) * (size_t)k->kinds);
    if (!e.macs) {
        PyErr_NoMemory();
        return -1;
    }
    e.readies = e.macs + k->kinds;
    for (i64 b = 0; b < count; b++) out[b] = estimate(&e, blocks[3 * b], blocks[3 * b + 1], blocks[3 * b + 2]);
    free(e.macs);
    return 0;
}

PyObject *estimates(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Flat flats[4];
    (void)module;
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "a kernel, sources, blocks and room for estimates are needed");
        return NULL;
    }
    if (flat_all(arguments, flats, 4, 3) < 0) return NULL;
    Py_ssize_t blocks = flats[2].length / 3;
    int result = -1;
    if (flats[1].length != SOURCES_SIZE || flats[3].length != blocks) PyErr_SetString(PyExc_ValueError, "this is no kernel to estimate");
    else result = estimate_blocks(&flats[0], (const double *)flats[1].view.buf, flats[2].at, blocks, (double *)flats[3].view.buf);
    flat_release(flats, 4);
    if (result < 0) return NULL;
    Py_RETURN_NONE;
}
