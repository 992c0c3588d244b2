/* Copies of constants beside the jobs: cascader.prefetch.timeline and cascader.prefetch.free_space in C. */
#include "core.h"

#define NOT_READY INT64_MIN

enum { COPY_PART, COPY_SIZE, COPY_TRANSFER, COPY_FIRST, COPY_LAST, COPY_EARLIEST, COPY_FIELDS };

typedef struct {
    i64 copy, step, start, address;
} Issue;

/* Numbers from `start` on, to the start of the next one. */
typedef struct {
    i64 start, value;
} Piece;

/* A number for every unit of an arena, or for every place in it, in pieces in which it is the same; they begin with unit 0. */
typedef struct {
    Piece *at;
    size_t length, room;
} Pieces;

/* The moment of a run, as _Moment in Python. Its copies are the first `issued` of the run; only the last one may still be on its way, and is
   `ready` then. */
typedef struct {
    i64 step, copy, arrival, copier, finish, port, issued, ready, is_copy, fetched, handed, tabled, has_registers, begun, busy, idle;
} Moment;

typedef struct {
    /* The jobs: part, times and what each shares with the one before. */
    i64 steps, *pair_costs;
    const i64 *job_parts, *job_kinds, *kinds, *pairs;
    PyObject *shared;
    /* The copies, in the order of their first use, and what each gains at most. */
    i64 count, *gains;
    const i64 *copies;
    /* The arena in units. For each copy and place the job behind the last one up to its last use at which a tensor holds a unit of it; for
       each unit the job behind the last one at which a copy holds it. */
    i64 unit, units;
    Pieces *windows, taken;
    /* The run: moments[i] is when copy i of `wanted` came to the head of the line; `ready` has a cycle for every part. */
    i64 *wanted, wanted_count, *before, before_count, *ready;
    Moment *moments, now;
    Issue *issues;
    /* The places for the copy at the head of the line: from when on each is free. */
    Pieces gaps;
    i64 *deque;
    int gaps_known, ends, failed;
    i64 places, first_start;
} Run;

static int has_room(Run *run, Pieces *pieces, size_t length)
{
    if (length <= pieces->room) return 1;
    size_t room = most(64, 2 * (i64)length);
    Piece *moved = realloc(pieces->at, room * sizeof(Piece));
    if (!moved) {
        run->failed = 1;
        return 0;
    }
    pieces->at = moved;
    pieces->room = room;
    return 1;
}

/* Add a piece behind all others, with which it is one if their numbers are the same. */
static void add_piece(Run *run, Pieces *pieces, i64 start, i64 value)
{
    if (pieces->length && pieces->at[pieces->length - 1].value == value) return;
    if (!has_room(run, pieces, pieces->length + 1)) return;
    pieces->at[pieces->length++] = (Piece){start, value};
}

static void begin_pieces(Run *run, Pieces *pieces)
{
    pieces->length = 0;
    add_piece(run, pieces, 0, 0);
}

