/* Addresses for buffers whose used part moves: cascader.allocate.moving in C. */
#include "core.h"
#include <math.h>

#define NEVER (-((i64)1 << 40))
#define NO_LIMIT ((i64)1 << 60)

/* `below` and `above` are the gaps that the other one needs below and above this buffer. */
typedef struct {
    i64 other, below, above;
} Conflict;

/* Marks of a buffer after a move: up to turn `last` it meets the buffer that was moved, or at any turn it meets one with another address. */
enum { STAYS, MEETS_MOVED, MEETS_OTHER };

typedef struct {
    i64 count, alignment, last, *tops;
    i64 *conflicts_of;
    Conflict *conflicts;
    i64 (*forbidden)[2];
    unsigned char *stale;
} FirstFit;

/* The gaps that two buffers need: the second one above the first, and the first one above the second; NEVER if they are never live together. */
static void gaps(const Extents *e, i64 one, i64 other, i64 found[2])
{
    i64 start = most(e->starts[one], e->starts[other]), end = least(e->ends[one], e->ends[other]);
    const i64 *low = low_of(e, one) - e->starts[one], *high = high_of(e, one) - e->starts[one];
    const i64 *bottom = low_of(e, other) - e->starts[other], *top = high_of(e, other) - e->starts[other];
    found[0] = found[1] = NEVER;
    for (i64 step = start; step < end; step++) {
        if (high[step] <= low[step] || top[step] <= bottom[step]) continue;
        found[0] = most(found[0], high[step] - bottom[step]);
        found[1] = most(found[1], top[step] - low[step]);
    }
}

static i64 most_of(const i64 *values, i64 from, i64 until)
{
    i64 found = 0;
    for (i64 at = from; at < until; at++) found = most(found, values[at]);
    return found;
}

static void first_fit_free(FirstFit *fit)
{
    free(fit->tops);
    free(fit->conflicts);
    free(fit->forbidden);
    free(fit->stale);
}

static int first_fit_make(FirstFit *fit, const Extents *e, i64 alignment)
{
    i64 n = e->count;
    memset(fit, 0, sizeof *fit);
    fit->count = n;
    fit->alignment = alignment;
    fit->tops = malloc((size_t)(2 * n + 1) * sizeof(i64));
    fit->conflicts = malloc((size_t)(n * n + 1) * sizeof(Conflict));
    fit->forbidden = malloc((size_t)(n + 1) * sizeof *fit->forbidden);
    fit->stale = malloc((size_t)n + 1);
    i64 (*known)[2] = malloc((size_t)(n * n + 1) * sizeof *known);
    if (!fit->tops || !fit->conflicts || !fit->forbidden || !fit->stale || !known) {
        free(known);
        first_fit_free(fit);
        return -1;
    }
    fit->conflicts_of = fit->tops + n;
    i64 at = 0;
    for (i64 j = 0; j < n; j++) {
        fit->tops[j] = most_of(high_of(e, j), 0, e->ends[j] - e->starts[j]);
        fit->conflicts_of[j] = at;
        for (i64 i = 0; i < n; i++) {
            if (i > j) gaps(e, i, j, known[i * n + j]);
            if (i == j) continue;
            const i64 *found = i > j ? known[i * n + j] : known[j * n + i];
            i64 below = found[i < j], above = found[i > j];
            if (below == NEVER) continue;
            Conflict conflict = {i, div_up(below, alignment) * alignment, div_up(above, alignment) * alignment};
            fit->conflicts[at++] = conflict;
        }
    }
    fit->conflicts_of[n] = at;
    free(known);
    return 0;
}

static void mark_met(FirstFit *fit, i64 index, unsigned char mark)
{
    for (i64 c = fit->conflicts_of[index]; c < fit->conflicts_of[index + 1]; c++) fit->stale[fit->conflicts[c].other] = mark;
}

/* The lowest address that the buffers with addresses leave free; `limit` or more is given up. The forbidden spans are passed in any order:
   each one that begins below the address moves it to its end, until no span is left that does. */
