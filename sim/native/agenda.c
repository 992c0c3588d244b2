/* The agenda: tasks that are due in this cycle, in their order, and tasks of later cycles. */

#include "agenda.h"

static int room_for(void **at, i64 *room, i64 length, size_t size, int *failed)
{
    if (length < *room) return 1;
    i64 more = *room ? 2 * *room : 64;
    void *moved = realloc(*at, (size_t)more * size);
    if (!moved) {
        *failed = FAILED;
        return 0;
    }
    *at = moved;
    *room = more;
    return 1;
}

int due_room(Agenda *a) { return room_for((void **)&a->due, &a->due_room, a->due_length, sizeof(Resume), &a->failed); }

int numbers_room(Agenda *a) { return room_for((void **)&a->numbers, &a->numbers_room, a->numbers_length, sizeof(i64), &a->failed); }

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
        if (!numbers_room(a)) return 0;
        for (place = a->numbers_length; place && a->numbers[place - 1] > number; place--) a->numbers[place] = a->numbers[place - 1];
        a->numbers[place] = number;
        a->numbers_length++;
    }
    if (!due_add(a, NOBODY)) return 0;
    memmove(a->due + place + 1, a->due + place, (size_t)(a->due_length - 1 - place) * sizeof(Resume));
    a->due[place] = resume;
    return 1;
}