/* The piece that a unit lies in. */
static size_t piece_of(const Pieces *pieces, i64 unit)
{
    size_t low = 0, high = pieces->length;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (pieces->at[middle].start <= unit)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Give the units from `low` to `high` (exclusive) a number: what is noted later is never less. */
static void note(Run *run, Pieces *pieces, i64 low, i64 high, i64 value)
{
    if (high <= low || !has_room(run, pieces, pieces->length + 2)) return;
    size_t first = piece_of(pieces, low), last = first;
    while (last + 1 < pieces->length && pieces->at[last + 1].start < high) last++;
    i64 behind = pieces->at[last].value;
    size_t keeps = pieces->at[first].start < low, from = first + keeps;
    size_t adds = 1 + (last + 1 < pieces->length ? pieces->at[last + 1].start > high : high < run->units);
    memmove(pieces->at + from + adds, pieces->at + last + 1, (pieces->length - last - 1) * sizeof(Piece));
    pieces->length = pieces->length - (last + 1) + from + adds;
    pieces->at[from] = (Piece){low, value};
    if (adds == 2) pieces->at[from + 1] = (Piece){high, behind};
}

/* A walk over the places of `width` units with the highest number in each: a deque of the pieces that may be the highest further on. */
typedef struct {
    const Pieces *pieces;
    i64 width, *deque;
    size_t left, right, head, tail;
} Walk;

static void walk_reach(Walk *walk, i64 place)
{
    const Piece *at = walk->pieces->at;
    while (walk->right < walk->pieces->length && at[walk->right].start < place + walk->width) {
        while (walk->tail > walk->head && at[walk->deque[walk->tail - 1]].value <= at[walk->right].value) walk->tail--;
        walk->deque[walk->tail++] = (i64)walk->right++;
    }
    while (walk->left + 1 < walk->pieces->length && at[walk->left + 1].start <= place) walk->left++;
    while (walk->deque[walk->head] < (i64)walk->left) walk->head++;
}

static Walk walk_begin(const Pieces *pieces, i64 width, i64 *deque)
{
    Walk walk = {pieces, width, deque, 0, 0, 0, 0};
    walk_reach(&walk, 0);
    return walk;
}

static i64 walk_highest(const Walk *walk) { return walk->pieces->at[walk->deque[walk->head]].value; }

/* The next place at which other pieces are looked at. */
static i64 walk_next(const Walk *walk)
{
    const Pieces *pieces = walk->pieces;
    i64 next = walk->left + 1 < pieces->length ? pieces->at[walk->left + 1].start : INT64_MAX;
    return walk->right < pieces->length ? least(next, pieces->at[walk->right].start - walk->width + 1) : next;
}

/* For every place of `width` units the highest number in it. */
static void highest_in_windows(Run *run, const Pieces *pieces, i64 width, Pieces *out)
{
    Walk walk = walk_begin(pieces, width, run->deque);
    out->length = 0;
    for (i64 place = 0; place <= run->units - width; place = walk_next(&walk)) {
        walk_reach(&walk, place);
        add_piece(run, out, place, walk_highest(&walk));
    }
}

static void drop(Run *run)
{
    run->now.copy++;
    run->gaps_known = 0;
    if (run->now.issued) run->now.ready = run->ready[run->copies[run->issues[run->now.issued - 1].copy * COPY_FIELDS + COPY_PART]];
    run->moments[run->now.copy] = run->now;
}

/* The places for a copy in run->gaps, their number in run->places: 0 if there is none. A copy that was issued holds every place that
   reaches into its own. */
static void find_gaps(Run *run, i64 copy)
{
    const i64 *facts = run->copies + copy * COPY_FIELDS;
    i64 width = div_up(facts[COPY_SIZE], run->unit), places = run->units - width + 1;
    run->gaps_known = 1;
    run->places = 0;
    if (width > run->units) return;
    const Pieces *window = &run->windows[copy];
    Walk walk = walk_begin(&run->taken, width, run->deque);
    size_t piece = 0;
    run->gaps.length = 0;
    run->first_start = INT64_MAX;
    for (i64 place = 0; place < places && !run->failed;) {
        walk_reach(&walk, place);
        while (piece + 1 < window->length && window->at[piece + 1].start <= place) piece++;
        i64 value = most(window->at[piece].value, walk_highest(&walk));
        add_piece(run, &run->gaps, place, value);
        run->first_start = least(run->first_start, value);
        place = least(walk_next(&walk), piece + 1 < window->length ? window->at[piece + 1].start : INT64_MAX);
    }
    if (!run->failed && run->first_start <= facts[COPY_FIRST]) run->places = places;
}

/* The piece of places for a copy that are free from `wish` on, or as soon after as there is one: of several those that were taken last, and
   of these the lowest, or the highest. */
static size_t best_piece(const Run *run, i64 wish, int highest)
{
    i64 limit = most(wish, run->first_start), taken = -1;
    size_t best = 0;
    if (run->first_start > wish) highest = 0;
    for (size_t at = 0; at < run->gaps.length; at++) {
        i64 value = run->gaps.at[at].value;
        if (value > limit || value < taken || (value == taken && !highest)) continue;
        taken = value;
        best = at;
    }
    return best;
}

/* The last place of a piece. */
static i64 last_place(const Run *run, size_t piece)
{
    return (piece + 1 < run->gaps.length ? run->gaps.at[piece + 1].start : run->places) - 1;
}

static const i64 *times(const Run *run, i64 step) { return run->kinds + run->job_kinds[step] * TIME_FIELDS; }

/* Job `step` and a copy share the constants' memory from `start` on until one of them ends. */
static void delay(Run *run, i64 step, i64 start)
{
    Moment *now = &run->now;
    const i64 *job = times(run, step);
    int staged = run->ready[run->job_parts[step]] != NOT_READY;
    i64 alone = job[staged ? TIME_STAGED : TIME_DIRECT], contended = job[staged ? TIME_STAGED_CONTENDED : TIME_CONTENDED];
    i64 home = job[staged ? TIME_STAGED_HOME : TIME_HOME], shares_all = staged || job[TIME_STAGED_HOME] || !job[TIME_READING];
    /* Beside a copy a job takes longer up to its last constants, if these are all that it shares with the copy. */
    i64 tail = shares_all ? 0 : most(0, least(least(job[TIME_TAIL], alone - 1), contended - home - 1)), own = contended - tail - home;
    alone -= tail;
    contended -= tail;
    /* A copy leaves the memory free until its first words come. */
    i64 copying = now->copier - start - most(0, least(now->idle, now->busy - start)), left = now->finish - tail - start;
    if (copying <= 0 || left <= 0 || (!home && contended <= alone)) return;
    if (left * own <= copying * alone) {
        now->finish += left * (contended - alone) / alone;
        now->copier += left * home / alone;
    } else {
        i64 together = copying * contended / own;
        now->copier += together - copying;
        now->finish += together * (contended - alone) / contended;
    }
    if (now->is_copy) run->ready[run->copies[run->issues[now->issued - 1].copy * COPY_FIELDS + COPY_PART]] = now->copier;
}

static int is_worth(const Run *run, i64 copy, i64 ready) { return ready - most(run->now.finish, run->now.arrival) <= run->gains[copy]; }

/* Whether only transfers come before the first job that uses a copy. */
static int is_due(const Run *run, const i64 *facts)
{
    i64 step = facts[COPY_FIRST];
    while (step > run->now.step && times(run, step - 1)[TIME_COPIER]) step--;
    return step <= run->now.step;
}

/* Cycles to load the tables of the jobs before `first`, which come before a copy that is used from then on, and of the last one. */
static i64 tables_before(const Run *run, i64 first, i64 *last)
{
    i64 cycles = 0;
    *last = 0;
    if (!times(run, run->now.step)[TIME_AHEAD]) return 0;
    for (i64 step = most(run->now.step, run->now.tabled); step < first; step++) {
        i64 table = times(run, step)[TIME_TABLE];
        cycles += table;
        if (table) *last = table;
    }
    return cycles;
}

/* Issue the next copy before the next job if it holds nobody up, or must be; whether it is done with. */
static int issue(Run *run)
{
    Moment *now = &run->now;
    i64 copy = run->wanted[now->copy], first_free = most(now->arrival, now->copier);
    const i64 *facts = run->copies + copy * COPY_FIELDS;
    int must = is_due(run, facts);
    if (now->step < facts[COPY_EARLIEST] || (!must && first_free >= now->finish)) return 0;
    if (!run->gaps_known) find_gaps(run, copy);
    if (!run->places) {
        drop(run);
        return 1;
    }
    if (run->first_start > (must ? now->step : now->step - 1)) return 0;
    int highest = run->ends && (now->copy + run->ends) % 2 == 0;
    size_t piece = best_piece(run, now->step - 1, highest);
    i64 free_from = run->gaps.at[piece].value;
    i64 place = highest && run->first_start <= now->step - 1 ? last_place(run, piece) : run->gaps.at[piece].start;
    const i64 *user = times(run, facts[COPY_FIRST]);
    i64 fetched = most(now->fetched, now->handed - user[TIME_AHEAD]) + user[TIME_COPY_COMMANDS];
    i64 table, reached = most(most(now->arrival, fetched), free_from == now->step ? now->finish : 0);
    i64 start = most(reached, now->copier) + tables_before(run, facts[COPY_FIRST], &table);
    if (must && !is_worth(run, copy, start + facts[COPY_TRANSFER])) {
        drop(run);
        return 1;
    }
    now->fetched = fetched;
    Issue issued = {copy, now->step, free_from, place * run->unit};
    run->issues[now->issued++] = issued;
    note(run, &run->taken, place, place + div_up(facts[COPY_SIZE], run->unit), facts[COPY_LAST] + 1);
    now->tabled = most(now->tabled, facts[COPY_FIRST]);
    /* The last transfer waits in the queue, and the command processor goes on, if the device has room for it behind the one before. */
    now->arrival = table || user[TIME_LAST_TRANSFER] != facts[COPY_TRANSFER] ? start - table : most(reached, now->begun);
    now->begun = start + facts[COPY_TRANSFER] - user[TIME_LAST_TRANSFER];
    now->copier = start + facts[COPY_TRANSFER];
    now->is_copy = 1;
    now->idle = user[TIME_COPY_WAIT];
    now->busy = start + now->idle;
    run->ready[facts[COPY_PART]] = now->copier;
    if (now->step) delay(run, now->step - 1, start);
    drop(run);
    return 1;
}

/* The cycles that a job shares with the one before it, asked of the caller once for each kind of pair. */
static i64 shared(Run *run, i64 step, int before, int now)
{
    if (run->shared == Py_None) return 0;
    i64 *cost = &run->pair_costs[run->pairs[step] * 4 + 2 * before + now];
    if (*cost < 0) {
        PyObject *answer = PyObject_CallFunction(run->shared, "Lii", (long long)run->pairs[step], before, now);
        *cost = answer ? PyLong_AsLongLong(answer) : 0;
        Py_XDECREF(answer);
        if (PyErr_Occurred()) run->failed = 1;
    }
    return *cost;
}

/* Fetch the next job's commands, no further ahead than the device's buffer allows, and more slowly during a copy. */
static void fetch(Moment *now, const i64 *job)
{
    i64 begin = most(now->fetched, now->handed - job[TIME_AHEAD]), slowest = job[TIME_COMMANDS_CONTENDED];
    i64 copying = least(slowest, most(0, now->copier - begin));
    i64 more = slowest ? (slowest - job[TIME_COMMANDS]) * copying / slowest : 0;
    int is_first = !now->has_registers && !job[TIME_COPIER];
    now->fetched = begin + (is_first ? job[TIME_FIRST_COMMANDS] : job[TIME_COMMANDS] + more);
    now->has_registers |= is_first;
}

static void execute(Run *run)
{
    static const i64 no_job[TIME_FIELDS] = {0};
    Moment *now = &run->now;
    i64 step = now->step, ready = run->ready[run->job_parts[step]];
    const i64 *job = times(run, step), *last = step ? times(run, step - 1) : no_job;
    int before = step && run->ready[run->job_parts[step - 1]] != NOT_READY, staged = ready != NOT_READY;
    i64 tail = last[before ? TIME_STAGED_TAIL : TIME_TAIL], overlap = step ? shared(run, step, before, staged) : 0;
    fetch(now, job);
    i64 known = most(most(most(now->arrival, now->fetched), staged ? ready : 0), job[TIME_COPIER] ? now->copier : 0);
    i64 table = job[TIME_LATE_TABLE] + (step >= now->tabled ? job[TIME_TABLE] : 0);
    if (table) {
        now->copier = most(now->copier, now->handed) + table;
        known = most(known, now->copier);
    }
    i64 begin = most(now->finish - overlap, known);
    i64 ahead = least(least(job[staged ? TIME_STAGED_LEAD : TIME_LEAD], tail), begin - known);
    i64 done = begin - ahead + job[staged ? TIME_STAGED : TIME_DIRECT];
    now->finish = job[TIME_COPIER] ? most(now->finish, done) : done;
    if (job[TIME_COPIER]) {
        now->begun = begin;
        now->copier = begin + job[TIME_COPIER];
        now->is_copy = 0;
        now->idle = 0;
    }
    if (!staged && job[TIME_HOME]) {
        now->port = most(now->port, begin - tail) + most(job[TIME_HOME], job[TIME_READING]);
        now->finish = most(now->finish, now->port);
    }
    delay(run, step, begin - ahead);
    now->step = step + 1;
    now->arrival = begin;
    now->handed = known;
}

/* Go back to a moment. */
static void restore(Run *run, const Moment *moment)
{
    for (i64 i = moment->issued; i < run->now.issued; i++) run->ready[run->copies[run->issues[i].copy * COPY_FIELDS + COPY_PART]] = NOT_READY;
    run->now = *moment;
    run->gaps_known = 0;
    begin_pieces(run, &run->taken);
    for (i64 i = 0; i < moment->issued; i++) {
        const i64 *facts = run->copies + run->issues[i].copy * COPY_FIELDS;
        i64 place = run->issues[i].address / run->unit;
        note(run, &run->taken, place, place + div_up(facts[COPY_SIZE], run->unit), facts[COPY_LAST] + 1);
        if (i == moment->issued - 1) run->ready[facts[COPY_PART]] = moment->ready;
    }
}

/* The cycles of all jobs with the copies in run->wanted; it goes on from where these part from the ones before. */
static i64 timeline(Run *run)
{
    i64 same = 0;
    while (same < run->wanted_count && same < run->before_count && run->wanted[same] == run->before[same]) same++;
    memcpy(run->before, run->wanted, (size_t)run->wanted_count * sizeof(i64));
    run->before_count = run->wanted_count;
    restore(run, &run->moments[same]);
    while (run->now.step < run->steps && !run->failed) {
        while (run->now.copy < run->wanted_count && issue(run) && !run->failed) {}
        execute(run);
    }
    return run->now.finish;
}

/* Bytes that a tensor holds from some step on, not noted yet; none if `top` is not above `bottom`. */
typedef struct {
    i64 bottom, top;
} Holding;

/* The tensors' holds while steps go by: those that live, and for each unit the job behind the last one at which one held it. The tensors
   that begin at a step, and the copies that are used last there, are linked, from the first of each step to the next one; -1 is behind the
   last. */
typedef struct {
    const Extents *extents;
    const i64 *addresses;
    i64 *alive, living, *first_of, *next_of, *first_copy, *next_copy;
    Holding *holdings;
    Pieces held;
} Holdings;

static void note_held(Run *run, Holdings *all, i64 extent, i64 step)
{
    Holding holding = all->holdings[extent];
    if (holding.top <= holding.bottom) return;
    i64 address = all->addresses[extent];
    note(run, &all->held, (address + holding.bottom) / run->unit, least(run->units, div_up(address + holding.top, run->unit)), step);
}

/* Note what tensors held until `step` and hold no longer; then they hold what they do at that step. */
static void hold(Run *run, Holdings *all, i64 step)
{
    const Extents *extents = all->extents;
    for (i64 e = all->first_of[step]; e >= 0; e = all->next_of[e]) all->alive[all->living++] = e;
    for (i64 i = 0; i < all->living; i++) {
        i64 e = all->alive[i], at = step - extents->starts[e];
        Holding now = {0, 0};
        if (step < extents->ends[e]) now = (Holding){low_of(extents, e)[at], high_of(extents, e)[at]};
        if (now.bottom != all->holdings[e].bottom || now.top != all->holdings[e].top) note_held(run, all, e, step);
        all->holdings[e] = now;
        if (step >= extents->ends[e]) all->alive[i--] = all->alive[--all->living];
    }
}

/* For every copy and place the job behind the last one up to its last use at which a tensor holds a byte of it. What a tensor holds for
   many steps is noted when it changes, or where a copy is used last. */
static void find_windows(Run *run, Holdings *all)
{
    begin_pieces(run, &all->held);
    for (i64 step = 0; step < run->steps && !run->failed; step++) {
        hold(run, all, step);
        if (all->first_copy[step] < 0) continue;
        for (i64 i = 0; i < all->living; i++) note_held(run, all, all->alive[i], step + 1);
        i64 *deque = realloc(run->deque, (all->held.length + (size_t)(2 * run->count) + 2) * sizeof(i64));
        if (!deque) {
            run->failed = 1;
            return;
        }
        run->deque = deque;
        for (i64 copy = all->first_copy[step]; copy >= 0 && !run->failed; copy = all->next_copy[copy]) {
            i64 width = div_up(run->copies[copy * COPY_FIELDS + COPY_SIZE], run->unit);
            if (width <= run->units) highest_in_windows(run, &all->held, width, &run->windows[copy]);
        }
    }
}

/* Link numbers by the steps that they belong to. */
static void link_steps(i64 count, const i64 *step_of, i64 stride, i64 steps, i64 *first, i64 *next)
{
    for (i64 step = 0; step < steps; step++) first[step] = -1;
    for (i64 number = count - 1; number >= 0; number--) {
        i64 step = step_of[number * stride];
        if (step >= steps) continue;
        next[number] = first[step];
        first[step] = number;
    }
}

static int take_snapshots(Run *run, const Extents *extents, const i64 *addresses)
{
    Holdings all = {extents, addresses, NULL, 0, NULL, NULL, NULL, NULL, NULL, {NULL, 0, 0}};
    all.holdings = calloc((size_t)extents->count + 1, sizeof(Holding));
    all.alive = malloc((size_t)(2 * extents->count + 2 * run->steps + run->count + 1) * sizeof(i64));
    if (all.holdings && all.alive) {
        all.next_of = all.alive + extents->count;
        all.first_of = all.next_of + extents->count;
        all.first_copy = all.first_of + run->steps;
        all.next_copy = all.first_copy + run->steps;
        link_steps(extents->count, extents->starts, 1, run->steps, all.first_of, all.next_of);
        link_steps(run->count, run->copies + COPY_LAST, COPY_FIELDS, run->steps, all.first_copy, all.next_copy);
        find_windows(run, &all);
    } else
        run->failed = 1;
    free(all.holdings);
    free(all.alive);
    free(all.held.at);
    return run->failed ? -1 : 0;
}

static void find_gains(Run *run)
{
    for (i64 copy = 0; copy < run->count; copy++) {
        const i64 *facts = run->copies + copy * COPY_FIELDS;
        for (i64 step = facts[COPY_FIRST]; step <= facts[COPY_LAST]; step++)
            if (run->job_parts[step] == facts[COPY_PART]) run->gains[copy] += times(run, step)[TIME_CONTENDED] - times(run, step)[TIME_STAGED];
    }
}

/* A run of what is to be copied where, without copies yet. Returns 0, or -1 without memory; run_free it in either case. */
static int run_make(Run *run, const Copying *asked)
{
    memset(run, 0, sizeof *run);
    run->steps = asked->steps;
    run->job_parts = asked->job_parts;
    run->job_kinds = asked->job_kinds;
    run->kinds = asked->kinds;
    run->pairs = asked->pairs;
    run->pair_costs = asked->pair_costs;
    run->copies = asked->copies;
    run->count = asked->count;
    run->shared = asked->shared;
    run->unit = most(1, div_up(div_up(asked->budget, asked->most_units), asked->alignment)) * asked->alignment;
    run->units = asked->budget / run->unit;
    size_t count = (size_t)run->count + 1;
    run->windows = calloc(count, sizeof(Pieces));
    run->gains = calloc(count, sizeof(i64));
    run->wanted = calloc(2 * count, sizeof(i64));
    run->before = run->wanted + count;
    run->moments = calloc(count + 1, sizeof(Moment));
    run->ready = malloc((size_t)asked->parts * sizeof(i64) + 8);
    run->issues = malloc(count * sizeof(Issue));
    run->deque = malloc((2 * count + 2) * sizeof(i64));
    if (!run->windows || !run->gains || !run->wanted || !run->moments || !run->ready || !run->issues || !run->deque) return -1;
    for (i64 part = 0; part < asked->parts; part++) run->ready[part] = NOT_READY;
    /* Nothing begins before the first fetch, which is half used on average. */
    if (run->steps) run->moments[0].arrival = times(run, 0)[TIME_AHEAD];
    run->moments[0].fetched = run->moments[0].arrival / 2;
    return 0;
}

static void run_free(Run *run)
{
    for (i64 copy = 0; run->windows && copy < run->count; copy++) free(run->windows[copy].at);
    free(run->windows);
    free(run->taken.at);
    free(run->gaps.at);
    free(run->gains);
    free(run->wanted);
    free(run->moments);
    free(run->ready);
    free(run->issues);
    free(run->deque);
}

static void reset(Run *run, int ends)
{
    run->ends = ends;
    run->before_count = 0;
}

/* The best timeline so far: its copies as a mark for each, its issues and cycles. */
typedef struct {
    i64 cycles, issued, *marks;
    Issue *issues;
} Best;

static void keep(const Run *run, Best *best, i64 cycles)
{
    best->cycles = cycles;
    best->issued = run->now.issued;
    memcpy(best->issues, run->issues, (size_t)best->issued * sizeof(Issue));
    memset(best->marks, 0, (size_t)run->count * sizeof(i64));
    for (i64 i = 0; i < best->issued; i++) best->marks[best->issues[i].copy] = 1;
}

/* The timeline with the marked copies, and one of them changed unless `flipped` is -1; whether it is better than the best. */
static int try_copies(Run *run, const i64 *marks, i64 flipped, Best *best)
{
    run->wanted_count = 0;
    for (i64 copy = 0; copy < run->count; copy++)
        if ((marks[copy] != 0) != (copy == flipped)) run->wanted[run->wanted_count++] = copy;
    i64 cycles = timeline(run);
    if (cycles >= best->cycles) return 0;
    keep(run, best, cycles);
    return 1;
}

/* Try some sets of copies, each a mark for every copy; at least one, though there is nothing to copy. */
static void try_sets(Run *run, const i64 *sets, i64 count, Best *best)
{
    for (i64 set = 0; set < (run->count ? count : 1) && !run->failed; set++) try_copies(run, sets + set * run->count, -1, best);
}

/* cascader.prefetch.timeline.choose_copies from the best so far. */
static void improve(Run *run, Best *best)
{
    for (int improved = 1; improved && !run->failed;) {
        improved = 0;
        for (i64 copy = 0; copy < run->count && !run->failed; copy++) improved |= try_copies(run, best->marks, copy, best);
    }
}

/* Improve, then begin anew at both ends of what is free: if that is better to begin with, or (`ends` is 2) both ways from the start. */
static void finish(Run *run, Best *best, i64 ends, Best *other, i64 *begun)
{
    memcpy(begun, best->marks, (size_t)run->count * sizeof(i64));
    improve(run, best);
    if (ends == 1 && !run->failed) {
        memcpy(begun, best->marks, (size_t)run->count * sizeof(i64));
        reset(run, 1);
        if (try_copies(run, begun, -1, best)) improve(run, best);
    }
    for (int way = 1; ends == 2 && way <= 2 && !run->failed; way++) {
        reset(run, way);
        other->cycles = INT64_MAX;
        try_copies(run, begun, -1, other);
        improve(run, other);
        if (other->cycles < best->cycles) {
            Best found = *other;
            *other = *best;
            *best = found;
        }
    }
}

i64 fewest_cycles(const Copying *copying, const Extents *extents, const i64 *addresses, const i64 *sets, i64 count)
{
    Run run;
    size_t room = (size_t)(copying->count + 1);
    Best best = {INT64_MAX, 0, calloc(room, sizeof(i64)), malloc(room * sizeof(Issue))};
    run.failed = run_make(&run, copying) < 0 || !best.marks || !best.issues || take_snapshots(&run, extents, addresses) < 0;
    if (!run.failed) {
        find_gains(&run);
        try_sets(&run, sets, count, &best);
    }
    run_free(&run);
    free(best.marks);
    free(best.issues);
    if (run.failed && !PyErr_Occurred()) PyErr_NoMemory();
    return run.failed ? -1 : best.cycles;
}

int copying_fits(const Copying *c, i64 kinds, i64 pairs)
{
    int fits = are_within(c->job_parts, c->steps, 1, 0, c->parts) && are_within(c->job_kinds, c->steps, 1, 0, kinds) &&
               (c->steps < 1 || are_within(c->pairs + 1, c->steps - 1, 1, 0, pairs)) &&
               are_within(c->copies + COPY_PART, c->count, COPY_FIELDS, 0, c->parts) &&
               are_within(c->copies + COPY_SIZE, c->count, COPY_FIELDS, 1, FAR) &&
               are_within(c->copies + COPY_FIRST, c->count, COPY_FIELDS, 0, c->steps) &&
               are_within(c->copies + COPY_LAST, c->count, COPY_FIELDS, 0, c->steps);
    for (i64 kind = 0; kind < kinds && fits; kind++) {
        const i64 *cycles = c->kinds + kind * TIME_FIELDS;
        int waits = cycles[TIME_HOME] || cycles[TIME_CONTENDED] > cycles[TIME_DIRECT];
        int staged_waits = cycles[TIME_STAGED_HOME] || cycles[TIME_STAGED_CONTENDED] > cycles[TIME_STAGED];
        fits = (!waits || (cycles[TIME_DIRECT] > 0 && cycles[TIME_CONTENDED] > 0)) &&
               (!staged_waits || (cycles[TIME_STAGED] > 0 && cycles[TIME_STAGED_CONTENDED] > 0));
    }
    if (!fits) PyErr_SetString(PyExc_ValueError, "copies are of parts that have jobs, whose kinds and pairs have times");
    return fits;
}

/* Whether the arrays of `copies` fit each other; else an exception is set. */
static int copies_fit(const Flat *f, const Extents *extents)
{
    if (!flat_has(&f[11], 6) || !flat_has(&f[9], (Py_ssize_t)extents->count)) return 0;
    const i64 *how = f[11].at, steps = f[0].length / 2, copies = f[4].length / COPY_FIELDS;
    int fits = how[0] >= 0 && how[0] < FAR && how[1] > 0 && how[1] < FAR && how[2] > 0 && how[2] < FAR && how[3] > 0 && how[3] < FAR;
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "copies need a budget, an alignment and units above 0");
        return 0;
    }
    fits = f[0].length == 2 * steps && f[4].length == copies * COPY_FIELDS && f[10].length >= copies && f[2].length >= steps &&
           are_within(f[9].at, extents->count, 1, 0, FAR);
    if (!fits) PyErr_SetString(PyExc_ValueError, "copies need marks, pairs of their jobs, and addresses of their extents");
    return fits;
}

