/* Jobs and constants of groups one after the other: Placer.joined_in_python of cascader/search/builder.py in C. */
#include "core.h"

/* The numbers of a group, and of all groups: the numbers of jobs and of constants, of each job its part, kind and pair, and the lines of the
   constants. */
enum { JOBS, LINES, HEAD };
enum { LINE_FIRST = 3, LINE_LAST, LINE_EARLIEST, LINE_FIELDS };

static int is_group(const Flat *group)
{
    if (group->length < HEAD || group->at[JOBS] < 1 || group->at[LINES] < 0) return 0;
    return group->length == HEAD + 3 * group->at[JOBS] + LINE_FIELDS * group->at[LINES];
}

static void join(i64 *all, const Flat *groups, Py_ssize_t count, const Flat *borders, const Flat *segments)
{
    i64 jobs = all[JOBS], at = 0, begin = 0, *lines = all + HEAD + 3 * jobs;
    for (Py_ssize_t g = 0; g < count; g++) {
        i64 own = groups[g].at[JOBS];
        const i64 *source = groups[g].at + HEAD;
        for (int column = 0; column < 3; column++) memcpy(all + HEAD + column * jobs + at, source + column * own, (size_t)own * sizeof(i64));
        if (g && borders->length) all[HEAD + 2 * jobs + at] = borders->at[g - 1];
        /* No copy is issued before the first job of its segment; where segments are left out, not before that of its group. */
        if (!g || !segments->length || segments->at[g] != segments->at[g - 1]) begin = at;
        source += 3 * own;
        for (i64 line = 0; line < groups[g].at[LINES]; line++, source += LINE_FIELDS, lines += LINE_FIELDS) {
            memcpy(lines, source, LINE_FIELDS * sizeof(i64));
            lines[LINE_FIRST] += at;
            lines[LINE_LAST] += at;
            lines[LINE_EARLIEST] += begin;
        }
        at += own;
    }
}

/* joined(groups, borders, segments): the pair of the first job of each group with the job before it, but for the first group; the segment of
   each group. Either may be empty. */
PyObject *native_joined(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Flat f[2];
    Py_ssize_t there = 0;
    PyObject *bytes = NULL;
    (void)module;
    if (count != 3 || !PyList_Check(arguments[0])) return PyErr_Format(PyExc_TypeError, "joined takes a list of groups, borders and segments");
    count = PyList_Size(arguments[0]);
    if (flat_all(arguments + 1, f, 2, 2) < 0) return NULL;
    Flat *groups = calloc((size_t)count + 1, sizeof(Flat));
    i64 jobs = 0, lines = 0;
    if (!groups) {
        PyErr_NoMemory();
        goto end;
    }
    for (; there < count; there++) {
        if (flat_get(PyList_GetItem(arguments[0], there), &groups[there], 0) < 0) goto end;
        if (!is_group(&groups[there])) {
            there++;
            PyErr_SetString(PyExc_ValueError, "this is no group");
            goto end;
        }
        jobs += groups[there].at[JOBS];
        lines += groups[there].at[LINES];
    }
    if ((f[0].length && f[0].length != count - 1) || (f[1].length && f[1].length != count)) {
        PyErr_SetString(PyExc_ValueError, "borders and segments are those of other groups");
        goto end;
    }
    bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)((HEAD + 3 * jobs + LINE_FIELDS * lines) * (i64)sizeof(i64)));
    if (bytes) {
        i64 *all = (i64 *)PyBytes_AsString(bytes);
        all[JOBS] = jobs;
        all[LINES] = lines;
        join(all, groups, count, &f[0], &f[1]);
    }
end:
    flat_release(groups, (int)there);
    free(groups);
    flat_release(f, 2);
    return bytes;
}
