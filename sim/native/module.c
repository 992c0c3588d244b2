/* The compiled core of sim: the fast replay of one Program, equal to sim/engine to the cycle. It makes the machine and walks its agenda. */

#include "known.h"

#include "work.h"

static int read_kernels(Machine *m, PyObject *works, const Known *known, Flat *flats, i64 *beats)
{
    i64 number = 0;
    for (i64 i = 0; i < m->operation_count; i++) {
        const Operation *op = &m->operations[i];
        if (op->kind != KERNEL_OPERATION) continue;
        PyObject *object = PyList_GetItem(works, (Py_ssize_t)number);
        if (!object || flat_get(object, &flats[number], 0) < 0) return -1;
        Kernel *kernel = &m->kernels[number++];
        m->kernel_count = number;
        const i64 *work = flats[number - 1].at;
        /* The works of the known replay have been looked at. */
        int is_known = known && number <= known->kernel_count && object == known->works[number - 1];
        if (!is_known && !is_work(&flats[number - 1], m->regions)) {
            PyErr_SetString(PyExc_ValueError, "a kernel's work is none, or it reads through no port");
            return -1;
        }
        *kernel = (Kernel){.index = i, .blockdep = op->first, .repartitions = op->second, .port = op->third, .weight_bursts = op->fourth, .work = work};
        kernel->depths = work[1];
        kernel->blocks = work[0] * work[1];
        kernel->ifm_pace = work[5] ? m->timing.own_ifm_pace : m->timing.ifm_pace;
        kernel->written.waiting = NOBODY;
        if (op->third < 0 || op->third > 1) {
            PyErr_SetString(PyExc_ValueError, "a kernel stores through no port");
            return -1;
        }
        if (!beats) continue;
        i64 moved[4] = {0, 0, 0, 0}, *times = calloc((size_t)work[2], sizeof(i64));
        if (!times) {
            PyErr_NoMemory();
            return -1;
        }
        for (i64 p = 0; p < work[0]; p++) times[work[work[3] + p]]++;
        for (i64 k = 0; k < work[2] * work[1]; k++) {
            const i64 *job = work + work[work[4] + k], *writes = work + job[1];
            i64 often = times[k / work[1]];
            for (i64 p = 0; p < writes[0]; p++) moved[2 * kernel->port + 1] += often * writes[1 + 2 * p] * writes[2 + 2 * p];
            for (i64 list = -1; list < 2 * job[3]; list++) {
                i64 at = list < 0 ? job[2] : job[4 + list / 2 * 3 + list % 2];
                if (at < 0) at = -1 - at;
                if (!at) continue;
                const i64 *read = work + at;
                for (i64 left = *read++; left; left--) {
                    i64 port = m->ports[read[0]], pairs = read[2];
                    for (read += 3; pairs; pairs--, read += 2) moved[2 * port] += often * read[0] * read[1];
                }
            }
        }
        free(times);
        for (int way = 0; way < 4; way++) {
            beats[way] += moved[way];
            if (m->counts) m->counts[i * COUNTS + BEATS + way] = moved[way];
        }
    }
    return 0;
}

static void make_buffers(Machine *m)
{
    Count *counts[] = {&m->fetched, &m->parsed, &m->kernels_done, &m->dmas_done, &m->scales_there};
    Slots *slots[] = {&m->input, &m->weights, &m->accumulators, &m->outputs};
    Fifo *fifos[] = {&m->kernel_queue, &m->dma_queue, &m->weight_queue, &m->loaded, &m->decoded, &m->accumulated, &m->scaled,
                     &m->responses[0], &m->responses[1], &m->weight_news, &m->under_way, &m->loads, &m->scale_queue};
    for (int i = 0; i < 5; i++) counts[i]->waiting = NOBODY;
    for (int i = 0; i < 4; i++) *slots[i] = (Slots){m->timing.slots, NOBODY};
    m->weights.left = m->timing.weight_slots;
    for (int i = 0; i < 13; i++) fifos[i]->waiting = NOBODY;
}

