/* The compiled core of npu_model: what hot loops of the cost model ask for. */

#include "block_work.h"
#include "encode.h"
#include "shram.h"
#include "weights.h"

static PyMethodDef METHODS[] = {
    {"block_work", (PyCFunction)(void (*)(void))block_work, METH_FASTCALL, "The work of the OFM blocks of a flat operation."},
    {"decode_plain", (PyCFunction)(void (*)(void))decode_plain, METH_FASTCALL, "The weights of a stream in plain order, or None."},
    {"decode_weights", (PyCFunction)(void (*)(void))decode_weights, METH_FASTCALL, "The weights of a stream, or None if it is damaged."},
    {"decoder_work", (PyCFunction)(void (*)(void))decoder_work, METH_FASTCALL, "Bits and turns of a stream's parts; whether it is whole."},
    {"encode_weights", (PyCFunction)(void (*)(void))encode_weights, METH_FASTCALL, "The stream of weights in the order of a format."},
    {"shram_fitting", (PyCFunction)(void (*)(void))shram_fitting, METH_FASTCALL, "The first blocks that fit into the shared buffer."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "npu_model._native", NULL, -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void) { return core_module(&MODULE); }
