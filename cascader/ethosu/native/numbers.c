/* Numbers by keys: cascader/ethosu/judge/numbers.py. */

#include "numbers.h"

Numbers numbers_of(const Flat *flat, i64 width) { return (Numbers){flat->at, flat->length / (width + 1), width}; }

/* The line of a key, or the empty one where it belongs. There is always one: at most half of the lines are taken. */
static i64 *line_of(const Numbers *numbers, const i64 *key)
{
    uint64_t hash = 0;
    for (i64 i = 0; i < numbers->width; i++) {
        hash = (hash ^ (uint64_t)key[i]) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    for (i64 at = (i64)(hash & (uint64_t)(numbers->lines - 1));; at = (at + 1) & (numbers->lines - 1)) {
        i64 *line = numbers->at + at * (numbers->width + 1);
        if (line[0] < 0 || !memcmp(line + 1, key, (size_t)numbers->width * sizeof(i64))) return line;
    }
}

i64 number_of(const Numbers *numbers, const i64 *key) { return line_of(numbers, key)[0]; }

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
    i64 *line = line_of(&numbers, key.at);
    line[0] = number;
    memcpy(line + 1, key.at, (size_t)key.length * sizeof(i64));
    flat_release(&key, 1);
    flat_release(&table, 1);
    Py_RETURN_NONE;
}
