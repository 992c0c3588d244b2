/* From a flat draft to the operations that the compiled replay takes: cascader/ethosu/judge/tables.py. */
#ifndef ISSUE_H
#define ISSUE_H

#include "numbers.h"

PyObject *issue(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *pairs(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
