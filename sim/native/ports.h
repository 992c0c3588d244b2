/* The ports with their queues and gates. They stand on the agenda and know no unit: what a transfer resumes is a number. */
#ifndef PORTS_H
#define PORTS_H

#include "agenda.h"

int make_servers(Machine *machine);
void link_servers(Machine *machine);
void transfer(Machine *machine, i64 port, int writes, int channel, const i64 *pairs, i64 count, i64 phase, Resume done);
void transfer_beats(Machine *machine, i64 port, int writes, int channel, i64 beats, i64 phase, Resume done);
void serve(Machine *machine, int server);

#endif
