/* The work of the OFM blocks of a kernel operation, as npu_model/cost/block_jobs.py works it out: that is the specification, with reasons.

   The operation comes as npu_model/cost/flat_operation.py writes it, the result is what npu_model/cost/flat_work.py reads. */

#include "block_work.h"

enum { CHANNEL_BRICK = 16, SCALE_RECORD = 10, PHASES = 32, LARGEST = 1 << 20 };

#define MOST_STEPS ((i64)1 << 40)

typedef enum { DEEP, OWN_DEPTH, ELEMENTWISE } Kind;
typedef enum { PACE_NONE, PACE_POOL, PACE_DEPTHWISE, PACE_PART_KERNEL, PACE_DEPTH_FIRST } PaceKind;

typedef struct {
    i64 present, region, height, width, depth, bricks, size, stride_y, stride_x, height0, height1, width0, bases[4];
} Map;

typedef struct {
    i64 region, start, length;
} Range;

typedef struct {
    i64 kind, word, height, width, depth, block_height, block_width, block_depth;
    i64 stride_y, stride_x, dilation_y, dilation_x, top, left, upscaled;
    i64 kernel_height, kernel_width, part_height, part_width, channel_step, kept, aligned;
    i64 rate, rate_divisor, output_start;
    i64 pace, floor, size, passes, pool_floor, delay, pool_half, pool_fill, at_once, ublock_height, ublock_width, ublock_depth;
    i64 decoder, is_known, cores, weights, scales, slot_per_depth, own_channels;
} Header;

typedef struct {
    Header head;
    Map ifm, ifm2, ofm;
    const i64 *weights, *scales;
    /* Bits and turns up to the end of each step, of each core. */
    const i64 *work;
    i64 work_steps;
} Operation;

typedef struct {
    i64 y0, y1, x0, x1, c0, c1;
} Box;

typedef struct {
    i64 y, x, height, width;
} Part;

static int is_empty(Box box) { return box.y1 <= box.y0 || box.x1 <= box.x0 || box.c1 <= box.c0; }

/* ---- Traffic: npu_model/cost/traffic.py. Runs are pairs of how often and how many beats. */

typedef struct {
    Growing *out;
    size_t pairs;
} Runs;

static void add_runs(Runs *runs, i64 times, i64 beats)
{
    Growing *out = runs->out;
    if (times <= 0) return;
    if (runs->pairs && !out->failed && out->at[out->length - 1] == beats) {
        out->at[out->length - 2] += times;
        return;
    }
    growing_push(out, times);
    growing_push(out, beats);
    runs->pairs++;
}

static i64 beats_of(i64 address, i64 length, i64 word) { return div_up(address + length, word) - div_down(address, word); }

static i64 address_of(const Map *map, i64 y, i64 x)
{
    int right = x >= map->width0;
    i64 height = right ? map->height1 : map->height0;
    int below = y >= height;
    i64 step = map->bricks ? CHANNEL_BRICK * map->size : map->stride_x;
    return map->bases[right + 2 * below] + (below ? y - height : y) * map->stride_y + (right ? x - map->width0 : x) * step;
}

static void pixel_runs(Runs *runs, const Map *map, Box box, i64 channels, i64 word)
{
    i64 split = least(most(map->width0, box.x0), box.x1);
    for (i64 y = box.y0; y < box.y1; y++)
        for (i64 x = box.x0; x < box.x1;) {
            i64 end = x < split ? split : box.x1, pixel = address_of(map, y, x);
            for (; x < end; x++, pixel += map->stride_x)
                for (i64 c = box.c0; c < box.c1; c += channels)
                    add_runs(runs, 1, beats_of(pixel + c * map->size, least(channels, box.c1 - c) * map->size, word));
        }
}

