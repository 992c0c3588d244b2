/* The agenda: which task runs on in which cycle. It knows no unit and no port; module.c walks it. */
#ifndef AGENDA_H
#define AGENDA_H

#include "replay.h"

int due_room(Agenda *agenda);
int numbers_room(Agenda *agenda);

static inline int due_add(Agenda *agenda, Resume resume)
{
    if (agenda->due_length == agenda->due_room && !due_room(agenda)) return 0;
    agenda->due[agenda->due_length++] = resume;
    return 1;
}

/* The cycle of what comes next. */
static inline i64 soonest(const Agenda *agenda) { return agenda->later_length ? agenda->later[agenda->later_length - 1].cycle : NEVER; }

void later_add(Agenda *agenda, i64 cycle, i64 number, Resume resume);
int soon(Agenda *agenda, Resume me);
int later(Agenda *agenda, i64 cycles, Resume me);
int belatedly(Agenda *agenda, i64 cycle, i64 number, Resume resume);

#endif
