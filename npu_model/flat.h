/* Shared by the compiled cores: their version, and flat arrays (contiguous buffers of 64-bit integers, and bytes objects of them as results). */
#ifndef FLAT_H
#define FLAT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t i64;

typedef struct {
    Py_buffer view;
    i64 *at;
    Py_ssize_t length;
} Flat;

static inline int flat_get(PyObject *object, Flat *flat, int writable)
{
    if (PyObject_GetBuffer(object, &flat->view, writable ? PyBUF_CONTIG : PyBUF_CONTIG_RO) < 0) return -1;
    if (flat->view.itemsize != 8) {
        PyBuffer_Release(&flat->view);
        PyErr_SetString(PyExc_TypeError, "an array of 64-bit integers is needed");
        return -1;
    }
    flat->at = (i64 *)flat->view.buf;
    flat->length = flat->view.len / 8;
    return 0;
}

/* A buffer of bytes. */
static inline int bytes_get(PyObject *object, Flat *flat)
{
    if (PyObject_GetBuffer(object, &flat->view, PyBUF_SIMPLE) < 0) return -1;
    flat->length = flat->view.len;
    return 0;
}

static inline void flat_release(Flat *flats, int count)
{
    while (count--) PyBuffer_Release(&flats[count].view);
}

/* Borrow `count` arrays, those from `outputs` on to write to. Returns 0, or -1 with an exception set and nothing borrowed. */
static inline int flat_all(PyObject *const *arguments, Flat *flats, int count, int outputs)
{
    for (int i = 0; i < count; i++)
        if (flat_get(arguments[i], &flats[i], i >= outputs) < 0) {
            flat_release(flats, i);
            return -1;
        }
    return 0;
}

/* Whether an array has at least so many integers; else an exception is set. */
static inline int flat_has(const Flat *flat, Py_ssize_t least)
{
    if (flat->length >= least) return 1;
    PyErr_Format(PyExc_ValueError, "an array of %zd integers was given where %zd or more are needed", flat->length, least);
    return 0;
}

/* Whether `count` integers, each `stride` behind the one before, are from `low` on and below `high`. */
static inline int are_within(const i64 *at, i64 count, i64 stride, i64 low, i64 high)
{
    int fits = 1;
    for (i64 i = 0; i < count; i++, at += stride) fits &= (*at >= low) & (*at < high);
    return fits;
}

/* A growing array of integers; `failed` once memory ran out, which is looked at in the end. */
typedef struct {
    i64 *at;
    size_t length, room;
    int failed;
} Growing;

static inline void growing_push(Growing *grown, i64 value)
{
    if (grown->length == grown->room) {
        size_t room = grown->room ? grown->room * 2 : 256;
        i64 *moved = realloc(grown->at, room * sizeof(i64));
        if (!moved) {
            grown->failed = 1;
            return;
        }
        grown->at = moved;
        grown->room = room;
    }
    grown->at[grown->length++] = value;
}

/* The integers as a bytes object; the array is freed. */
static inline PyObject *growing_bytes(Growing *grown)
{
    PyObject *bytes = grown->failed ? PyErr_NoMemory()
                                    : PyBytes_FromStringAndSize((const char *)grown->at, (Py_ssize_t)(grown->length * sizeof(i64)));
    free(grown->at);
    return bytes;
}

/* Division rounded down and up, as Python's; the divisor is positive. */
static inline i64 div_down(i64 a, i64 b) { return a / b - (a % b < 0); }
static inline i64 div_up(i64 a, i64 b) { return a / b + (a % b > 0); }
static inline i64 least(i64 a, i64 b) { return a < b ? a : b; }
static inline i64 most(i64 a, i64 b) { return a > b ? a : b; }

/* Version of the compiled cores, which npu_model/native.py expects: raise both with every change of what Python and C hand to each other. */
#define CORE_VERSION 59

/* The module of a compiled core, which says its version. */
static inline PyObject *core_module(PyModuleDef *definition)
{
    PyObject *module = PyModule_Create(definition);
    if (module && PyModule_AddIntConstant(module, "VERSION", CORE_VERSION) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}

#endif
