/* Sections of a stream of weights: a walk that counts how many different ones there were lately, and begins anew where a palette for
   these pays. Where it does is the rule of mlw_codec in Vela 5.2.0, to the weight. */

#include "encode.h"

enum { WINDOWS = 5, SHORTEST_WINDOW = 32, LONG_LASTING = 512 };

static int index_bits(i64 size)
{
    int bits = 0;
    while (bits < 8 && size > (i64)1 << bits) bits++;
    return bits;
}

/* The walk that looks for places at which a new palette pays. */
typedef struct {
    const int16_t *values;
    i64 start, size, zeros, found;
    int32_t last_seen[VALUES], *before, *nonzero;
    int has_palette;
    Growing *starts;
} Cutter;

/* Different weights from `first` to `at`: those places whose weight was not there before, or those weights that were there since. */
static i64 distinct(const Cutter *c, int32_t first, i64 at)
{
    int32_t count = 0;
    if (at - first < VALUES) for (i64 i = first; i <= at; i++) count += c->before[i] < first;
    else for (int value = 0; value < VALUES; value++) count += c->last_seen[value] >= first;
    return count;
}

/* A palette for the last `window` weights and those behind them, if it saves more bits than it takes. Weighs an index bit as 15/16. */
static int try_palette(Cutter *c, i64 at, i64 window, int without_zero)
{
    i64 back = c->found - (window + 2), first = back >= 0 && c->nonzero[back] > c->start ? c->nonzero[back] : c->start;
    i64 size = distinct(c, (int32_t)first, at), bits = index_bits(size - without_zero);
    if (!c->has_palette && size - without_zero > FULL) return 0;
    i64 gained = 15 * (c->has_palette ? index_bits(c->size - without_zero) - bits : 6 - bits);
    if (window * gained / 16 - size * 8 - 20 <= 0) return 0;
    c->size = size;
    c->has_palette = 1;
    c->start = first;
    if (c->starts->at[c->starts->length - 1] != first) growing_push(c->starts, first);
    c->zeros = 0;
    for (i64 i = first; i <= at; i++) c->zeros += !c->values[i];
    return 1;
}

int cut_sections(const int16_t *values, i64 count, Growing *starts)
{
    Cutter c = {.values = values, .starts = starts};
    /* Only the share of zeros may have changed behind the next zero: all else that was looked at behind this one stays. */
    int looked = -1;
    c.before = malloc(2 * sizeof(int32_t) * (size_t)count);
    if (!c.before) return -1;
    c.nonzero = c.before + count;
    for (int value = 0; value < VALUES; value++) c.last_seen[value] = -1;
    growing_push(starts, 0);
    for (i64 i = 0; i < count && !starts->failed; i++) {
        int slot = values[i] + ZERO, without_zero = c.zeros > (i - c.start) / 4;
        if (c.has_palette && c.last_seen[slot] < c.start) {
            i64 needed = ++c.size - without_zero;
            if (!((needed - 2) & (needed - 1)) && (i - c.start - c.zeros > LONG_LASTING || needed > FULL)) {
                growing_push(starts, i);
                c.start = i;
                c.has_palette = 0;
                c.zeros = 0;
                looked = -1;
            }
        }
        c.before[i] = c.last_seen[slot];
        c.last_seen[slot] = (int32_t)i;
        if (values[i]) {
            c.nonzero[c.found++] = (int32_t)i;
            looked = -1;
        } else {
            c.zeros++;
            if (looked == without_zero && !values[i - 1]) continue;
        }
        i64 passed = i - c.start - c.zeros;
        if (passed <= 0 || passed & (SHORTEST_WINDOW - 1)) continue;
        int changed = 0;
        for (int k = 0; k < WINDOWS; k++) {
            i64 window = (i64)SHORTEST_WINDOW << (k + c.has_palette);
            passed = i - c.start - c.zeros;
            if (passed > 0 && !(passed & (window - 1))) changed |= try_palette(&c, i, window, without_zero);
        }
        looked = changed || values[i] ? -1 : without_zero;
    }
    free(c.before);
    return starts->failed ? -1 : 0;
}
