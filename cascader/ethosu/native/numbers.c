/* Numbers by keys: cascader/ethosu/judge/numbers.py. */

#include "numbers.h"

Numbers numbers_of(const Flat *flat, i64 width) { return (Numbers){flat->at, flat->length / (width + 1), width}; }

/* The line of a key, or the empty one where it belongs; NULL in a full table. Whoever adds keeps at least half of the lines empty. */
static i64 *line_of(const Numbers *numbers, const i64 *key)
{
    uint64_t hash = 0;
    for (i64 i = 0; i < numbers->width; i++) {
        hash = (hash ^ (uint64_t)key[i]) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    i64 at = (i64)(hash & (uint64_t)(numbers->lines - 1));
    for (i64 tried = 0; tried < numbers->lines; tried++, at = (at + 1) & (numbers->lines - 1)) {
        i64 *line = numbers->at + at * (numbers->width + 1);
        if (line[0] < 0 || !memcmp(line + 1, key, (size_t)numbers->width * sizeof(i64))) return line;
    }
    return NULL;
}

i64 number_of(const Numbers *numbers, const i64 *key)
{
    const i64 *line = line_of(numbers, key);
    return line ? line[0] : -1;
}

/* The table, a key and its number, which is put into the table. */
PyObject *number_add(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Flat key, table;
    (void)module;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "a table, a key and a number are needed");
        return NULL;
    }
    i64 number = PyLong_AsLongLong(arguments[2]);
    if (PyErr_Occurred() || flat_get(arguments[1], &key, 0) < 0) return NULL;
    if (flat_get(arguments[0], &table, 1) < 0) {
        flat_release(&key, 1);
        return NULL;
    }
    Numbers numbers = numbers_of(&table, key.length);
    int is_power = numbers.lines > 0 && !(numbers.lines & (numbers.lines - 1));
    i64 *line = is_power ? line_of(&numbers, key.at) : NULL;
    if (line) {
        line[0] = number;
        memcpy(line + 1, key.at, (size_t)key.length * sizeof(i64));
    }
    flat_release(&key, 1);
    flat_release(&table, 1);
    if (!line) {
        PyErr_SetString(PyExc_ValueError, "a table of a power of two lines is needed, of which some are empty");
        return NULL;
    }
    Py_RETURN_NONE;
}
