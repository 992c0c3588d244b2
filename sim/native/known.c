/* Known replays: they keep copies of the machine, and another replay takes up the last one before its own operations differ. */

#include "known.h"

static const char *const NAME = "sim.known";

static void *dropped(void *array, size_t bytes)
{
    (void)bytes;
    free(array);
    return NULL;
}

static void *copied(void *array, size_t bytes)
{
    void *copy = array ? malloc(bytes) : NULL;
    if (copy) memcpy(copy, array, bytes);
    return copy;
}

/* Replace each array of a machine by what `act` makes of it; how many are lost. Its kernels are apart: others may use them. */
static int each_array(Machine *m, void *(*act)(void *, size_t))
{
    Fifo *fifos[] = {&m->kernel_queue, &m->dma_queue, &m->weight_queue, &m->loaded, &m->decoded, &m->accumulated, &m->scaled,
                     &m->responses[0], &m->responses[1], &m->weight_news, &m->under_way, &m->loads, &m->scale_queue};
    Agenda *a = &m->agenda;
    int lost = 0;
#define EACH(array, count) do { \
    void *made = act(array, (size_t)(count) * sizeof *(array)); \
    lost += (array) && !made; \
    (array) = made; \
} while (0)
    for (int i = 0; i < 13; i++) EACH(fifos[i]->items, fifos[i]->room * ITEM);
    for (int number = 0; number < SERVERS; number++) {
        EACH(m->servers[number].finishes, m->servers[number].limit);
        EACH(m->gates[number].passed, m->gates[number].room);
        for (int channel = 0; channel < CHANNELS; channel++) EACH(m->servers[number].queues[channel].items, m->servers[number].queues[channel].room);
    }
    EACH(a->due, a->due_room);
    EACH(a->later, a->later_room);
    EACH(a->numbers, a->numbers_room);
#undef EACH
    return lost;
}

void free_machine(Machine *m)
{
    each_array(m, dropped);
    free(m->kernels);
    free(m->others);
    free(m);
}

/* A copy of a machine with the kernels that it has issued; NULL if there is no memory. */
static Machine *copy_of(const Machine *m)
{
    Machine *copy = malloc(sizeof *copy);
    if (!copy) return NULL;
    *copy = *m;
    copy->kernels = malloc((size_t)(m->issued_kernels + 1) * sizeof(Kernel));
    if (copy->kernels) memcpy(copy->kernels, m->kernels, (size_t)m->issued_kernels * sizeof(Kernel));
    copy->others = NULL;
    if (each_array(copy, copied) || !copy->kernels) {
        free_machine(copy);
        return NULL;
    }
    return copy;
}

void keep(Machine *m)
{
    Known *known = m->filled;
    Machine *copy = copy_of(m);
    if (!copy) {
        m->agenda.failed = FAILED;
        return;
    }
    known->looked[known->kept_count] = m->command + 1;
    known->kept[known->kept_count++] = copy;
    i64 next = (known->kept_count + 1) * m->operation_count / (MOST_KEPT + 1);
    m->next_kept = known->kept_count == MOST_KEPT ? NEVER : most(m->command + 1, next);
}

static int is_same(const Known *known, i64 one, i64 kernel, const Machine *m, i64 other, i64 other_kernel, PyObject *works)
{
    if (memcmp(&known->operations[one], &m->operations[other], sizeof(Operation))) return 0;
    if (known->operations[one].kind != KERNEL_OPERATION) return 1;
    /* Works are kept, so equal ones are one object. */
    return kernel >= 0 && kernel < known->kernel_count && other_kernel >= 0 && other_kernel < PyList_Size(works) &&
           known->works[kernel] == PyList_GetItem(works, (Py_ssize_t)other_kernel);
}

/* Whether the arguments of a replay are of the machine that is known; an empty one knows none. */
int known_fits(const Known *known, PyObject *const *arguments)
{
    for (int i = 0; i < 3 && known->operations; i++)
        if (known->terms[i] != arguments[i]) return 0;
    return 1;
}

