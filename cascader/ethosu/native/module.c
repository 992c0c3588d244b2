/* The compiled core of cascader.ethosu: what the cost model of the search asks for again and again. */

#include "blockdep.h"
#include "coupling.h"
#include "estimate.h"
#include "flow.h"
#include "issue.h"
#include "kernel.h"

static PyMethodDef METHODS[] = {
    {"kernel_load", (PyCFunction)(void (*)(void))kernel_load, METH_FASTCALL, "What block work asks of the units."},
    {"kernel_flow", (PyCFunction)(void (*)(void))kernel_flow, METH_FASTCALL, "Some blocks of a load through the units."},
    {"estimates", (PyCFunction)(void (*)(void))estimates, METH_FASTCALL, "Cycles of a kernel in each of some blocks."},
    {"kernel_estimates", (PyCFunction)(void (*)(void))kernel_estimates, METH_FASTCALL, "A kernel's estimates in its fastest blocks."},
    {"coupling", (PyCFunction)(void (*)(void))coupling, METH_FASTCALL, "What two kernels share in any of their blocks."},
    {"blockdep_distance", (PyCFunction)(void (*)(void))blockdep_distance, METH_FASTCALL, "Blocks between a writer and its reader."},
    {"number_add", (PyCFunction)(void (*)(void))number_add, METH_FASTCALL, "Keep the number of a key."},
    {"issue", (PyCFunction)(void (*)(void))issue, METH_FASTCALL, "The operations of a draft as the compiled replay takes them."},
    {"pairs", (PyCFunction)(void (*)(void))pairs, METH_FASTCALL, "The numbers of kernels in a row."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "cascader.ethosu._native", NULL, -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void) { return core_module(&MODULE); }
