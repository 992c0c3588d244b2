#ifndef WORDS_H
#define WORDS_H

#include "flat.h"

PyObject *changed_words(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