static i64 first_free(FirstFit *fit, i64 index, i64 limit, const i64 *addresses)
{
    i64 spans = 0, found = 0, before = -1;
    for (i64 c = fit->conflicts_of[index]; c < fit->conflicts_of[index + 1]; c++) {
        const Conflict *conflict = &fit->conflicts[c];
        i64 address = addresses[conflict->other], start = address - conflict->above, end = address + conflict->below;
        if (address < 0 || end <= found) continue;
        if (start < found)
            found = end;
        else {
            fit->forbidden[spans][0] = start;
            fit->forbidden[spans++][1] = end;
        }
    }
    while (found > before && found < limit) {
        i64 left = 0;
        before = found;
        for (i64 span = 0; span < spans; span++) {
            i64 start = fit->forbidden[span][0], end = fit->forbidden[span][1];
            if (end <= found) continue;
            if (start < found)
                found = end;
            else {
                fit->forbidden[left][0] = start;
                fit->forbidden[left++][1] = end;
            }
        }
        spans = left;
    }
    return found;
}

/* First fit in an order, of which the first `kept` stay where `addresses` has them. Returns the peak; `limit` or more is given up.
   Without `before` all others are placed. Otherwise those without a mark stay where `before` has them: what they meet lies there, too. */
static i64 first_fit_place(FirstFit *fit, const i64 *order, i64 kept, i64 limit, i64 *addresses, const i64 *before)
{
    i64 peak = 0;
    for (i64 turn = 0; turn < kept; turn++) peak = most(peak, addresses[order[turn]] + fit->tops[order[turn]]);
    for (i64 turn = kept; turn < fit->count; turn++) addresses[order[turn]] = -1;
    for (i64 turn = kept; turn < fit->count; turn++) {
        i64 index = order[turn], stays = before && fit->stale[index] <= (turn > fit->last ? MEETS_MOVED : STAYS);
        addresses[index] = stays ? before[index] : first_free(fit, index, limit - fit->tops[index], addresses);
        if (before && addresses[index] != before[index]) mark_met(fit, index, MEETS_OTHER);
        if (addresses[index] + fit->tops[index] > peak) {
            peak = addresses[index] + fit->tops[index];
            if (peak >= limit) return peak;
        }
    }
    return peak;
}

#define ORDERS 8
#define KEYS 2

/* The greedy orders of cascader.allocate.moving: indices sorted by up to two keys and themselves. */
static int greedy_orders(const Extents *e, const FirstFit *fit, i64 *orders, i64 *least_bytes)
{
    i64 n = e->count, steps = most_of(e->ends, 0, n);
    i64 *live = calloc((size_t)(steps + 5 * n + 1), sizeof(i64));
    if (!live) return -1;
    i64 *widest = live + steps, *volume = widest + n, *crowd = volume + n, *keys = crowd + n;
    for (i64 i = 0; i < n; i++)
        for (i64 step = e->starts[i], k = 0; step < e->ends[i]; step++, k++) {
            i64 bytes = high_of(e, i)[k] - low_of(e, i)[k];
            live[step] += bytes;
            volume[i] += bytes;
            widest[i] = most(widest[i], bytes);
        }
    for (i64 i = 0; i < n; i++) crowd[i] = most_of(live, e->starts[i], e->ends[i]);
    *least_bytes = most_of(live, 0, steps);
    for (i64 which = 0; which < ORDERS; which++) {
        i64 *order = orders + which * n;
        for (i64 i = 0; i < n; i++) {
            const i64 all[ORDERS][KEYS] = {{-widest[i], 0},
                                           {-e->ends[i], -fit->tops[i]},
                                           {e->starts[i], -fit->tops[i]},
                                           {-volume[i], 0},
                                           {-fit->tops[i], -e->ends[i]},
                                           {-crowd[i], -widest[i]},
                                           {-crowd[i], e->starts[i]},
                                           {-crowd[i], -e->ends[i]}};
            i64 place = i;
            for (; place > 0 && (keys[2 * (place - 1)] > all[which][0] ||
                                 (keys[2 * (place - 1)] == all[which][0] && keys[2 * (place - 1) + 1] > all[which][1]));
                 place--) {
                order[place] = order[place - 1];
                keys[2 * place] = keys[2 * (place - 1)];
                keys[2 * place + 1] = keys[2 * (place - 1) + 1];
            }
            order[place] = i;
            keys[2 * place] = all[which][0];
            keys[2 * place + 1] = all[which][1];
        }
    }
    free(live);
    return 0;
}

/* SplitMix64, as cascader.allocate.moving.Draw. */
static uint64_t draw(uint64_t *state)
{
    uint64_t value = *state += 0x9E3779B97F4A7C15u;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
}

static i64 draw_below(uint64_t *state, i64 bound) { return (i64)(draw(state) % (uint64_t)bound); }
static double draw_unit(uint64_t *state) { return (double)(draw(state) >> 11) * 0x1p-53; }

