/* Tables of numbers by keys: open addressing over an array of integers that its owner keeps, as cascader/ethosu/judge/numbers.py has it. */
#ifndef NUMBERS_H
#define NUMBERS_H

#include "flat.h"

/* A line is a number, or -1 where there is none, and then a key of `width` integers; lines are a power of two. */
typedef struct {
    i64 *at;
    i64 lines, width;
} Numbers;

Numbers numbers_of(const Flat *flat, i64 width);

/* The number of a key; -1 if it has none. */
i64 number_of(const Numbers *numbers, const i64 *key);

PyObject *number_add(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
