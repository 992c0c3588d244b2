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

/* Whether the lists of a section, each from one of `begins` to the next one, are those of `length` items. */
static inline int lists_fit(const i64 *begins, i64 lists, i64 length)
{
    int fits = begins[0] == 0 && begins[lists] == length;
    for (i64 i = 0; i < lists; i++) fits &= begins[i] <= begins[i + 1];
    return fits;
}

/* Whether every number of a part or tensor is one that the graph has, and no divisor is 0. The sections are as long as they should be. */
static inline int items_fit(const Flat *flat, const Graph *g)
{
    const i64 parts = g->sizes[0], tensors = g->sizes[1], far = (i64)1 << 40;
    const i64 inputs = (flat->at[4] - flat->at[3]) / IN_FIELDS, outputs = (flat->at[6] - flat->at[5]) / OUT_FIELDS;
    const i64 readers = (flat->at[10] - flat->at[9]) / 2, writers = (flat->at[12] - flat->at[11]) / 2, after = flat->at[8] - flat->at[7];
    int fits = lists_fit(g->inputs_of, parts, inputs) && lists_fit(g->outputs_of, parts, outputs) && lists_fit(g->after_of, parts, after) &&
               lists_fit(g->readers_of, tensors, readers) && lists_fit(g->writers_of, tensors, writers);
    if (!fits) return 0;
    fits &= are_within(g->parts + PART_ROWS, parts, PART_FIELDS, 0, far) & are_within(g->parts + PART_ALIGN, parts, PART_FIELDS, 1, far);
    fits &= are_within(g->parts + PART_IN_PLACE, parts, PART_FIELDS, -1, tensors);
    fits &= are_within(g->parts + PART_NEEDED, parts, PART_FIELDS, 0, far);
    fits &= are_within(g->inputs + IN_TENSOR, inputs, IN_FIELDS, 0, tensors) & are_within(g->outputs + OUT_TENSOR, outputs, OUT_FIELDS, 0, tensors);
    fits &= are_within(g->inputs + IN_UPSCALE, inputs, IN_FIELDS, 1, far);
    fits &= are_within(g->inputs + IN_UNIT, inputs, IN_FIELDS, 1, far) & are_within(g->outputs + OUT_UNIT, outputs, OUT_FIELDS, 1, far);
    fits &= are_within(g->readers, readers, 2, 0, parts) & are_within(g->readers + 1, readers, 2, 0, inputs);
    fits &= are_within(g->writers, writers, 2, 0, parts) & are_within(g->writers + 1, writers, 2, 0, outputs);
    fits &= are_within(g->tensors + TENSOR_ROLL, tensors, TENSOR_FIELDS, 1, far) & are_within(g->tensors + TENSOR_ROWS, tensors, TENSOR_FIELDS, 0, far);
    for (i64 part = 0; part < parts; part++) {
        i64 begin = g->after_of[part], in_place = g->parts[part * PART_FIELDS + PART_IN_PLACE];
        /* A part waits only for parts of lower numbers, so no part waits for itself. */
        fits &= are_within(g->after + begin, g->after_of[part + 1] - begin, 1, 0, part);
        if (in_place < 0) continue;
        /* The result is stored over one of the part's own operands. */
        int is_read = 0;
        for (i64 i = g->inputs_of[part]; i < g->inputs_of[part + 1]; i++) is_read |= g->inputs[i * IN_FIELDS + IN_TENSOR] == in_place;
        fits &= is_read && g->outputs_of[part] < g->outputs_of[part + 1];
    }
    return fits;
}

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
    /* Sections are as long as the numbers of parts and tensors say; their items are of the parts and tensors that there are. */
    is_ours = is_ours && flat->at[2] - flat->at[1] == graph->sizes[0] * PART_FIELDS && flat->length - flat->at[12] == graph->sizes[1] * TENSOR_FIELDS;
    for (int i = 2; i < 12 && is_ours; i += 2) {
        i64 count = flat->at[i + 1] - flat->at[i];
        is_ours = count == 1 + graph->sizes[i < 8 ? 0 : 1];
    }
    if (is_ours && items_fit(flat, graph)) return 0;
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
