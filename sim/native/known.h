/* A known replay, beside which others run: the machine as it was now and then, so that another one begins where the two first differ, and when its
   operations ended, so that another one is given up once it is behind. */
#ifndef KNOWN_H
#define KNOWN_H

#include "units.h"

enum { MOST_KEPT = 16 };

typedef struct Known {
    /* The timing, memories and ports of the replay, its operations, and the works of its kernels. Without operations it is still to be filled. */
    PyObject *terms[3], **works;
    Operation *operations;
    i64 operation_count, kernel_count;
    /* The lines of times of the operations that ended. */
    i64 *lines, finished;
    /* Machines, and how many operations each has looked at. */
    Machine *kept[MOST_KEPT];
    i64 looked[MOST_KEPT], kept_count;
} Known;

/* Numbers of operations that are the same in two replays, from the first one on and up to the last one. None counts twice. */
typedef struct {
    i64 first, last;
} Alike;

PyObject *known_new(PyObject *module, PyObject *nothing);
Known *known_of(PyObject *object);
int known_fits(const Known *known, PyObject *const *arguments);
Alike known_alike(const Known *known, const Machine *m, PyObject *works);
int known_fill(Known *known, const Machine *m, PyObject *const *arguments);
void known_clear(Known *known);
int run_beside(Machine *m, const Known *known, Alike alike);
int take_up(Machine *m, const Known *known, Alike alike);
void keep(Machine *m);
void free_machine(Machine *m);

#endif
