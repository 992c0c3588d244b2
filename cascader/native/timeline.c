/* Copies of constants beside the jobs: cascader.prefetch.timeline and cascader.prefetch.free_space in C. */
#include "core.h"

#define NOT_READY INT64_MIN

/* Loops over the units of an arena: where that can be chosen when the program starts, in the widest registers. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define OVER_UNITS __attribute__((target_clones("avx2", "default")))
#else
#define OVER_UNITS
#endif

enum { TIME_STAGED, TIME_DIRECT, TIME_LEAD, TIME_TAIL, TIME_CROWDED, TIME_HOME, TIME_STAGED_LEAD, TIME_STAGED_TAIL, TIME_FIELDS };
enum { COPY_PART, COPY_SIZE, COPY_TRANSFER, COPY_FIRST, COPY_LAST, COPY_EARLIEST, COPY_FIELDS };

typedef struct {
    i64 copy, step, start, address;
} Issue;

/* How far a run is, as _Moment in Python; `ready` has a cycle for every part. The places that are taken are those of the issues. */
typedef struct {
    i64 step, copy, arrival, copier, finish, port, issued, *ready;
    Issue *issues;
} Moment;

typedef struct {
    /* The jobs: part, times and what each shares with the one before. */
    i64 steps, parts, *pair_costs;
    const i64 *job_parts, *job_kinds, *kinds, *pairs;
    PyObject *shared;
    /* The copies, in the order of their first use, and what each gains at most. */
    i64 count, *gains;
    const i64 *copies;
    /* The arena in units: jobs from which on places are free of tensors, for each copy, once it was asked for. */
    i64 unit, units, budget;
    int32_t *windows;
    int *windowed;
    /* The run: moments[i] is when copy i of `wanted` came to the head of the line. */
    i64 *wanted, wanted_count, *before, before_count, *ready_room;
    Moment *moments, now;
    Issue *issue_room;
    int32_t *gaps;
    int gaps_known, ends, failed;
    i64 gaps_width, first_start;
} Run;

static void moment_copy(const Run *run, Moment *to, const Moment *from)
{
    i64 *ready = to->ready;
    Issue *issues = to->issues;
    *to = *from;
    to->ready = ready;
    to->issues = issues;
    memcpy(ready, from->ready, (size_t)run->parts * sizeof(i64));
    memcpy(issues, from->issues, (size_t)from->issued * sizeof(Issue));
}

/* Maximum of every `width` neighbours of `count` values, in place; count - width + 1 of them are left. */
OVER_UNITS static void highest_in_windows(int32_t *values, i64 count, i64 width)
{
    for (i64 done = 1; done < width;) {
        i64 step = least(done, width - done), left = count - step;
        for (i64 i = 0; i < left; i++) values[i] = values[i] > values[i + step] ? values[i] : values[i + step];
        count = left;
        done += step;
    }
}

/* For every place of a copy the job behind the last one up to its last use at which a tensor holds a unit of it. */
static const int32_t *window(Run *run, i64 copy, i64 width)
{
    int32_t *values = run->windows + copy * run->units;
    if (!run->windowed[copy]) highest_in_windows(values, run->units, width);
    run->windowed[copy] = 1;
    return values;
}

static void drop(Run *run)
{
    run->now.copy++;
    run->gaps_known = 0;
    moment_copy(run, &run->moments[run->now.copy], &run->now);
}

/* The least of `count` values. */
OVER_UNITS static int32_t least_of(const int32_t *values, i64 count)
{
    int32_t lowest = INT32_MAX;
    for (i64 i = 0; i < count; i++) lowest = lowest < values[i] ? lowest : values[i];
    return lowest;
}

/* The highest of `count` values that is at most `limit`; -1 if there is none. No value is negative. */
OVER_UNITS static int32_t highest_until(const int32_t *values, i64 count, int32_t limit)
{
    int32_t highest = -1;
    for (i64 i = 0; i < count; i++) {
        int32_t one = values[i] <= limit ? values[i] : -1;
        highest = highest > one ? highest : one;
    }
    return highest;
}

/* Each of `count` values raised to one. */
OVER_UNITS static void raise_to(int32_t *values, i64 count, int32_t value)
{
    for (i64 i = 0; i < count; i++) values[i] = values[i] > value ? values[i] : value;
}