/* Runs of at most `piece` channels of a pixel, where pixels do not follow each other without a gap in runs of at most `dense` channels. */
static void map_runs(Runs *runs, const Map *map, Box box, i64 piece, i64 dense, i64 word)
{
    if (is_empty(box)) return;
    if (map->bricks) {
        i64 bricks = div_up(box.c1, CHANNEL_BRICK) - box.c0 / CHANNEL_BRICK;
        add_runs(runs, (box.y1 - box.y0) * bricks, div_up((box.x1 - box.x0) * CHANNEL_BRICK * map->size, word));
    } else if (box.c0 == 0 && (box.c1 - box.c0) * map->size == map->stride_x && box.c1 - box.c0 <= dense) {
        for (i64 y = box.y0; y < box.y1; y++)
            add_runs(runs, 1, beats_of(address_of(map, y, box.x0), (box.x1 - box.x0) * map->stride_x, word));
    } else {
        pixel_runs(runs, map, box, piece, word);
    }
}

static int is_in_one_tile(const Map *map, Box box)
{
    int right = box.x0 >= map->width0;
    i64 height = right ? map->height1 : map->height0;
    return (right || box.x1 <= map->width0) && (box.y1 <= height || box.y0 >= height);
}

/* Two numbers on which the runs of a box depend beside its shape; -1 stands before one that is the place in a word. */
static void placement(const Map *map, Box box, i64 word, i64 *key)
{
    key[0] = key[1] = 0;
    if (map->bricks) return;
    int odd = map->stride_y % word != 0 || map->width0 < map->width;
    for (int i = 0; i < 4; i++) odd |= map->bases[i] % word != 0;
    if (!odd) {
        key[1] = box.x0 * map->stride_x % word;
    } else if (is_in_one_tile(map, box)) {
        i64 address = address_of(map, box.y0, box.x0);
        key[0] = -1;
        key[1] = address - word * div_down(address, word);
    } else {
        key[0] = box.y0;
        key[1] = box.x0;
    }
}

/* ---- Traversal: npu_model/cost/traversal.py. */

static void side(i64 first, i64 last, i64 stride, i64 pad, i64 taps, i64 extent, i64 upscaled, i64 *low, i64 *high)
{
    *low = first * stride - pad;
    *high = (last - 1) * stride - pad + taps;
    if (upscaled) {
        *low = div_down(*low, 2);
        *high = div_up(*high, 2);
    }
    *low = most(0, *low);
    *high = least(extent, *high);
}

static Box ifm_box(const Operation *op, Box ofm, Part part, i64 c0, i64 c1)
{
    const Header *h = &op->head;
    Box box = {0, 0, 0, 0, c0, c1};
    side(ofm.y0, ofm.y1, h->stride_y, h->top - part.y * h->dilation_y, (part.height - 1) * h->dilation_y + 1, op->ifm.height, h->upscaled,
         &box.y0, &box.y1);
    side(ofm.x0, ofm.x1, h->stride_x, h->left - part.x * h->dilation_x, (part.width - 1) * h->dilation_x + 1, op->ifm.width, h->upscaled,
         &box.x0, &box.x1);
    return box;
}

static Box second_box(const Map *map, Box ofm)
{
    Box box = ofm;
    if (map->height == 1) box.y0 = 0, box.y1 = 1;
    if (map->width == 1) box.x0 = 0, box.x1 = 1;
    if (map->depth == 1) box.c0 = 0, box.c1 = 1;
    return box;
}

static Box own_channels(const Operation *op, Box ofm)
{
    ofm.c0 = least(ofm.c0, op->ifm.depth - 1);
    ofm.c1 = least(ofm.c1, op->ifm.depth);
    return ofm;
}

/* ---- Cycles: npu_model/cost/cycles.py. */

static i64 mac_cycles(const Header *h, Box box, i64 taps, i64 channels, i64 decoding)
{
    i64 plane = div_up(box.y1 - box.y0, h->ublock_height) * div_up(box.x1 - box.x0, h->ublock_width);
    i64 depth = div_up(box.c1 - box.c0, h->ublock_depth), per_plane = 4, steps = taps, delay = 0, fill = 0;
    i64 used = (box.c1 - box.c0) % h->ublock_depth;
    switch (h->pace) {
    case PACE_NONE: return decoding;
    case PACE_POOL:
        per_plane = most(h->pool_floor, taps * h->passes), steps = 1, fill = h->pool_fill;
        if (used && used <= h->ublock_depth / 2) fill -= (per_plane - most(h->pool_half, taps * h->passes)) * plane;
        break;
    case PACE_DEPTHWISE: per_plane = 4 * h->size, steps = div_up(taps, 4), delay = h->delay; break;
    case PACE_PART_KERNEL: steps = div_up(taps, 4 / h->size) * div_up(channels, 8); break;
    default: break;
    }
    i64 waits = depth == 1 ? steps : (steps - 1) * depth;
    return most(decoding, fill + most(h->floor, per_plane * plane) * steps * depth + delay * waits);
}