Alike known_alike(const Known *known, const Machine *m, PyObject *works)
{
    i64 many = least(known->operation_count, m->operation_count), kernel = 0;
    i64 one = known->operation_count, other = m->operation_count, from = known->kernel_count, others = PyList_Size(works);
    Alike alike = {0, 0};
    for (; alike.last < many && is_same(known, one - 1, from - 1, m, other - 1, others - 1, works); alike.last++) {
        int is_kernel = known->operations[--one].kind == KERNEL_OPERATION;
        from -= is_kernel;
        others -= is_kernel;
        other--;
    }
    for (; alike.first < many - alike.last && is_same(known, alike.first, kernel, m, alike.first, kernel, works); alike.first++)
        kernel += known->operations[alike.first].kind == KERNEL_OPERATION;
    return alike;
}

/* Note when the known replay's last operations ended. Returns 0, or -1 without memory. */
int run_beside(Machine *m, const Known *known, Alike alike)
{
    i64 shift = m->operation_count - known->operation_count;
    m->others = malloc((size_t)(m->operation_count + 1) * sizeof(i64));
    if (!m->others) return -1;
    for (i64 i = 0; i < m->operation_count; i++) m->others[i] = -1;
    for (const i64 *line = known->lines; line < known->lines + 3 * known->finished; line += 3)
        if (line[0] >= known->operation_count - alike.last && line[2] > 0) m->others[line[0] + shift] = line[2];
    return 0;
}

/* Go on from the last machine that has looked at nothing but the first operations. Returns 1, 0 if there is none, or -1 without memory. */
int take_up(Machine *m, const Known *known, Alike alike)
{
    i64 at = known->kept_count - 1;
    /* The last words are fetched by fewer at a time: where they are is no longer the same. */
    while (at >= 0 && (known->looked[at] > alike.first ||
                       known->kept[at]->requested + m->timing.fetch_words > least(known->kept[at]->words, m->words)))
        at--;
    if (at < 0) return 0;
    Machine *copy = copy_of(known->kept[at]);
    if (!copy) return -1;
    memcpy(m->kernels, copy->kernels, (size_t)copy->issued_kernels * sizeof(Kernel));
    memcpy(m->times, known->lines, (size_t)(3 * copy->finished) * sizeof(i64));
    free(copy->kernels);
    copy->kernels = m->kernels;
    copy->kernel_count = m->kernel_count;
    copy->operations = m->operations;
    copy->operation_count = m->operation_count;
    copy->words = m->words;
    copy->ports = m->ports;
    copy->times = m->times;
    copy->others = m->others;
    copy->filled = NULL;
    *m = *copy;
    free(copy);
    link_servers(m);
    return 1;
}

/* Keep what another replay is compared with. Returns 0, or -1 without memory. */
int known_fill(Known *known, const Machine *m, PyObject *const *arguments)
{
    known->lines = malloc((size_t)(3 * m->finished + 1) * sizeof(i64));
    known->works = malloc((size_t)(m->kernel_count + 1) * sizeof(PyObject *));
    known->operations = malloc((size_t)(m->operation_count + 1) * sizeof(Operation));
    if (!known->lines || !known->works || !known->operations) return -1;
    memcpy(known->lines, m->times, (size_t)(3 * m->finished) * sizeof(i64));
    memcpy(known->operations, m->operations, (size_t)m->operation_count * sizeof(Operation));
    known->finished = m->finished;
    known->operation_count = m->operation_count;
    for (int i = 0; i < 3; i++) known->terms[i] = Py_NewRef(arguments[i]);
    for (i64 i = 0; i < m->kernel_count; i++) known->works[i] = Py_NewRef(PyList_GetItem(arguments[4], (Py_ssize_t)i));
    known->kernel_count = m->kernel_count;
    return 0;
}

void known_clear(Known *known)
{
    for (i64 i = 0; i < known->kept_count; i++) free_machine(known->kept[i]);
    for (i64 i = 0; i < known->kernel_count; i++) Py_DECREF(known->works[i]);
    for (int i = 0; i < 3; i++) Py_XDECREF(known->terms[i]);
    free(known->works);
    free(known->operations);
    free(known->lines);
    *known = (Known){0};
}

static void destroy(PyObject *capsule)
{
    Known *known = PyCapsule_GetPointer(capsule, NAME);
    if (!known) return;
    known_clear(known);
    free(known);
}

/* A known replay that the next replay with it fills. */
PyObject *known_new(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    Known *known = calloc(1, sizeof *known);
    if (!known) return PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(known, NAME, destroy);
    if (!capsule) free(known);
    return capsule;
}

/* The known replay of an argument; NULL if it is None, or with an exception if it is something else. */
Known *known_of(PyObject *object) { return object == Py_None ? NULL : PyCapsule_GetPointer(object, NAME); }