/* The places for a copy in run->gaps, their number in run->gaps_width: 0 if there is none. A copy that was issued holds every place
   that reaches into its own. */
static void find_gaps(Run *run, i64 copy)
{
    const i64 *facts = run->copies + copy * COPY_FIELDS;
    i64 width = div_up(facts[COPY_SIZE], run->unit), places = run->units - width + 1;
    run->gaps_known = 1;
    run->gaps_width = 0;
    if (width > run->units) return;
    memcpy(run->gaps, window(run, copy, width), (size_t)places * sizeof(int32_t));
    for (i64 i = 0; i < run->now.issued; i++) {
        const Issue *issue = &run->now.issues[i];
        const i64 *other = run->copies + issue->copy * COPY_FIELDS;
        i64 begin = most(0, issue->address / run->unit - width + 1), end = least(places, div_up(issue->address + other[COPY_SIZE], run->unit));
        if (end > begin) raise_to(run->gaps + begin, end - begin, (int32_t)other[COPY_LAST] + 1);
    }
    run->first_start = least_of(run->gaps, places);
    if (run->first_start <= facts[COPY_FIRST]) run->gaps_width = places;
}

/* The place for a copy that is free from `wish` on, or as soon after as there is one: of several the one that was taken last. */
static i64 best_place(const Run *run, i64 wish, int highest)
{
    i64 place = 0, last = run->gaps_width - 1;
    int later = run->first_start > wish;
    int32_t taken = later ? (int32_t)run->first_start : highest_until(run->gaps, run->gaps_width, (int32_t)least(wish, INT32_MAX));
    if (highest && !later) {
        while (last >= 0 && run->gaps[last] != taken) last--;
        return last;
    }
    while (place <= last && run->gaps[place] != taken) place++;
    return place <= last ? place : -1;
}

static const i64 *times(const Run *run, i64 step) { return run->kinds + run->job_kinds[step] * TIME_FIELDS; }

/* Job `step` and a copy share the constants' memory from `start` on until one of them ends. */
static void delay(Run *run, i64 step, i64 start)
{
    Moment *now = &run->now;
    const i64 *job = times(run, step);
    if (now->copier <= start || !job[TIME_HOME] || now->finish <= start || now->ready[run->job_parts[step]] != NOT_READY) return;
    i64 copying = now->copier - start, left = now->finish - start, own = job[TIME_CROWDED] - job[TIME_HOME];
    if (left * own <= copying * job[TIME_DIRECT]) {
        now->finish = start + left * job[TIME_CROWDED] / job[TIME_DIRECT];
        now->copier += left * job[TIME_HOME] / job[TIME_DIRECT];
    } else {
        i64 together = copying * job[TIME_CROWDED] / own;
        now->copier = start + together;
        now->finish += together * (job[TIME_CROWDED] - job[TIME_DIRECT]) / job[TIME_CROWDED];
    }
    now->ready[run->copies[now->issues[now->issued - 1].copy * COPY_FIELDS + COPY_PART]] = now->copier;
}

static int is_worth(const Run *run, i64 copy, i64 ready) { return ready - most(run->now.finish, run->now.arrival) <= run->gains[copy]; }

/* Issue the next copy before the next job if it holds nobody up, or must be; whether it is done with. */
static int issue(Run *run)
{
    Moment *now = &run->now;
    i64 copy = run->wanted[now->copy], first_free = most(now->arrival, now->copier);
    const i64 *facts = run->copies + copy * COPY_FIELDS;
    int must = facts[COPY_FIRST] == now->step;
    if (now->step < facts[COPY_EARLIEST] || (!must && first_free >= now->finish)) return 0;
    if (!run->gaps_known) find_gaps(run, copy);
    if (!run->gaps_width) {
        drop(run);
        return 1;
    }
    if (run->first_start > (must ? now->step : now->step - 1)) return 0;
    i64 place = best_place(run, now->step - 1, run->ends && (now->copy + run->ends) % 2 == 0), free_from = run->gaps[place];
    i64 start = most(first_free, free_from == now->step ? now->finish : 0);
    if (must && !is_worth(run, copy, start + facts[COPY_TRANSFER])) {
        drop(run);
        return 1;
    }
    Issue issued = {copy, now->step, free_from, place * run->unit};
    now->issues[now->issued++] = issued;
    now->arrival = start;
    now->copier = start + facts[COPY_TRANSFER];
    now->ready[facts[COPY_PART]] = now->copier;
    if (now->step) delay(run, now->step - 1, start);
    drop(run);
    return 1;
}

