/* The work of the OFM blocks of a kernel operation: npu_model/cost/block_jobs.py says what each part of it means. */
#ifndef BLOCK_WORK_H
#define BLOCK_WORK_H

#include "flat.h"

/* The work of an operation's blocks behind `out`, which is empty. Returns 0, or -1 with an exception set. */
int work_of_blocks(const Flat *operation, const Flat *decoding, Growing *out);

PyObject *block_work(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
