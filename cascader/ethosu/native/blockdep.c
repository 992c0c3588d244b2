/* The distance between writer and reader as cascader/ethosu/cost/blockdep.py counts it: that is the specification. */

#include "blockdep.h"

enum { MOST = 3, BRICK_CHANNELS = 16 };

#define LARGEST ((i64)1 << 20)

typedef struct {
    i64 height, width, depth, bricks, size, stride_y, stride_x, stride_c, height0, height1, width0, bases[4];
} Map;

typedef struct {
    i64 height, width, depth;
} Shape;

typedef struct {
    Map written;
    Map read;
    Shape ofm;
    i64 stride_y, stride_x, dilated_height, dilated_width, top, left, upscaled, equal_depth, step;
    Shape before, block;
} Pair;

typedef struct {
    i64 y0, y1, x0, x1, c0, c1;
} Area;

/* Byte ranges that enclose an area, and what encloses them all. */
typedef struct {
    i64 *at, count, low, high;
} Rows;

static Area block_area(const Shape *shape, const Shape *block, i64 index)
{
    i64 columns = div_up(shape->width, block->width), depths = div_up(shape->depth, block->depth);
    i64 y = index / (columns * depths) * block->height, x = index / depths % columns * block->width, c = index % depths * block->depth;
    return (Area){y, least(y + block->height, shape->height), x, least(x + block->width, shape->width), c, least(c + block->depth, shape->depth)};
}

static i64 block_count(const Shape *shape, const Shape *block)
{
    return div_up(shape->height, block->height) * div_up(shape->width, block->width) * div_up(shape->depth, block->depth);
}

static i64 address(const Map *map, i64 y, i64 x, i64 c)
{
    int right = x >= map->width0;
    i64 height = right ? map->height1 : map->height0;
    int below = y >= height;
    i64 at = map->bases[right + 2 * below] + (below ? y - height : y) * map->stride_y;
    x -= right ? map->width0 : 0;
    if (!map->bricks) return at + x * map->stride_x + c * map->size;
    return at + x * BRICK_CHANNELS * map->size + c / BRICK_CHANNELS * map->stride_c + c % BRICK_CHANNELS * map->size;
}

static void add_row(Rows *rows, const Map *map, i64 y, i64 x0, i64 x1, i64 c0, i64 c1)
{
    if (x0 >= x1 || c0 >= c1) return;
    i64 ends[4] = {address(map, y, x0, c0), address(map, y, x0, c1 - 1), address(map, y, x1 - 1, c0), address(map, y, x1 - 1, c1 - 1)};
    i64 low = ends[0], high = ends[0];
    for (int i = 1; i < 4; i++) {
        low = least(low, ends[i]);
        high = most(high, ends[i]);
    }
    high += map->size;
    rows->low = rows->count ? least(rows->low, low) : low;
    rows->high = rows->count ? most(rows->high, high) : high;
    rows->at[2 * rows->count] = low;
    rows->at[2 * rows->count++ + 1] = high;
}

static int make_rows(Rows *rows, const Map *map, Area area)
{
    *rows = (Rows){malloc(sizeof(i64) * 4 * (size_t)(most(0, area.y1 - area.y0) + 1)), 0, 0, 0};
    if (!rows->at) return -1;
    for (i64 y = area.y0; y < area.y1; y++) {
        add_row(rows, map, y, area.x0, least(area.x1, map->width0), area.c0, area.c1);
        add_row(rows, map, y, most(area.x0, map->width0), area.x1, area.c0, area.c1);
    }
    return 0;
}

static int intersect(const Rows *a, const Rows *b)
{
    if (!a->count || !b->count || a->high <= b->low || b->high <= a->low) return 0;
    for (i64 i = 0; i < a->count; i++) {
        i64 low = a->at[2 * i], high = a->at[2 * i + 1];
        if (high <= b->low || b->high <= low) continue;
        for (i64 j = 0; j < b->count; j++)
            if (low < b->at[2 * j + 1] && b->at[2 * j] < high) return 1;
    }
    return 0;
}

