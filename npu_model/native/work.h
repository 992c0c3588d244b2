/* Whether an array is the work of blocks, as block_work.c writes it: its lists lie in it, and its reads are of regions that there are. */
#ifndef WORK_H
#define WORK_H

#include "flat.h"

enum { WORK_HEAD = 6, WORK_PLACES = 0, WORK_DEPTHS, WORK_COLUMNS, WORK_SEQUENCE, WORK_JOBS };

/* Whether the list of reads at a place lies in the work; 0 is no list. */
static inline int reads_fit(const i64 *work, i64 length, i64 at, i64 regions)
{
    if (!at) return 1;
    if (at < WORK_HEAD || at >= length || work[at] < 0) return 0;
    i64 left = work[at++];
    for (; left; left--) {
        if (length - at < 3 || work[at] < 0 || work[at] >= regions || work[at + 1] < 0) return 0;
        i64 pairs = work[at + 2];
        at += 3;
        if (pairs < 0 || pairs > (length - at) / 2) return 0;
        at += 2 * pairs;
    }
    return 1;
}

static inline int job_fits(const i64 *work, i64 length, i64 at, i64 regions)
{
    if (at < WORK_HEAD || length - at < 4) return 0;
    const i64 *job = work + at;
    i64 writes = job[1], steps = job[3];
    if (writes < WORK_HEAD || writes >= length || work[writes] < 0 || work[writes] > (length - writes - 1) / 2) return 0;
    if (steps < 0 || steps > (length - at - 4) / 3 || !reads_fit(work, length, job[2], regions)) return 0;
    for (i64 s = 0; s < steps; s++) {
        const i64 *step = job + 4 + 3 * s;
        if (!reads_fit(work, length, step[0] < 0 ? -1 - step[0] : step[0], regions) || !reads_fit(work, length, step[1], regions)) return 0;
    }
    return 1;
}

static inline int is_work(const Flat *flat, i64 regions)
{
    const i64 *work = flat->at, length = flat->length;
    if (length < WORK_HEAD || !are_within(work, WORK_HEAD - 1, 1, 0, length + 1) || work[WORK_DEPTHS] < 1) return 0;
    i64 places = work[WORK_PLACES], columns = work[WORK_COLUMNS], kinds = columns * work[WORK_DEPTHS];
    const i64 *sequence = work + work[WORK_SEQUENCE], *jobs = work + work[WORK_JOBS];
    if (places > length - work[WORK_SEQUENCE] || columns > length / work[WORK_DEPTHS] || kinds > length - work[WORK_JOBS]) return 0;
    if (!are_within(sequence, places, 1, 0, columns)) return 0;
    for (i64 k = 0; k < kinds; k++)
        if (!job_fits(work, length, jobs[k], regions)) return 0;
    return 1;
}

#endif
