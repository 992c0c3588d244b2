/* The compiled core of npu_model: what hot loops of the cost model ask for. */

#include "block_work.h"

static PyMethodDef METHODS[] = {
    {"block_work", (PyCFunction)(void (*)(void))block_work, METH_FASTCALL, "The work of the OFM blocks of a flat operation."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "npu_model._native", NULL, -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void) { return PyModule_Create(&MODULE); }
