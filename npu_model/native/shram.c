/* Partitions of the shared buffer as npu_model/cost/shram.py finds them: that is the specification, with sources. */

#include "shram.h"

enum { BANK = 1024, ROW = 8, MOST_TAPS = 8 };

typedef struct {
    i64 is_elementwise, is_unary, is_scalar, bits, upscale, depth, flat_rows, accumulator_bits;
    i64 stride_y, stride_x, dilated_height, dilated_width;
    i64 ublock_height, ublock_width, ublock_depth, most_height, most_width, most_depth;
    i64 ifm_granule, accumulator_granule, lut_start, output_banks;
} Query;

static i64 rounded(i64 value, i64 step) { return div_up(value, step) * step; }

static i64 ifm_side(i64 side, i64 stride, i64 dilated, i64 upscale, i64 ublock)
{
    i64 needed = (side - 1) * stride + least(dilated, MOST_TAPS);
    if (upscale) needed = div_up(needed + (upscale == 1), 2);
    return rounded(needed, ublock);
}

static i64 banks(i64 size, i64 granule) { return rounded(2 * div_up(size, BANK), granule); }

static void partition(const Query *q, const i64 *block, i64 *out)
{
    out[0] = -1;
    if (block[0] < 1 || block[0] > q->most_height || block[0] % q->ublock_height || block[1] < 1 || block[1] > q->most_width ||
        block[1] % q->ublock_width || block[2] < 1 || block[2] > q->most_depth || block[2] % q->ublock_depth)
        return;
    i64 height = ifm_side(block[0], q->stride_y, q->dilated_height, q->upscale, q->ublock_height);
    i64 width = ifm_side(block[1], q->stride_x, q->dilated_width, q->upscale, q->ublock_width);
    i64 row = rounded((q->depth ? q->depth : block[2]) * q->bits / 8, ROW);
    i64 input = banks(height * width * row, q->ifm_granule), end = q->output_banks + input;
    if (q->is_elementwise) {
        if (end + (q->is_scalar ? 0 : input) > q->lut_start) return;
        out[0] = out[1] = q->lut_start;
        out[2] = q->is_unary ? 0 : end;
        return;
    }
    i64 rows = q->flat_rows ? 1 : block[0];
    i64 start = q->lut_start - banks(rows * block[1] * rounded(block[2], 8) * q->accumulator_bits / 8, q->accumulator_granule);
    if (end > start) return;
    out[0] = end;
    out[1] = start;
    out[2] = 0;
}

static int is_there(const Growing *found, const i64 *one)
{
    for (size_t at = 0; at < found->length; at += 4)
        if (!memcmp(found->at + at + 1, one, 3 * sizeof(i64))) return 1;
    return 0;
}

int fitting_blocks(const Flat *flat, const i64 *blocks, i64 count, const i64 *how, Growing *found)
{
    const Query *query = (const Query *)flat->view.buf;
    if (flat->length != (Py_ssize_t)(sizeof(Query) / 8) || !are_within(&query->ublock_height, 3, 1, 1, INT64_MAX) ||
        query->ifm_granule < 1 || query->accumulator_granule < 1)
        return -1;
    for (i64 b = 0; b < count && (i64)found->length < 4 * how[0] && !found->failed; b++) {
        i64 one[3];
        partition(query, blocks + 3 * b, one);
        if (one[0] < 0 || (how[1] && is_there(found, one))) continue;
        growing_push(found, b);
        for (int i = 0; i < 3; i++) growing_push(found, one[i]);
    }
    return 0;
}

/* shram_fitting(query, blocks, [count, distinct]) -> number and partition of the first blocks that fit */
PyObject *shram_fitting(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Flat flats[3];
    Growing found = {0};
    (void)module;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "a query, blocks and how many are asked for are needed");
        return NULL;
    }
    if (flat_all(arguments, flats, 3, 3) < 0) return NULL;
    if (flats[1].length % 3 || flats[2].length != 2 || fitting_blocks(&flats[0], flats[1].at, flats[1].length / 3, flats[2].at, &found) < 0) {
        flat_release(flats, 3);
        PyErr_SetString(PyExc_ValueError, "this is no query of blocks");
        return NULL;
    }
    flat_release(flats, 3);
    return growing_bytes(&found);
}
