/* The work of the OFM blocks of a kernel operation: npu_model/cost/block_jobs.py says what each part of it means. */
#ifndef BLOCK_WORK_H
#define BLOCK_WORK_H

#include "flat.h"

PyObject *block_work(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