/* What a job shares with the one before it, asked of the caller once for each kind of pair. */
static i64 shared(Run *run, i64 step, int before, int now)
{
    if (run->shared == Py_None) return 0;
    i64 *cost = &run->pair_costs[run->pairs[step] * 4 + 2 * before + now];
    if (*cost < 0) {
        PyObject *answer = PyObject_CallFunction(run->shared, "Lii", (long long)step, before, now);
        *cost = answer ? PyLong_AsLongLong(answer) : 0;
        Py_XDECREF(answer);
        if (PyErr_Occurred()) run->failed = 1;
    }
    return *cost;
}

static void execute(Run *run)
{
    static const i64 no_job[TIME_FIELDS] = {0};
    Moment *now = &run->now;
    i64 step = now->step, ready = now->ready[run->job_parts[step]];
    const i64 *job = times(run, step), *last = step ? times(run, step - 1) : no_job;
    int before = step && now->ready[run->job_parts[step - 1]] != NOT_READY, staged = ready != NOT_READY;
    i64 tail = last[before ? TIME_STAGED_TAIL : TIME_TAIL], overlap = step ? shared(run, step, before, staged) : 0;
    i64 known = most(now->arrival, staged ? ready : 0), begin = most(now->finish - overlap, known);
    i64 ahead = least(least(job[staged ? TIME_STAGED_LEAD : TIME_LEAD], tail), begin - known);
    now->finish = begin - ahead + job[staged ? TIME_STAGED : TIME_DIRECT];
    if (!staged && job[TIME_HOME]) {
        now->port = most(now->port, begin - tail) + job[TIME_HOME];
        now->finish = most(now->finish, now->port);
    }
    delay(run, step, begin - ahead);
    now->step = step + 1;
    now->arrival = begin;
}