/* ---- Constants: npu_model/weight_stream/shares.py and the reads of block_jobs.py. */

typedef struct {
    i64 c0, c1, steps, pieces;
    size_t scales, first_step;
} Depth;

typedef struct {
    i64 part, c0, c1, decoding;
    size_t weights;
    /* Its place among the steps of its block, and of the channels of the block those that it makes. */
    i64 number, start, end;
} Step;

static void push_constants(Growing *out, const Operation *op, i64 region, i64 start, i64 words)
{
    growing_push(out, region);
    growing_push(out, op->head.aligned ? start % PHASES : 0);
    growing_push(out, 1);
    growing_push(out, 1);
    growing_push(out, words);
}

static i64 slice_before(i64 length, i64 part, i64 whole) { return part == whole ? length : length * part / whole / 16 * 16; }

/* Words of a core's stream before the first `step` steps of a block, of which `done` of `total` shares are taken. */
static i64 words_before(const Operation *op, i64 core, const Depth *depth, i64 step, i64 done, i64 total)
{
    const Header *h = &op->head;
    if (h->is_known) {
        i64 at = depth->c0 / h->block_depth * depth->steps + step;
        return at ? div_up(op->work[(2 * core) * op->work_steps + at - 1], 8 * h->word) : 0;
    }
    i64 length = op->weights[3 * core + 2];
    i64 start = slice_before(length, depth->c0, h->depth), end = slice_before(length, depth->c1, h->depth);
    return div_up(start + div_down((end - start) * done, total), h->word);
}

static i64 turns_before(const Operation *op, i64 core, const Depth *depth, i64 step)
{
    i64 at = depth->c0 / op->head.block_depth * depth->steps + step;
    return at ? op->work[(2 * core + 1) * op->work_steps + at - 1] : 0;
}

/* The reads of one step, none if its share is empty; the decoder's cycles too. */
static void step_weights(Growing *out, const Operation *op, const Depth *depth, i64 number, i64 done, i64 after, i64 total, Step *step)
{
    const Header *h = &op->head;
    size_t at = out->length;
    i64 reads = 0, longest = 0;
    growing_push(out, 0);
    for (i64 core = 0; core < h->weights; core++) {
        i64 first = words_before(op, core, depth, number, done, total);
        i64 beats = words_before(op, core, depth, number + 1, after, total) - first;
        if (h->is_known) {
            i64 turns = turns_before(op, core, depth, number + 1) - turns_before(op, core, depth, number);
            i64 more = most(beats, turns);
            longest = core ? most(longest, more) : more;
        }
        i64 before = beats * step->start / (depth->c1 - depth->c0), behind = beats * step->end / (depth->c1 - depth->c0);
        first += before;
        beats = behind - before;
        if (!beats) continue;
        push_constants(out, op, op->weights[3 * core], op->weights[3 * core + 1] / h->word + first, beats);
        reads++;
    }
    i64 decoding = h->is_known ? most(0, div_up(longest * h->decoder, 4)) : 0;
    step->decoding = decoding * step->end / (depth->c1 - depth->c0) - decoding * step->start / (depth->c1 - depth->c0);
    step->weights = reads ? at : 0;
    if (!reads) out->length = at;
    else if (!out->failed) out->at[at] = reads;
}

static i64 scale_offset(i64 length, i64 channels, i64 depth, i64 cores)
{
    return channels == depth ? length : least(length, SCALE_RECORD * div_up(channels, cores));
}

