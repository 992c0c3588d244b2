/* The compiled core of the cascader as a Python module. */
#include "core.h"

#define FUNCTION(name) {#name, (PyCFunction)(void (*)(void))native_##name, METH_FASTCALL, NULL}

static PyMethodDef functions[] = {
    FUNCTION(depth_first), FUNCTION(distances), FUNCTION(buffers), FUNCTION(group_bytes), FUNCTION(allocate),
    FUNCTION(placements), FUNCTION(joined), FUNCTION(copies), FUNCTION(propose), FUNCTION(plans), FUNCTION(trial), {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void) { return core_module(&definition); }
