/* The words of npu_model/command_stream/counted.py: registers that operations SET one after the other. */

#include "words.h"

enum { PAYLOAD = 1 << 14, OPCODES = 1 << 10 };

/* A list of arrays of numbers of registers and the values asked for, one array for each operation: the words of what each SETs, as bytes. */
PyObject *changed_words(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    i64 values[2 * OPCODES];
    char is_set[2 * OPCODES];
    (void)module;
    if (count != 1 || !PyList_Check(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "a list of arrays is needed");
        return NULL;
    }
    Py_ssize_t operations = PyList_Size(arguments[0]);
    i64 *words = calloc((size_t)operations + 1, sizeof(i64));
    if (!words) return PyErr_NoMemory();
    memset(is_set, 0, sizeof is_set);
    for (Py_ssize_t i = 0; i < operations; i++) {
        Flat asked;
        PyObject *item = PyList_GetItem(arguments[0], i);
        if (!item || flat_get(item, &asked, 0) < 0) {
            free(words);
            return NULL;
        }
        for (Py_ssize_t at = 0; at + 1 < asked.length; at += 2) {
            i64 number = asked.at[at], has_payload = number & PAYLOAD ? 1 : 0;
            i64 place = (number & (OPCODES - 1)) + has_payload * OPCODES;
            if (is_set[place] && values[place] == asked.at[at + 1]) continue;
            is_set[place] = 1;
            values[place] = asked.at[at + 1];
            words[i] += 1 + has_payload;
        }
        PyBuffer_Release(&asked.view);
    }
    PyObject *found = PyBytes_FromStringAndSize((const char *)words, operations * (Py_ssize_t)sizeof(i64));
    free(words);
    return found;
}