static size_t depth_scales(Growing *out, const Operation *op, i64 c0, i64 c1)
{
    const Header *h = &op->head;
    size_t at = out->length;
    i64 reads = 0;
    growing_push(out, 0);
    for (i64 core = 0; core < h->scales; core++) {
        const i64 *table = op->scales + 3 * core;
        i64 first = scale_offset(table[2], c0, h->depth, h->scales), last = scale_offset(table[2], c1, h->depth, h->scales);
        if (last <= first) continue;
        push_constants(out, op, table[0], (table[1] + first) / h->word, div_up(last - first, h->word));
        reads++;
    }
    if (!reads) out->length = at;
    else if (!out->failed) out->at[at] = reads;
    return reads ? at : 0;
}

/* ---- The blocks. */

typedef struct {
    Operation op;
    Part *parts;
    i64 part_count;
    Depth *depths;
    i64 depth_count;
    Step *steps;
    int keeps;
    Growing out;
    /* The key of each column that is like no other one, and the places of its jobs. */
    i64 *likes;
    size_t *jobs;
    i64 column_count, column_room, like_length;
} Blocks;

static i64 pieces(i64 extent, i64 piece) { return div_up(extent, piece); }

static int make_parts(Blocks *b)
{
    const Header *h = &b->op.head;
    b->part_count = pieces(h->kernel_height, h->part_height) * pieces(h->kernel_width, h->part_width);
    b->parts = malloc(sizeof(Part) * (size_t)b->part_count);
    if (!b->parts) return -1;
    i64 number = 0;
    for (i64 y = 0; y < h->kernel_height; y += h->part_height)
        for (i64 x = 0; x < h->kernel_width; x += h->part_width)
            b->parts[number++] = (Part){y, x, least(h->part_height, h->kernel_height - y), least(h->part_width, h->kernel_width - x)};
    return 0;
}

static int make_depths(Blocks *b)
{
    const Header *h = &b->op.head;
    i64 channel_steps = h->kind == DEEP ? pieces(b->op.ifm.depth, h->channel_step) : 1, steps = channel_steps * b->part_count;
    b->depth_count = pieces(h->depth, h->block_depth);
    i64 most_pieces = b->depth_count * div_up(h->block_depth, h->ublock_depth);
    if (steps > MOST_STEPS / most_pieces) {
        PyErr_SetString(PyExc_ValueError, "a flat operation has fewer steps");
        return -1;
    }
    b->depths = malloc(sizeof(Depth) * (size_t)b->depth_count);
    b->steps = malloc(sizeof(Step) * (size_t)(steps * most_pieces));
    if (!b->depths || !b->steps) return -1;
    if (h->is_known && b->op.work_steps < b->depth_count * steps) {
        PyErr_SetString(PyExc_ValueError, "the decoder's work has fewer steps than the operation");
        return -1;
    }
    b->keeps = h->kind == DEEP && steps <= h->kept && b->part_count == 1;
    i64 total = 0, made = 0;
    for (i64 d = 0; d < b->depth_count; d++) {
        Depth *depth = &b->depths[d];
        Box box = {0, 1, 0, 1, d * h->block_depth, least(h->depth, (d + 1) * h->block_depth)}, own = own_channels(&b->op, box);
        i64 channels = box.c1 - box.c0, number = 0;
        *depth = (Depth){box.c0, box.c1, steps, 0, 0, (size_t)made};
        for (i64 c = 0; c < channel_steps; c++)
            for (i64 p = 0; p < b->part_count; p++, number++) {
                i64 c0 = h->kind == DEEP ? c * h->channel_step : own.c0;
                i64 c1 = h->kind == DEEP ? least(b->op.ifm.depth, (c + 1) * h->channel_step) : own.c1;
                i64 weights = b->parts[p].height * b->parts[p].width * (c1 - c0) * h->ublock_depth;
                /* A slot of the weight buffer holds whole ublocks in depth. */
                i64 once = h->at_once ? most(1, h->at_once / most(1, weights)) * h->ublock_depth : channels;
                for (i64 start = 0; start < channels; start += once)
                    b->steps[made++] = (Step){p, c0, c1, 0, 0, number, start, least(channels, start + once)};
            }
        depth->pieces = made - (i64)depth->first_step;
        total = 0;
        for (i64 s = 0; s < depth->pieces; s++) {
            const Step *step = &b->steps[depth->first_step + (size_t)s];
            if (!step->start) total += b->parts[step->part].height * b->parts[step->part].width * (step->c1 - step->c0);
        }
        i64 done = 0;
        for (i64 s = 0; s < depth->pieces; s++) {
            Step *step = &b->steps[depth->first_step + (size_t)s];
            i64 after = done + b->parts[step->part].height * b->parts[step->part].width * (step->c1 - step->c0);
            step_weights(&b->out, &b->op, depth, step->number, done, after, total, step);
            if (step->end == channels) done = after;
        }
        depth->scales = depth_scales(&b->out, &b->op, box.c0, box.c1);
    }
    return 0;
}

