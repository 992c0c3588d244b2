/* Weights in the order in which the decoder hands them on, zeros where it asks for more than there are; and back. */

#include "order.h"

#define LARGEST ((i64)1 << 31)

typedef struct {
    int16_t *plain, *ordered;
    i64 count;
    int is_back;
} Ordered;

/* One tap of an ublock of OFM channels, of as many IFM channels as an ublock has; `kept` is the OFM channel behind the block's last. */
static void order_ublock(Ordered *o, const Order *order, i64 ofm, i64 kept, i64 y, i64 x, i64 ifm)
{
    i64 channels = least(order->ifm_ublock, order->channels - ifm);
    for (i64 z = ofm; z < ofm + order->ofm_ublock; z++, o->count += order->ifm_ublock) {
        if (!o->ordered) continue;
        int16_t *ordered = o->ordered + o->count;
        i64 taken = z < kept && y >= 0 ? most(channels, 0) : 0;
        int16_t *plain = o->plain + (taken ? ((z * order->height + y) * order->width + x) * order->channels + ifm : 0);
        if (o->is_back) {
            for (i64 c = 0; c < taken; c++) plain[c] = ordered[c];
            continue;
        }
        for (i64 c = 0; c < taken; c++) ordered[c] = plain[c];
        for (i64 c = taken; c < order->ifm_ublock; c++) ordered[c] = 0;
    }
}

static void order_subkernel(Ordered *o, const Order *order, i64 ofm, i64 kept, i64 y, i64 x, i64 ifm, i64 deep)
{
    i64 height = least(order->sub_height, order->height - y), width = least(order->sub_width, order->width - x), taps = height * width;
    i64 padded = div_up(taps, order->taps_multiple) * order->taps_multiple;
    i64 outer = order->part_kernel ? div_up(deep, order->ifm_ublock) : 1, inner = order->part_kernel ? 1 : div_up(deep, order->ifm_ublock);
    for (i64 a = 0; a < outer; a++)
        for (i64 u = ofm; u < kept; u += order->ofm_ublock)
            for (i64 tap = 0; tap < padded; tap++)
                for (i64 b = 0; b < inner; b++)
                    order_ublock(o, order, u, kept, tap < taps ? y + tap / width : -1, x + tap % width, ifm + (a + b) * order->ifm_ublock);
}

static i64 order_all(Ordered o, const Order *order)
{
    for (i64 ofm = 0; ofm < order->depth; ofm += order->block_depth)
        for (i64 ifm = 0; ifm < order->channels; ifm += order->ifm_block) {
            i64 kept = least(ofm + order->block_depth, order->depth);
            i64 deep = order->part_kernel ? least(order->ifm_block, order->channels - ifm) : order->ifm_block;
            for (i64 y = 0; y < order->height; y += order->sub_height)
                for (i64 x = 0; x < order->width; x += order->sub_width) order_subkernel(&o, order, ofm, kept, y, x, ifm, deep);
        }
    return o.count;
}

i64 ordered_count(const Order *order) { return order_all((Ordered){NULL, NULL, 0, 0}, order); }

void order_weights(const int16_t *plain, int16_t *ordered, const Order *order)
{
    order_all((Ordered){(int16_t *)plain, ordered, 0, 0}, order);
}

void plain_weights(const int16_t *ordered, int16_t *plain, const Order *order)
{
    order_all((Ordered){plain, (int16_t *)ordered, 0, 1}, order);
}

int order_get(const Flat *terms, Order *order, i64 bytes)
{
    int is_wrong = terms->view.len != sizeof *order;
    if (!is_wrong) {
        memcpy(order, terms->at, sizeof *order);
        for (int i = 0; i < 11; i++) is_wrong |= terms->at[i] < 1;
        i64 weights = 1;
        for (int i = 0; i < 11; i++) is_wrong |= terms->at[i] >= LARGEST;
        for (int i = 0; i < 4 && !is_wrong; i++) is_wrong = (weights *= terms->at[i]) >= LARGEST;
        is_wrong = is_wrong || (bytes >= 0 && order->depth * order->height * order->width * order->channels * 2 != bytes);
    }
    if (is_wrong) PyErr_SetString(PyExc_ValueError, "the weights are not those that their order says");
    return is_wrong ? -1 : 0;
}