/* Move a buffer to another turn, and mark what may get another address. Returns the first turn that changes. */
static i64 move(FirstFit *fit, i64 *order, i64 from, i64 to)
{
    i64 index = order[from];
    memset(fit->stale, 0, (size_t)fit->count);
    mark_met(fit, index, MEETS_MOVED);
    fit->stale[index] = MEETS_OTHER;
    fit->last = most(from, to);
    if (to <= from)
        memmove(order + to + 1, order + to, (size_t)(from - to) * sizeof(i64));
    else
        memmove(order + from, order + from + 1, (size_t)(to - from) * sizeof(i64));
    order[to] = index;
    return least(from, to);
}

/* More buffers than so many mostly never meet: what moves then is one that meets a buffer at the peak. */
#define MANY 32

static i64 turn_of(const i64 *order, i64 index)
{
    i64 turn = 0;
    while (order[turn] != index) turn++;
    return turn;
}

/* A buffer that is live together with another one; that itself if there is none. */
static i64 met(const FirstFit *fit, uint64_t *state, i64 index)
{
    i64 first = fit->conflicts_of[index], found = fit->conflicts_of[index + 1] - first;
    return found ? fit->conflicts[first + draw_below(state, found)].other : index;
}

/* One buffer moved: one at the peak to an earlier turn, or any one anywhere near. Returns the first turn that changes.
   Of many buffers one that meets a buffer at the peak takes the turn of one that it meets. */
static i64 neighbour(FirstFit *fit, uint64_t *state, const i64 *addresses, i64 peak, i64 *order, i64 *at_peak)
{
    i64 n = fit->count, earlier = draw_unit(state) < 0.5;
    if (earlier || n > MANY) {
        i64 found = 0;
        for (i64 i = 0; i < n; i++)
            if (addresses[i] + fit->tops[i] > peak - fit->alignment) at_peak[found++] = i;
        i64 index = at_peak[draw_below(state, found)];
        if (earlier) {
            i64 turn = turn_of(order, index);
            return move(fit, order, turn, draw_below(state, turn + 1));
        }
        index = met(fit, state, index);
        return move(fit, order, turn_of(order, index), turn_of(order, met(fit, state, index)));
    }
    i64 turn = draw_below(state, n), near = turn + draw_below(state, 17) - 8;
    i64 to = draw_unit(state) < 0.3 ? draw_below(state, n) : least(most(near, 0), n - 1);
    return move(fit, order, turn, to);
}

typedef struct {
    i64 peak, *order, *addresses;
} Packing;

static void packing_copy(Packing *to, const Packing *from, i64 n)
{
    to->peak = from->peak;
    memcpy(to->order, from->order, (size_t)n * sizeof(i64));
    memcpy(to->addresses, from->addresses, (size_t)n * sizeof(i64));
}

/* Annealing over orders from the best one, at one heat; `spare` holds two packings. */
static void anneal(FirstFit *fit, Packing *best, Packing *spare, i64 *at_peak, uint64_t *state, i64 moves, i64 bound, double heat)
{
    Packing *current = &spare[0], *tried = &spare[1];
    packing_copy(current, best, fit->count);
    for (i64 turn = 0; turn < moves && best->peak > bound; turn++) {
        double allowance = (double)current->peak * heat * (1 - (double)turn / (double)moves);
        i64 limit = current->peak + (i64)(-allowance * log(1 - draw_unit(state))) + 1;
        packing_copy(tried, current, fit->count);
        i64 kept = neighbour(fit, state, current->addresses, current->peak, tried->order, at_peak);
        tried->peak = first_fit_place(fit, tried->order, kept, limit, tried->addresses, current->addresses);
        if (tried->peak >= limit) continue;
        Packing *last = current;
        current = tried;
        tried = last;
        if (current->peak < best->peak) packing_copy(best, current, fit->count);
    }
}

static i64 search(FirstFit *fit, const Extents *e, i64 *orders, i64 alignment, i64 moves, uint64_t seed, i64 *addresses)
{
    i64 n = e->count, least_bytes, *room = malloc((size_t)(7 * n) * sizeof(i64));
    if (!room || greedy_orders(e, fit, orders, &least_bytes) < 0) {
        free(room);
        return -1;
    }
    Packing best = {0, room, room + n}, spare[2] = {{0, room + 2 * n, room + 3 * n}, {0, room + 4 * n, room + 5 * n}};
    memcpy(best.order, orders, (size_t)n * sizeof(i64));
    best.peak = first_fit_place(fit, best.order, 0, NO_LIMIT, best.addresses, NULL);
    for (i64 which = 1; which < ORDERS && best.peak > least_bytes; which++) {
        i64 peak = first_fit_place(fit, orders + which * n, 0, best.peak, spare[0].addresses, NULL);
        if (peak >= best.peak) continue;
        Packing found = {peak, orders + which * n, spare[0].addresses};
        packing_copy(&best, &found, n);
    }
    i64 bound = div_up(least_bytes, alignment) * alignment;
    const double few[] = {0.03, 0.01}, many[] = {0.20, 0.05}, *heats = n > MANY ? many : few;
    for (int heat = 0; heat < 2; heat++) anneal(fit, &best, spare, room + 6 * n, &seed, moves, bound, heats[heat]);
    memcpy(addresses, best.addresses, (size_t)n * sizeof(i64));
    free(room);
    return div_up(best.peak, alignment) * alignment;
}

