/* Jobs and constants of groups one after the other: Placer.joined_in_python of cascader/search/builder.py in C. */
#include "core.h"

static int is_group(const Flat *group)
{
    if (group->length < GROUP_HEAD || group->at[GROUP_JOBS] < 1 || group->at[GROUP_LINES] < 0) return 0;
    return group->length == GROUP_HEAD + GROUP_ALL_COLUMNS * group->at[GROUP_JOBS] + LINE_FIELDS * group->at[GROUP_LINES];
}

void groups_release(Groups *groups)
{
    flat_release(groups->at, (int)groups->taken);
    free(groups->at);
}

int groups_get(PyObject *list, Groups *groups)
{
    memset(groups, 0, sizeof *groups);
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "groups are a list of arrays");
        return -1;
    }
    groups->count = PyList_Size(list);
    groups->at = calloc((size_t)groups->count + 1, sizeof(Flat));
    if (!groups->at) {
        PyErr_NoMemory();
        return -1;
    }
    while (groups->taken < groups->count) {
        Flat *group = &groups->at[groups->taken];
        if (flat_get(PyList_GetItem(list, groups->taken), group, 0) < 0) return -1;
        groups->taken++;
        if (!is_group(group)) {
            PyErr_SetString(PyExc_ValueError, "this is no group");
            return -1;
        }
        groups->jobs += group->at[GROUP_JOBS];
        groups->lines += group->at[GROUP_LINES];
    }
    return 0;
}

int are_beside(const Groups *groups, const Flat *borders, const Flat *segments)
{
    if ((!borders->length || borders->length == groups->count - 1) && (!segments->length || segments->length == groups->count)) return 1;
    PyErr_SetString(PyExc_ValueError, "borders and segments are those of other groups");
    return 0;
}

void join_groups(const Groups *groups, const Flat *borders, const Flat *segments, i64 *columns, i64 *lines)
{
    i64 at = 0, begin = 0;
    for (Py_ssize_t g = 0; g < groups->count; g++) {
        const Flat *group = &groups->at[g];
        i64 own = group->at[GROUP_JOBS];
        for (int column = 0; column < GROUP_COLUMNS; column++)
            memcpy(columns + column * groups->jobs + at, column_of(group, column), (size_t)own * sizeof(i64));
        if (g && borders->length) columns[GROUP_PAIRS * groups->jobs + at] = borders->at[g - 1];
        /* No copy is issued before the first job of its segment; where segments are left out, not before that of its group. */
        if (!g || !segments->length || segments->at[g] != segments->at[g - 1]) begin = at;
        const i64 *source = column_of(group, GROUP_ALL_COLUMNS);
        for (i64 line = 0; line < group->at[GROUP_LINES]; line++, source += LINE_FIELDS, lines += LINE_FIELDS) {
            memcpy(lines, source, LINE_FIELDS * sizeof(i64));
            lines[LINE_FIRST] += at;
            lines[LINE_LAST] += at;
            lines[LINE_EARLIEST] += begin;
        }
        at += own;
    }
}

/* joined(groups, borders, segments): the pair of the first job of each group with the job before it, but for the first group; the segment of
   each group. Either may be empty. -> [jobs, constants], parts, kinds and pairs of the jobs, and the lines of the constants. */
PyObject *native_joined(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Flat f[2];
    Groups groups;
    PyObject *bytes = NULL;
    (void)module;
    if (count != 3) return PyErr_Format(PyExc_TypeError, "joined takes a list of groups, borders and segments");
    if (flat_all(arguments + 1, f, 2, 2) < 0) return NULL;
    if (groups_get(arguments[0], &groups) == 0 && are_beside(&groups, &f[0], &f[1])) {
        i64 numbers = 2 + GROUP_COLUMNS * groups.jobs + LINE_FIELDS * groups.lines;
        bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(numbers * (i64)sizeof(i64)));
        if (bytes) {
            i64 *all = (i64 *)PyBytes_AsString(bytes);
            all[0] = groups.jobs;
            all[1] = groups.lines;
            join_groups(&groups, &f[0], &f[1], all + 2, all + 2 + GROUP_COLUMNS * groups.jobs);
        }
    }
    groups_release(&groups);
    flat_release(f, 2);
    return bytes;
}