/* copies(jobs, kinds, pairs, pair costs, copies, extents: starts, ends, offsets, data, addresses, sets,
   [parts, budget, alignment, most units, whether to improve, and how at both ends], shared)
   -> [cycles, then copy, step, start and address of every issue].
   `jobs` are the parts of all jobs and then their kinds; each of the sets is a mark for every copy. */
PyObject *native_copies(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    Flat f[12];
    Extents extents;
    Run run;
    Growing out = {0};
    if (count != 13) return PyErr_Format(PyExc_TypeError, "copies takes 13 arguments");
    if (flat_all(arguments, f, 12, 12) < 0) return NULL;
    if (extents_get(f + 5, &extents) < 0 || !copies_fit(f, &extents)) {
        flat_release(f, 12);
        return NULL;
    }
    const i64 *how = f[11].at, steps = f[0].length / 2, copies = f[4].length / COPY_FIELDS;
    Copying asked = {steps,   how[0],          copies,  how[1],  how[2],  how[3],       f[3].at,
                     f[0].at, f[0].at + steps, f[1].at, f[2].at, f[4].at, arguments[12]};
    if (!copying_fits(&asked, f[1].length / TIME_FIELDS, f[3].length / 4)) {
        flat_release(f, 12);
        return NULL;
    }
    Best best = {INT64_MAX, 0, NULL, NULL}, other = best;
    size_t room = (size_t)(copies + 1);
    i64 *marks = calloc(3 * room, sizeof(i64));
    Issue *issues = malloc(2 * room * sizeof(Issue));
    run.failed = run_make(&run, &asked) < 0 || !marks || !issues || take_snapshots(&run, &extents, f[9].at) < 0;
    if (run.failed) PyErr_NoMemory();
    else {
        best.marks = marks;
        best.issues = issues;
        other.marks = marks + room;
        other.issues = issues + room;
        find_gains(&run);
        try_sets(&run, f[10].at, copies ? f[10].length / copies : 1, &best);
        if (!run.failed && how[4]) finish(&run, &best, how[5], &other, marks + 2 * room);
    }
    if (!run.failed) {
        growing_push(&out, best.cycles);
        for (i64 i = 0; i < best.issued; i++) {
            const Issue *issue = &best.issues[i];
            growing_push(&out, issue->copy);
            growing_push(&out, issue->step);
            growing_push(&out, issue->start);
            growing_push(&out, issue->address);
        }
    }
    run_free(&run);
    free(marks);
    free(issues);
    flat_release(f, 12);
    if (run.failed) {
        free(out.at);
        if (!PyErr_Occurred()) PyErr_NoMemory();
        return NULL;
    }
    return growing_bytes(&out);
}