static void resume(Machine *m, Resume who)
{
    /* An interrupt is heard now and then. */
    if (!(++m->resumed & 0xFFFFF) && PyErr_CheckSignals() < 0) {
        m->agenda.failed = FAILED;
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
    } else if (who == ARRIVAL) {
        weights_arrived(m);
    } else {
        scales_arrived(m);
    }
}

/* Resume all tasks, cycle after cycle, each cycle's in the order of their numbers. */
static void walk(Machine *m)
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
            if (m->filled && m->command >= m->next_kept) keep(m);
            if (!a->later_length || a->failed) return;
            Later next = a->later[--a->later_length];
            a->cycle = next.cycle;
            due_add(a, next.resume);
            if (soonest(a) == a->cycle) {
                if (!numbers_room(a)) return;
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
            if (!numbers_room(a)) return;
            a->numbers[a->numbers_length++] = next.number;
            due_add(a, next.resume);
        }
    }
}

/* Whether the machine's numbers are ones that it can run with: ports that there are, no divisor of 0, and room for at least one of each. */
static int machine_fits(const Machine *m)
{
    const Timing *t = &m->timing;
    int fits = are_within(m->ports, m->regions, 1, 0, PORTS) && t->command_port >= 0 && t->command_port < PORTS && t->word > 0 && t->most_kernels > 0 &&
               t->most_dmas > 0 && t->slots > 0 && t->weight_slots > 0 && t->grant > 0 && t->fetch_words > 0 && t->buffer_words >= t->fetch_words &&
               t->chunk_beats > 0 && t->chunks_ahead > 0 && t->weight_bursts >= 0 && t->ifm_pace >= 0 && t->own_ifm_pace >= 0 && t->scale_words >= 0 &&
               t->sure > 0;
    for (int port = 0; port < PORTS; port++) {
        const Memory *memory = &m->memories[port];
        fits &= memory->burst > 0 && memory->ifm_burst > 0 && memory->numerator >= 0 && memory->denominator > 0;
        fits &= memory->most_reads >= 0 && memory->most_writes >= 0 && (!memory->pulses || (memory->on > 0 && memory->length > 0 && memory->cap > 0));
    }
    for (i64 i = 0; i < m->operation_count && fits; i++) {
        const Operation *op = &m->operations[i];
        if (op->kind == KERNEL_OPERATION) fits = op->fourth >= 0;
        if (op->kind == DMA_OPERATION) fits = op->first >= 0 && op->first < PORTS && op->third < PORTS && op->second >= 0 && op->fourth >= 0;
    }
    if (!fits) PyErr_SetString(PyExc_ValueError, "a machine has two ports, divisors above 0, and room for one of each");
    return fits;
}

/* The machine at its first cycle. Returns 0, or -1 without memory. */
static int begin(Machine *m)
{
    static const int ORDER[UNITS] = {FETCH, DMA, LOAD, DECODER, MAC, OUTPUT, WRITE, PROCESSOR};
    if (make_servers(m) < 0) return -1;
    make_buffers(m);
    for (int server = 0; server < SERVERS; server++) due_add(&m->agenda, FIRST_START + FIRST_SERVER + server);
    for (int i = 0; i < UNITS; i++) due_add(&m->agenda, FIRST_START + ORDER[i]);
    m->agenda.running = NEVER;
    m->next_kept = 1 + m->operation_count / (MOST_KEPT + 1);
    return 0;
}

/* Make the machine ready to run: at its first cycle, or where it begins to differ from a known replay. Returns 0, or -1 with an exception set. */
static int set_out(Machine *m, Known *known, PyObject *const *arguments, Flat *works, i64 *beats)
{
    const Known *beside = known && known->operations ? known : NULL;
    Alike alike = {0, 0};
    int begun = 0;
    if (beside) alike = known_alike(beside, m, arguments[4]);
    if (read_kernels(m, arguments[4], beside, works, beats) < 0) return -1;
    for (i64 i = 0; i < m->operation_count; i++) m->words += m->operations[i].words;
    if ((beside && (run_beside(m, beside, alike) < 0 || (begun = take_up(m, beside, alike)) < 0)) || (!begun && begin(m) < 0)) {
        PyErr_NoMemory();
        return -1;
    }
    m->filled = beside ? NULL : known;
    return 0;
}

