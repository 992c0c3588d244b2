/* The agenda of sim/fast/clock.py: which unit runs on in which cycle. */

#include "replay.h"

static int room_for(void **at, i64 *room, i64 length, size_t size, int *failed)
{
    if (length < *room) return 1;
    i64 more = *room ? 2 * *room : 64;
    void *moved = realloc(*at, (size_t)more * size);
    if (!moved) {
        *failed = 1;
        return 0;
    }
    *at = moved;
    *room = more;
    return 1;
}

int due_room(Agenda *a) { return room_for((void **)&a->due, &a->due_room, a->due_length, sizeof(Resume), &a->failed); }

static int is_before(const Later *a, const Later *b) { return a->cycle < b->cycle || (a->cycle == b->cycle && a->number < b->number); }

void later_add(Agenda *a, i64 cycle, i64 number, Resume resume)
{
    if (!room_for((void **)&a->later, &a->later_room, a->later_length, sizeof(Later), &a->failed)) return;
    Later entry = {cycle, number, resume};
    i64 at = a->later_length++;
    /* A handful are waited for: to move those that come sooner takes less time than a heap does. */
    while (at && is_before(&a->later[at - 1], &entry)) {
        a->later[at] = a->later[at - 1];
        at--;
    }
    a->later[at] = entry;
}

int soon(Agenda *a, Resume me)
{
    if (a->due[a->due_length - 1] == me) return 0;
    due_add(a, me);
    return 1;
}

int later(Agenda *a, i64 cycles, Resume me)
{
    if (!cycles) return soon(a, me);
    i64 cycle = a->cycle + cycles;
    if (a->due[a->due_length - 1] == me && soonest(a) > cycle) {
        a->cycle = cycle;
        a->running = NEVER;
        return 0;
    }
    later_add(a, cycle, a->number++, me);
    return 1;
}

int belatedly(Agenda *a, i64 cycle, i64 number, Resume resume)
{
    if (cycle < a->cycle || (cycle == a->cycle && number < a->running)) return 0;
    if (cycle > a->cycle) {
        later_add(a, cycle, number, resume);
        return 1;
    }
    i64 place = 1;
    if (a->numbers_length) {
        if (!room_for((void **)&a->numbers, &a->numbers_room, a->numbers_length, sizeof(i64), &a->failed)) return 0;
        for (place = a->numbers_length; place && a->numbers[place - 1] > number; place--) a->numbers[place] = a->numbers[place - 1];
        a->numbers[place] = number;
        a->numbers_length++;
    }
    if (!due_add(a, NOBODY)) return 0;
    memmove(a->due + place + 1, a->due + place, (size_t)(a->due_length - 1 - place) * sizeof(Resume));
    a->due[place] = resume;
    return 1;
}

static void resume(Machine *m, Resume who)
{
    /* An interrupt is heard now and then. */
    if (!(++m->resumed & 0xFFFFF) && PyErr_CheckSignals() < 0) {
        m->agenda.failed = 1;
        return;
    }
    if (who >= FIRST_START) who -= FIRST_START;
    if (who < UNITS) {
        run_unit(m, who);
    } else if (who < FIRST_COUNTDOWN) {
        serve(m, who - FIRST_SERVER);
    } else if (who < FIRST_RESPONSE) {
        /* The units that ask for several transfers at once: the input load and the decoder. */
        if (!--m->countdowns[who - FIRST_COUNTDOWN]) run_unit(m, LOAD + who - FIRST_COUNTDOWN);
    } else if (who < FIRST_LOADED) {
        responded(m, who - FIRST_RESPONSE);
    } else if (who < ARRIVAL) {
        ifm_arrived(m, who - FIRST_LOADED);
    } else {
        weights_arrived(m);
    }
}

void walk(Machine *m)
{
    Agenda *a = &m->agenda;
    while (!a->failed) {
        i64 at = 0;
        for (; at < a->numbers_length && !a->failed; at++) {
            a->running = a->numbers[at];
            resume(m, a->due[at]);
        }
        a->running = NEVER;
        for (; at < a->due_length && !a->failed; at++) resume(m, a->due[at]);
        a->due_length = a->numbers_length = 0;
        for (;;) {
            if (!a->later_length || a->failed) return;
            Later next = a->later[--a->later_length];
            a->cycle = next.cycle;
            due_add(a, next.resume);
            if (soonest(a) == a->cycle) {
                if (!room_for((void **)&a->numbers, &a->numbers_room, 0, sizeof(i64), &a->failed)) return;
                a->numbers[a->numbers_length++] = next.number;
                break;
            }
            a->running = next.number;
            resume(m, next.resume);
            a->running = NEVER;
            for (i64 i = 1; i < a->due_length && !a->failed; i++) resume(m, a->due[i]);
            a->due_length = 0;
        }
        while (soonest(a) == a->cycle) {
            Later next = a->later[--a->later_length];
            if (!room_for((void **)&a->numbers, &a->numbers_room, a->numbers_length, sizeof(i64), &a->failed)) return;
            a->numbers[a->numbers_length++] = next.number;
            due_add(a, next.resume);
        }
    }
}

void agenda_free(Agenda *a)
{
    free(a->due);
    free(a->later);
    free(a->numbers);
}
