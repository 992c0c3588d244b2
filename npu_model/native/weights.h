/* Compressed weight streams: npu_model/weight_stream/mlw.py and mlw_work.py say what they hold. */
#ifndef WEIGHTS_H
#define WEIGHTS_H

#include "flat.h"

PyObject *decode_weights(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *decode_plain(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *decoder_work(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
