/* A block that a kernel may be made in, as kernel_estimates writes it and coupling reads it: BlockOption of block_option.py. */
#ifndef OPTION_H
#define OPTION_H

#include "flat.h"

typedef struct {
    i64 block[3], shram[3], cycles, read_penalty, lead, tail, load, load_end;
} Option;

enum { OPTION_SIZE = sizeof(Option) / sizeof(i64) };

#endif