/* Timing, memories, ports of the regions, operations, list of block works, room for times, for beats and for what is counted of each operation
   (none: it is not), and a known replay, which is filled if it is empty, or None: the cycles; -1 if the Program was found to be no faster than
   the known one. */
static PyObject *replay(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count != 9 || !PyList_Check(arguments[4])) {
        PyErr_SetString(PyExc_TypeError, "timing, memories, ports, operations, a list of block works, times, beats, counts and a known replay are needed");
        return NULL;
    }
    PyObject *buffers[7] = {arguments[0], arguments[1], arguments[2], arguments[3], arguments[5], arguments[6], arguments[7]};
    Flat flats[7], *works = NULL;
    Known *known = known_of(arguments[8]);
    if (PyErr_Occurred() || flat_all(buffers, flats, 7, 4) < 0) return NULL;
    Machine *m = calloc(1, sizeof *m);
    PyObject *result = NULL;
    Py_ssize_t kernels = PyList_Size(arguments[4]);
    works = calloc((size_t)kernels + 1, sizeof(Flat));
    if (!m || !works) {
        PyErr_NoMemory();
        goto end;
    }
    if (flats[0].length * 8 != (Py_ssize_t)sizeof(Timing) || flats[1].length * 8 != (Py_ssize_t)(2 * sizeof(Memory)) ||
        flats[3].length * 8 % (Py_ssize_t)sizeof(Operation) || (flats[5].length && flats[5].length != 4)) {
        PyErr_SetString(PyExc_ValueError, "this is no program to replay");
        goto end;
    }
    memcpy(&m->timing, flats[0].at, sizeof(Timing));
    memcpy(m->memories, flats[1].at, 2 * sizeof(Memory));
    m->ports = flats[2].at;
    m->regions = flats[2].length;
    m->operations = (const Operation *)flats[3].view.buf;
    m->operation_count = flats[3].length * 8 / (Py_ssize_t)sizeof(Operation);
    m->times = flats[4].at;
    m->counts = flats[6].length ? flats[6].at : NULL;
    m->kernels = calloc((size_t)kernels + 1, sizeof(Kernel));
    if (flats[4].length != 3 * m->operation_count || (m->counts && (flats[6].length != COUNTS * m->operation_count || !flats[5].length))) {
        PyErr_SetString(PyExc_ValueError, "there is no room for the times or the counts");
        goto end;
    }
    if (known && (m->counts || !known_fits(known, arguments))) {
        PyErr_SetString(PyExc_ValueError, "a known replay has no counts, and the same timing, memories and ports");
        goto end;
    }
    if (!machine_fits(m)) goto end;
    if (!m->kernels) {
        PyErr_NoMemory();
        goto end;
    }
    if (set_out(m, known, arguments, works, flats[5].length ? flats[5].at : NULL) < 0) goto end;
    if (!m->agenda.failed) walk(m);
    if (m->agenda.failed == BEATEN) m->end = -1;
    result = m->agenda.failed != FAILED ? PyLong_FromLongLong(m->end) : PyErr_Occurred() ? NULL : PyErr_NoMemory();
    if (m->filled && result && known_fill(known, m, arguments) < 0) {
        Py_CLEAR(result);
        PyErr_NoMemory();
    }
end:
    if (m && m->filled && !result) known_clear(known);
    if (works)
        for (Py_ssize_t i = 0; i < kernels; i++)
            if (works[i].at) PyBuffer_Release(&works[i].view);
    free(works);
    if (m) free_machine(m);
    flat_release(flats, 7);
    return result;
}

static PyMethodDef METHODS[] = {
    {"replay", (PyCFunction)(void (*)(void))replay, METH_FASTCALL, "The cycles of a Program."},
    {"known", known_new, METH_NOARGS, "An empty known replay."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "sim._native", NULL, -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void) { return core_module(&MODULE); }