static void span(i64 first, i64 last, i64 stride, i64 dilated, i64 pad, i64 limit, i64 upscaled, i64 *start, i64 *end)
{
    *start = first * stride - pad;
    *end = (last - 1) * stride + dilated - pad;
    if (upscaled) {
        *start = div_down(*start, 2);
        *end = div_up(*end, 2);
    }
    *start = most(*start, 0);
    *end = most(least(*end, limit), 0);
}

/* Find the box that the kernel's job of a number reads; return 0 if it has fewer jobs. */
static int job_area(const Pair *p, i64 number, Area *area)
{
    i64 jobs = p->equal_depth ? 1 : div_up(p->read.depth, p->step), index = number / jobs, c = number % jobs * p->step;
    if (index >= block_count(&p->ofm, &p->block)) return 0;
    Area block = block_area(&p->ofm, &p->block, index);
    span(block.y0, block.y1, p->stride_y, p->dilated_height, p->top, p->read.height, p->upscaled, &area->y0, &area->y1);
    span(block.x0, block.x1, p->stride_x, p->dilated_width, p->left, p->read.width, p->upscaled, &area->x0, &area->x1);
    area->c0 = p->equal_depth ? block.c0 : c;
    area->c1 = least(p->equal_depth ? block.c1 : c + p->step, p->read.depth);
    return 1;
}

static i64 distance(const Pair *p)
{
    const Shape shape = {p->written.height, p->written.width, p->written.depth};
    i64 blocks = block_count(&shape, &p->before), known = least(blocks, MOST), found = MOST;
    Rows written[MOST] = {{0}};
    for (i64 i = 0; i < known; i++)
        if (make_rows(&written[i], &p->written, block_area(&shape, &p->before, blocks - 1 - i)) < 0) found = -1;
    Area area;
    for (i64 elapsed = 0; elapsed < MOST && found >= 0 && job_area(p, elapsed, &area); elapsed++) {
        Rows read;
        i64 outstanding = 0;
        if (make_rows(&read, &p->read, area) < 0) {
            found = -1;
            break;
        }
        while (outstanding < known && !intersect(&read, &written[outstanding])) outstanding++;
        found = least(found, elapsed + outstanding);
        free(read.at);
    }
    for (i64 i = 0; i < known; i++) free(written[i].at);
    return found;
}

int is_pair(const Flat *flat)
{
    const Pair *p = (const Pair *)flat->view.buf;
    if (flat->length * 8 != (Py_ssize_t)sizeof(Pair)) return 0;
    return p->step > 0 && are_within(&p->before.height, 3, 1, 1, INT64_MAX) && are_within(&p->block.height, 3, 1, 1, INT64_MAX) &&
           are_within(&p->written.height, 3, 1, 1, LARGEST) && are_within(&p->read.height, 3, 1, 1, LARGEST) &&
           are_within(&p->ofm.height, 3, 1, 1, LARGEST);
}

i64 blocks_between(const i64 *flat, const i64 *before, const i64 *block)
{
    Pair pair;
    memcpy(&pair, flat, sizeof pair);
    pair.before = (Shape){before[0], before[1], before[2]};
    pair.block = (Shape){block[0], block[1], block[2]};
    return distance(&pair);
}

PyObject *blockdep_distance(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Flat flat;
    (void)module;
    if (count != 1) {
        PyErr_SetString(PyExc_TypeError, "a pair of kernels is needed");
        return NULL;
    }
    if (flat_all(arguments, &flat, 1, 1) < 0) return NULL;
    if (!is_pair(&flat)) {
        flat_release(&flat, 1);
        PyErr_SetString(PyExc_ValueError, "this is no pair of kernels");
        return NULL;
    }
    i64 found = distance((const Pair *)flat.view.buf);
    flat_release(&flat, 1);
    return found < 0 ? PyErr_NoMemory() : PyLong_FromLongLong(found);
}
