/* The order in which the decoder hands weights on. */
#ifndef ORDER_H
#define ORDER_H

#include "flat.h"

/* The order of OHWI weights: npu_model/weight_stream/order.py is the specification. */
typedef struct {
    i64 depth, height, width, channels, block_depth, ofm_ublock, ifm_ublock, ifm_block, taps_multiple, sub_height, sub_width, part_kernel;
} Order;

i64 ordered_count(const Order *order);
void order_weights(const int16_t *plain, int16_t *ordered, const Order *order);
void plain_weights(const int16_t *ordered, int16_t *plain, const Order *order);
/* The terms of an order, as Python hands them over: -1 with an exception set unless they are those of so many bytes of weights (less than
   nothing: of any number). */
int order_get(const Flat *terms, Order *order, i64 bytes);

#endif