static void push_read(Growing *out, const Map *map, Box box, i64 word)
{
    growing_push(out, map->region);
    growing_push(out, 0);
    size_t at = out->length;
    growing_push(out, 0);
    Runs runs = {out, 0};
    map_runs(&runs, map, box, box.c1 - box.c0, INT64_MAX, word);
    if (!out->failed) out->at[at] = (i64)runs.pairs;
}

/* The reads of a step of a block; the place of none is 0. */
static size_t step_fetches(Blocks *b, Box ofm, const Step *step)
{
    Growing *out = &b->out;
    size_t at = out->length;
    if (b->op.head.kind == ELEMENTWISE) {
        growing_push(out, 1 + (b->op.ifm2.present != 0));
        push_read(out, &b->op.ifm, own_channels(&b->op, ofm), b->op.head.word);
        if (b->op.ifm2.present) push_read(out, &b->op.ifm2, second_box(&b->op.ifm2, ofm), b->op.head.word);
        return at;
    }
    Box box = ifm_box(&b->op, ofm, b->parts[step->part], step->c0, step->c1);
    if (is_empty(box)) return 0;
    growing_push(out, 1);
    push_read(out, &b->op.ifm, box, b->op.head.word);
    return at;
}

static size_t block_writes(Blocks *b, Box ofm)
{
    Growing *out = &b->out;
    size_t at = out->length;
    growing_push(out, 0);
    Runs runs = {out, 0};
    i64 piece = CHANNEL_BRICK * b->op.head.cores;
    map_runs(&runs, &b->op.ofm, ofm, piece, piece, b->op.head.word);
    if (!out->failed) out->at[at] = (i64)runs.pairs;
    return at;
}

/* Channels that the output unit's table counts: those of the core with the most, times the cores. */
static i64 counted_channels(const Header *h, i64 channels)
{
    if (!h->own_channels) return channels;
    i64 ublock = h->ublock_depth / h->cores;
    return h->cores * (channels / h->ublock_depth * ublock + least(channels % h->ublock_depth, ublock));
}

/* The jobs of a column: each its output cycles, writes, scales, steps and of every step its fetches, weights and MAC cycles. */
static int make_column(Blocks *b, Box place, int is_kept, size_t *jobs)
{
    const Header *h = &b->op.head;
    i64 steps = h->kind == ELEMENTWISE ? 1 : b->depths[0].steps;
    size_t *fetches = calloc((size_t)steps, sizeof(size_t));
    if (!fetches) return -1;
    for (i64 d = 0; d < b->depth_count; d++) {
        const Depth *depth = &b->depths[d];
        Box box = {place.y0, place.y1, place.x0, place.x1, depth->c0, depth->c1};
        const Step *first = &b->steps[depth->first_step];
        if (b->keeps && (is_kept || d))
            memset(fetches, 0, (size_t)steps * sizeof(size_t));
        else if (!(h->kind == DEEP && d))
            for (i64 s = 0; s < (h->kind == ELEMENTWISE ? 1 : depth->pieces); s++)
                if (!first[s].start) fetches[first[s].number] = step_fetches(b, box, first + s);
        size_t writes = block_writes(b, box);
        i64 elements = (box.y1 - box.y0) * (box.x1 - box.x0) * counted_channels(h, box.c1 - box.c0);
        jobs[d] = b->out.length;
        growing_push(&b->out, h->output_start + div_up(h->rate * elements, h->rate_divisor));
        growing_push(&b->out, (i64)writes);
        growing_push(&b->out, (i64)depth->scales);
        i64 made = h->kind == ELEMENTWISE ? 1 : depth->pieces;
        growing_push(&b->out, made);
        for (i64 s = 0; s < made; s++) {
            const Step *step = first + s;
            Box part = box;
            part.c1 = part.c0 + step->end - step->start;
            i64 taps = b->parts[step->part].height * b->parts[step->part].width;
            /* Less than nothing: it goes on in the slot of the step before, with what it fetches itself. */
            i64 fetched = step->start ? 0 : (i64)fetches[step->number];
            int goes_on = step->start || (h->slot_per_depth && h->kind != ELEMENTWISE && step->part);
            growing_push(&b->out, goes_on ? -1 - fetched : fetched);
            growing_push(&b->out, h->kind == ELEMENTWISE ? 0 : (i64)step->weights);
            growing_push(&b->out, h->kind == ELEMENTWISE ? 0 : mac_cycles(h, part, taps, step->c1 - step->c0, step->decoding));
        }
    }
    free(fetches);
    return 0;
}

