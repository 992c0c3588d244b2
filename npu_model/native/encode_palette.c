/* The palette of a section: its most frequent weights, if more than half of all are among them. */

#include "encode.h"

enum { NOT_RAW = 100, DENSE_ZEROS = 4 };

static int16_t weight_of(i64 coded) { return (int16_t)(coded & 1 ? -(coded >> 1) : coded >> 1); }

static int more_often(const void *a, const void *b)
{
    i64 first = *(const i64 *)a, second = *(const i64 *)b;
    return (first < second) - (first > second);
}

/* Zero runs pay where zeros are several times as many as any other weight. */
static int are_zeros_many(const i64 *often)
{
    i64 others = 0;
    for (int value = 0; value < VALUES; value++) if (value != ZERO) others = most(others, often[value]);
    return often[ZERO] > DENSE_ZEROS * others;
}

Palette make_palette(const int16_t *values, i64 count)
{
    i64 often[VALUES] = {0}, ranked[VALUES], largest = 0, found = 0, chosen = 0, covered = 0, all = 0, widest = 0;
    Palette p = {0};
    for (i64 i = 0; i < count; i++) often[values[i] + ZERO]++;
    p.has_runs = are_zeros_many(often);
    int counted = 0, closed = 0;
    for (i64 coded = 0; coded < VALUES; coded++) {
        i64 times = coded == 1 || (p.has_runs && !coded) ? 0 : often[weight_of(coded) + ZERO];
        if (times) ranked[found++] = times << 16 | coded;
        if (times) largest = coded;
        all += times;
        closed |= times != 0;
        counted += !closed && coded < 31;
    }
    p.only_zeros = !found;
    p.offset = found ? counted : 0;
    qsort(ranked, (size_t)found, sizeof(i64), more_often);
    int only_palette = found > 0 && found <= FULL;
    i64 room = only_palette ? FULL : least(FULL, VALUES - 1 - largest);
    if (!only_palette && room == 1) room = 0;
    for (; chosen < room && chosen < found; chosen++) {
        p.entries[chosen] = ranked[chosen] & 0xffff;
        widest = most(widest, p.entries[chosen]);
        covered += ranked[chosen] >> 16;
    }
    /* No palette has one entry. */
    if (chosen == 1) p.entries[chosen++] = 0;
    p.size = covered > all / 2 ? chosen : 0;
    if (!p.size) widest = largest;
    for (p.bits = 2; (i64)1 << p.bits <= widest; p.bits++) {}
    p.raw_bits = only_palette ? 0 : p.size ? NOT_RAW : (int)p.bits;
    if (only_palette) while ((i64)1 << p.raw_bits < p.size) p.raw_bits++;
    for (i64 coded = 0; coded < VALUES; coded++) p.index[weight_of(coded) + ZERO] = (int16_t)(coded + p.size - p.offset);
    for (i64 i = 0; i < p.size; i++) p.index[weight_of(p.entries[i]) + ZERO] = (int16_t)i;
    return p;
}

/* Codes of weights: divisions 0 to 5, the same with truncated quotients, and the plain index; lanes beyond them are never best. */