i64 find_addresses(const Extents *extents, i64 alignment, i64 moves, uint64_t seed, i64 *addresses)
{
    FirstFit fit = {0};
    i64 peak = -1, *orders = malloc((size_t)(ORDERS * extents->count + 1) * sizeof(i64));
    if (orders && first_fit_make(&fit, extents, alignment) == 0) {
        peak = search(&fit, extents, orders, alignment, moves, seed, addresses);
        first_fit_free(&fit);
    }
    free(orders);
    return peak;
}

/* Whether addresses can be multiples of a number; else an exception is set. */
static int aligned(i64 alignment)
{
    if (0 < alignment && alignment < FAR) return 1;
    PyErr_SetString(PyExc_ValueError, "an alignment is a positive number of bytes");
    return 0;
}

/* allocate(starts, ends, offsets, data, [alignment, moves, seed], addresses) -> peak */
PyObject *native_allocate(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    Flat flats[6];
    Extents e;
    i64 peak = -1;
    if (count != 6) return PyErr_Format(PyExc_TypeError, "allocate takes 6 arrays");
    if (flat_all(arguments, flats, 6, 5) < 0) return NULL;
    if (extents_get(flats, &e) == 0 && flat_has(&flats[4], 3) && flat_has(&flats[5], (Py_ssize_t)e.count) && aligned(flats[4].at[0])) {
        const i64 *how = flats[4].at;
        peak = find_addresses(&e, how[0], how[1], (uint64_t)how[2], flats[5].at);
        if (peak < 0) PyErr_NoMemory();
    }
    flat_release(flats, 6);
    return peak < 0 ? NULL : PyLong_FromLongLong(peak);
}

static void swap(i64 *a, i64 *b)
{
    i64 kept = *a;
    *a = *b;
    *b = kept;
}

/* The next order in lexicographic order; 0 behind the last one. */
static int next_permutation(i64 *order, i64 n)
{
    i64 at = n - 2, other = n - 1;
    while (at >= 0 && order[at] >= order[at + 1]) at--;
    if (at < 0) return 0;
    while (order[other] <= order[at]) other--;
    swap(&order[at], &order[other]);
    for (i64 low = at + 1, high = n - 1; low < high; low++, high--) swap(&order[low], &order[high]);
    return 1;
}

/* placements(starts, ends, offsets, data, [alignment, limit, most]) -> [peak, addresses...] one behind the other, with repeats */
PyObject *native_placements(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    Flat flats[5];
    Extents e;
    FirstFit fit = {0};
    Growing out = {0};
    if (count != 5) return PyErr_Format(PyExc_TypeError, "placements takes 5 arrays");
    if (flat_all(arguments, flats, 5, 5) < 0) return NULL;
    if (extents_get(flats, &e) < 0 || !flat_has(&flats[4], 3) || !aligned(flats[4].at[0])) {
        flat_release(flats, 5);
        return NULL;
    }
    const i64 *how = flats[4].at;
    i64 n = e.count, *order = malloc((size_t)(2 * n + 1) * sizeof(i64));
    if (order && first_fit_make(&fit, &e, how[0]) == 0) {
        for (i64 i = 0; i < n; i++) order[i] = i;
        for (i64 turn = 0; turn < how[2]; turn++) {
            i64 peak = first_fit_place(&fit, order, 0, how[1] + 1, order + n, NULL);
            peak = div_up(peak, how[0]) * how[0];
            if (peak <= how[1]) {
                growing_push(&out, peak);
                for (i64 i = 0; i < n; i++) growing_push(&out, order[n + i]);
            }
            if (!next_permutation(order, n)) break;
        }
        first_fit_free(&fit);
    } else
        out.failed = 1;
    free(order);
    flat_release(flats, 5);
    return growing_bytes(&out);
}
