/* A row graph as one flat array, laid out by cascader.graph.flat_graph, and the maps of rows that cascader.graph.row_graph defines. */
#ifndef GRAPH_H
#define GRAPH_H

#include "flat.h"

enum { PART_ROWS, PART_ALIGN, PART_ATOMIC, PART_IN_PLACE, PART_SEGMENT, PART_PHASE, PART_MOST_ROWS, PART_NEEDED, PART_FIELDS };
enum { IN_TENSOR, IN_ROWS, IN_STRIDE, IN_TAPS, IN_PAD, IN_UPSCALE, IN_WHOLE, IN_VIEW, IN_OFFSET, IN_STEP, IN_REACH, IN_UNIT, IN_FIELDS };
enum { OUT_TENSOR, OUT_VIEW, OUT_OFFSET, OUT_STEP, OUT_REACH, OUT_UNIT, OUT_FIELDS };
enum { TENSOR_PRESENT, TENSOR_KEPT, TENSOR_ROWS, TENSOR_ROW_BYTES, TENSOR_ROLL, TENSOR_FIELDS };

/* Sections of the array, in their order. The `*_of` give where the items of a part or tensor begin, with one entry more. */
typedef struct {
    const i64 *sizes, *parts, *inputs_of, *inputs, *outputs_of, *outputs, *after_of, *after, *readers_of, *readers, *writers_of, *writers, *tensors;
} Graph;

#define SECTIONS 13

static inline int graph_get(const Flat *flat, Graph *graph)
{
    const i64 **sections = (const i64 **)graph;
    i64 is_ours = flat->length > SECTIONS && flat->at[0] == SECTIONS;
    for (int i = 0; i < SECTIONS && is_ours; i++) {
        i64 next = i + 1 < SECTIONS ? flat->at[i + 1] : flat->length;
        is_ours = flat->at[i] <= next && next <= flat->length;
        sections[i] = flat->at + flat->at[i];
    }
    is_ours = is_ours && flat->at[1] - flat->at[0] == 2;
    for (int i = 0; i < 2 && is_ours; i++) is_ours = graph->sizes[i] >= 0 && graph->sizes[i] <= flat->length;
    /* Sections are as long as the numbers of parts and tensors say; the items of the others are the Python form's. */
    is_ours = is_ours && flat->at[2] - flat->at[1] == graph->sizes[0] * PART_FIELDS && flat->length - flat->at[12] == graph->sizes[1] * TENSOR_FIELDS;
    for (int i = 2; i < 12 && is_ours; i += 2) {
        i64 count = flat->at[i + 1] - flat->at[i];
        is_ours = count == 1 + graph->sizes[i < 8 ? 0 : 1];
    }
    if (is_ours) return 0;
    PyErr_SetString(PyExc_ValueError, "this is no flat graph: it has 13 sections, those of the parts and of the tensors as long as there are of them");
    return -1;
}

/* Whether the rows of three integers are jobs of parts of the graph; else an exception is set. */
static inline int jobs_fit(const Graph *graph, const Flat *jobs)
{
    int fits = jobs->length % 3 == 0;
    for (Py_ssize_t i = 0; i < jobs->length && fits; i += 3) fits = jobs->at[i] >= 0 && jobs->at[i] < graph->sizes[0];
    if (!fits) PyErr_SetString(PyExc_ValueError, "jobs are three integers each, of a part of the graph");
    return fits;
}

/* Whether `first` to `last` are parts of the graph; else an exception is set. */
static inline int parts_fit(const Graph *graph, i64 first, i64 last)
{
    if (0 <= first && first <= last && last < graph->sizes[0]) return 1;
    PyErr_SetString(PyExc_ValueError, "the group has parts that the graph has not");
    return 0;
}

static inline i64 part_count(const Graph *g) { return g->sizes[0]; }
static inline i64 tensor_count(const Graph *g) { return g->sizes[1]; }
static inline const i64 *part_at(const Graph *g, i64 part) { return g->parts + part * PART_FIELDS; }
static inline const i64 *tensor_at(const Graph *g, i64 tensor) { return g->tensors + tensor * TENSOR_FIELDS; }

typedef struct {
    i64 low, high;
} Rows;

/* RowMap.span: `at` points at the offset of a view. */
static inline Rows map_span(const i64 *at, i64 first, i64 last)
{
    i64 begin = at[0] + first * at[1];
    Rows rows = {div_down(begin, at[3]), div_down(begin, at[3])};
    if (last > first) rows.high = div_up(at[0] + (last - 1) * at[1] + at[2], at[3]);
    return rows;
}

/* RowMap.until */
static inline i64 map_until(const i64 *at, i64 end, i64 rows)
{
    i64 beyond = end * at[3] - at[0];
    if (beyond <= 0) return 0;
    return at[1] ? least(rows, div_up(beyond, at[1])) : rows;
}

/* RowPropagator.demand */
static inline Rows demand(const i64 *in, i64 first, i64 last)
{
    Rows rows = {0, in[IN_ROWS]};
    if (!in[IN_WHOLE]) {
        rows.low = most(0, div_down(first * in[IN_STRIDE] - in[IN_PAD], in[IN_UPSCALE]));
        rows.high = least(in[IN_ROWS], div_up((last - 1) * in[IN_STRIDE] - in[IN_PAD] + in[IN_TAPS], in[IN_UPSCALE]));
    }
    return in[IN_VIEW] ? map_span(in + IN_OFFSET, rows.low, rows.high) : rows;
}

/* RowPart.written */
static inline Rows written(const Graph *g, i64 part, const i64 *out, i64 start, i64 end)
{
    Rows rows = {start, end};
    if (out[OUT_VIEW]) return map_span(out + OUT_OFFSET, start, end);
    if (part_at(g, part)[PART_ATOMIC]) rows.low = 0, rows.high = tensor_at(g, out[OUT_TENSOR])[TENSOR_ROWS];
    return rows;
}

/* RowPart.rows_until */
static inline i64 rows_until(const Graph *g, i64 part, const i64 *out, i64 end)
{
    const i64 *facts = part_at(g, part);
    if (out[OUT_VIEW]) return map_until(out + OUT_OFFSET, end, facts[PART_ROWS]);
    return most(0, least(facts[PART_ROWS], facts[PART_ATOMIC] && end > 0 ? 1 : end));
}

/* RowPart.border_from and border_until */
static inline i64 border_from(const i64 *part, i64 row)
{
    return row > 0 ? part[PART_PHASE] + div_up(row - part[PART_PHASE], part[PART_ALIGN]) * part[PART_ALIGN] : 0;
}

static inline i64 border_until(const i64 *part, i64 row)
{
    return row >= part[PART_PHASE] ? part[PART_PHASE] + (row - part[PART_PHASE]) / part[PART_ALIGN] * part[PART_ALIGN] : 0;
}

#endif