/* The cycles of all jobs with the copies in run->wanted; it goes on from where these part from the ones before. */
static i64 timeline(Run *run)
{
    i64 same = 0;
    while (same < run->wanted_count && same < run->before_count && run->wanted[same] == run->before[same]) same++;
    memcpy(run->before, run->wanted, (size_t)run->wanted_count * sizeof(i64));
    run->before_count = run->wanted_count;
    moment_copy(run, &run->now, &run->moments[same]);
    run->gaps_known = 0;
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

/* Note that what a tensor at `address` holds was held until `step`. */
static void note_held(const Run *run, const Holding *holding, i64 address, i64 step, int32_t *held)
{
    if (holding->top <= holding->bottom) return;
    i64 low = (address + holding->bottom) / run->unit, high = least(run->units, div_up(address + holding->top, run->unit));
    if (high > low) raise_to(held + low, high - low, (int32_t)step);
}

/* For every copy the job behind the last one up to its last use at which a tensor holds a byte of each unit. What a tensor holds for many
   steps is noted when it changes, or where a copy is used last. */
static int take_snapshots(Run *run, const Extents *extents, const i64 *addresses)
{
    i64 size = run->units, is_last = 0;
    int32_t *held = calloc((size_t)size + 1, sizeof(int32_t));
    Holding *holdings = calloc((size_t)extents->count + 1, sizeof(Holding));
    run->windows = malloc((size_t)(run->count * size + 1) * sizeof(int32_t));
    for (i64 step = 0; held && holdings && run->windows && step < run->steps; step++) {
        is_last = 0;
        for (i64 copy = 0; copy < run->count; copy++) is_last |= run->copies[copy * COPY_FIELDS + COPY_LAST] == step;
        for (i64 e = 0; e < extents->count; e++) {
            Holding now = {0, 0};
            if (step >= extents->starts[e] && step < extents->ends[e]) {
                i64 at = step - extents->starts[e];
                now = (Holding){low_of(extents, e)[at], high_of(extents, e)[at]};
            }
            if (now.bottom != holdings[e].bottom || now.top != holdings[e].top) note_held(run, &holdings[e], addresses[e], step, held);
            holdings[e] = now;
            if (is_last) note_held(run, &now, addresses[e], step + 1, held);
        }
        for (i64 copy = 0; is_last && copy < run->count; copy++)
            if (run->copies[copy * COPY_FIELDS + COPY_LAST] == step) memcpy(run->windows + copy * size, held, (size_t)size * sizeof(int32_t));
    }
    int made = held && holdings && run->windows;
    free(held);
    free(holdings);
    return made ? 0 : -1;
}

static void find_gains(Run *run)
{
    for (i64 copy = 0; copy < run->count; copy++) {
        const i64 *facts = run->copies + copy * COPY_FIELDS;
        for (i64 step = facts[COPY_FIRST]; step <= facts[COPY_LAST]; step++)
            if (run->job_parts[step] == facts[COPY_PART]) run->gains[copy] += times(run, step)[TIME_CROWDED] - times(run, step)[TIME_STAGED];
    }
}

static int run_make(Run *run)
{
    i64 moments = run->count + 2;
    size_t parts = (size_t)run->parts, units = (size_t)run->units + 1, count = (size_t)run->count + 1;
    run->windowed = calloc(count, sizeof(int));
    run->gains = calloc(count, sizeof(i64));
    run->wanted = calloc(4 * count, sizeof(i64));
    run->before = run->wanted + count;
    run->moments = calloc((size_t)moments, sizeof(Moment));
    run->ready_room = malloc((size_t)moments * parts * sizeof(i64) + 8);
    run->issue_room = malloc((size_t)moments * count * sizeof(Issue));
    run->gaps = malloc(units * sizeof(int32_t));
    if (!run->windowed || !run->gains || !run->wanted || !run->moments || !run->ready_room || !run->issue_room || !run->gaps) return -1;
    for (i64 m = 0; m < moments; m++) {
        Moment *moment = m + 1 < moments ? &run->moments[m] : &run->now;
        moment->ready = run->ready_room + (size_t)m * parts;
        moment->issues = run->issue_room + (size_t)m * count;
    }
    for (i64 part = 0; part < run->parts; part++) run->moments[0].ready[part] = NOT_READY;
    return 0;
}

static void run_free(Run *run)
{
    free(run->windows);
    free(run->windowed);
    free(run->gains);
    free(run->wanted);
    free(run->moments);
    free(run->ready_room);
    free(run->issue_room);
    free(run->gaps);
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
    memcpy(best->issues, run->now.issues, (size_t)best->issued * sizeof(Issue));
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
    if (extents_get(f + 5, &extents) < 0) {
        flat_release(f, 12);
        return NULL;
    }
    memset(&run, 0, sizeof run);
    const i64 *how = f[11].at;
    run.steps = f[0].length / 2;
    run.job_parts = f[0].at;
    run.job_kinds = f[0].at + run.steps;
    run.kinds = f[1].at;
    run.pairs = f[2].at;
    run.pair_costs = f[3].at;
    run.copies = f[4].at;
    run.count = f[4].length / COPY_FIELDS;
    run.shared = arguments[12];
    run.parts = how[0];
    run.budget = how[1];
    run.unit = div_up(div_up(how[1], how[3]), how[2]) * how[2];
    run.units = how[1] / run.unit;
    Best best = {INT64_MAX, 0, NULL, NULL}, other = best;
    size_t room = (size_t)(run.count + 1);
    i64 *marks = calloc(3 * room, sizeof(i64));
    Issue *issues = malloc(2 * room * sizeof(Issue));
    run.failed = !marks || !issues || run_make(&run) < 0 || take_snapshots(&run, &extents, f[9].at) < 0;
    if (run.failed) PyErr_NoMemory();
    else {
        best.marks = marks;
        best.issues = issues;
        other.marks = marks + room;
        other.issues = issues + room;
        find_gains(&run);
        for (i64 set = 0; !run.failed && set * run.count < most(1, f[10].length); set++) {
            try_copies(&run, f[10].at + set * run.count, -1, &best);
            if (!run.count) break;
        }
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