/* Write to `key` what tells a column of blocks from others. Return whether it reads the same of the IFM as the one before, whose boxes are in
   `areas`. */
static int likeness(const Blocks *b, Box top, i64 *key, Box *areas, int is_first)
{
    const Header *h = &b->op.head;
    int same = !is_first;
    i64 count = h->kind == ELEMENTWISE ? 1 + (b->op.ifm2.present != 0) : b->part_count;
    key[0] = top.y1 - top.y0;
    key[1] = top.x1 - top.x0;
    placement(&b->op.ofm, top, h->word, key + 2);
    for (i64 i = 0; i < count; i++) {
        const Map *map = h->kind == ELEMENTWISE && i ? &b->op.ifm2 : &b->op.ifm;
        Box box = h->kind != ELEMENTWISE ? ifm_box(&b->op, top, b->parts[i], 0, 1)
                  : i                    ? second_box(map, top)
                                         : own_channels(&b->op, top);
        key[4 + 4 * i] = box.y1 - box.y0;
        key[5 + 4 * i] = box.x1 - box.x0;
        placement(map, box, h->word, key + 6 + 4 * i);
        if (!is_first) same &= box.y0 == areas[i].y0 && box.y1 == areas[i].y1 && box.x0 == areas[i].x0 && box.x1 == areas[i].x1;
        areas[i] = box;
    }
    key[4 + 4 * count] = same;
    return same;
}

static i64 known_column(const Blocks *b, const i64 *key)
{
    /* From the newest: neighbours are alike. */
    for (i64 k = b->column_count - 1; k >= 0; k--)
        if (!memcmp(b->likes + k * b->like_length, key, (size_t)b->like_length * sizeof(i64))) return k;
    return -1;
}

static int make_room(Blocks *b)
{
    if (b->column_count < b->column_room) return 0;
    i64 room = b->column_room ? 2 * b->column_room : 16;
    i64 *likes = realloc(b->likes, (size_t)(room * b->like_length) * sizeof(i64));
    if (likes) b->likes = likes;
    size_t *jobs = realloc(b->jobs, (size_t)(room * b->depth_count) * sizeof(size_t));
    if (jobs) b->jobs = jobs;
    if (!likes || !jobs) return -1;
    b->column_room = room;
    return 0;
}

static int make_columns(Blocks *b, Growing *sequence)
{
    const Header *h = &b->op.head;
    i64 areas = most(2, b->part_count);
    b->like_length = 5 + 4 * areas;
    i64 *key = calloc((size_t)b->like_length, sizeof(i64));
    Box *boxes = calloc((size_t)areas, sizeof(Box));
    int result = key && boxes ? 0 : -1, is_first = 1;
    for (i64 y = 0; result == 0 && y < h->height; y += h->block_height)
        for (i64 x = 0; result == 0 && x < h->width; x += h->block_width, is_first = 0) {
            Box top = {y, least(h->height, y + h->block_height), x, least(h->width, x + h->block_width), b->depths[0].c0, b->depths[0].c1};
            int is_kept = likeness(b, top, key, boxes, is_first);
            i64 number = known_column(b, key);
            if (number < 0) {
                if ((result = make_room(b)) < 0) break;
                number = b->column_count++;
                memcpy(b->likes + number * b->like_length, key, (size_t)b->like_length * sizeof(i64));
                result = make_column(b, top, is_kept, b->jobs + number * b->depth_count);
            }
            growing_push(sequence, number);
        }
    free(key);
    free(boxes);
    return result;
}

static void read_map(Map *map, const i64 *at) { memcpy(map, at, sizeof(Map)); }

static int read_operation(Operation *op, const Flat *flat, const Flat *work)
{
    const Py_ssize_t fixed = (Py_ssize_t)(sizeof(Header) + 3 * sizeof(Map)) / 8;
    if (flat->length < fixed) goto wrong;
    memcpy(&op->head, flat->at, sizeof(Header));
    const i64 *maps = flat->at + sizeof(Header) / 8;
    read_map(&op->ifm, maps);
    read_map(&op->ifm2, maps + sizeof(Map) / 8);
    read_map(&op->ofm, maps + 2 * sizeof(Map) / 8);
    const Header *h = &op->head;
    if (h->weights < 0 || h->scales < 0 || flat->length != fixed + 3 * (h->weights + h->scales)) goto wrong;
    op->weights = flat->at + fixed;
    op->scales = op->weights + 3 * h->weights;
    op->work = work->at;
    op->work_steps = h->is_known && h->weights ? work->length / (2 * h->weights) : 0;
    if (h->is_known && (!h->weights || work->length != 2 * h->weights * op->work_steps)) goto wrong;
    if (h->word < 1 || h->height < 1 || h->width < 1 || h->depth < 1 || h->block_height < 1 || h->block_width < 1 || h->block_depth < 1 ||
        h->part_height < 1 || h->part_width < 1 || h->channel_step < 1 || h->rate_divisor < 1 || h->size < 1 || h->ublock_height < 1 ||
        h->ublock_width < 1 || h->ublock_depth < 1 || h->at_once < 0 || h->cores < 1 || h->ublock_depth < h->cores)
        goto wrong;
    if (!are_within(&h->height, 6, 1, 1, LARGEST) || !are_within(&h->kernel_height, 2, 1, 1, LARGEST >> 4) || op->ifm.depth < 1 || op->ifm.depth >= LARGEST)
        goto wrong;
    return 0;
wrong:
    PyErr_SetString(PyExc_ValueError, "this is no flat operation");
    return -1;
}

int work_of_blocks(const Flat *operation, const Flat *decoding, Growing *out)
{
    Blocks b = {0};
    Growing sequence = {0};
    int result = -1;
    if (read_operation(&b.op, operation, decoding) < 0) goto done;
    /* The head: places, depths, columns, where the sequence of columns is and where the places of the jobs are, whether a channel
       of the output needs no other one of the input. */
    for (int i = 0; i < 6; i++) growing_push(&b.out, 0);
    if (make_parts(&b) < 0 || make_depths(&b) < 0 || make_columns(&b, &sequence) < 0 || sequence.failed || b.out.failed) {
        if (!PyErr_Occurred()) PyErr_NoMemory();
        goto done;
    }
    i64 head[6] = {(i64)sequence.length, b.depth_count, b.column_count, (i64)b.out.length, (i64)(b.out.length + sequence.length),
                   b.op.head.kind != DEEP};
    for (size_t i = 0; i < sequence.length; i++) growing_push(&b.out, sequence.at[i]);
    for (i64 i = 0; i < b.column_count * b.depth_count; i++) growing_push(&b.out, (i64)b.jobs[i]);
    if (!b.out.failed) memcpy(b.out.at, head, sizeof head);
    *out = b.out;
    b.out.at = NULL;
    result = 0;
done:
    free(b.out.at);
    free(sequence.at);
    free(b.parts);
    free(b.depths);
    free(b.steps);
    free(b.likes);
    free(b.jobs);
    return result;
}

PyObject *block_work(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Flat flats[2];
    Growing out = {0};
    (void)module;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "a flat operation and the decoder's work are needed");
        return NULL;
    }
    if (flat_all(arguments, flats, 2, 2) < 0) return NULL;
    int result = work_of_blocks(&flats[0], &flats[1], &out);
    flat_release(flats, 2);
    return result < 0 ? NULL : growing_bytes(&out);
}
