/* The steps from weights to a stream: sections, palettes, codes, bits. */
#ifndef ENCODE_H
#define ENCODE_H

#include "flat.h"

/* Weights have 9 bits; ZERO is the place of weight 0 among all. A palette has at most FULL entries. */
enum { VALUES = 512, ZERO = 256, FULL = 32 };

/* The first weight of each section, which has a palette of its own. Returns less than nothing if memory ran out. */
int cut_sections(const int16_t *values, i64 count, Growing *starts);

/* The indices of a section's weights: the palette's entries first, then the values themselves, their sign in bit 0. */
typedef struct {
    i64 size, bits, offset, entries[FULL];
    int has_runs, only_zeros, raw_bits;
    int16_t index[VALUES];
} Palette;

Palette make_palette(const int16_t *values, i64 count);

/* Codes of weights: divisions 0 to 5, the same with truncated quotients, and the plain index. */
enum { PLAIN = 12, DIVISIONS = 6, LANES = 16 };

typedef int16_t Lanes[LANES];

/* Room for a choice of codes. Ways through a section: at each symbol the best code up to there, and a bit for each that is better taken up
   from it. Bits of each index in each code, for indices of `raw_bits`. */
typedef struct {
    uint8_t *best;
    uint16_t *from_best;
    Lanes *costs;
    int raw_bits;
} Ways;

/* Codes of a section's indices, and of its zero runs, for the fewest bits: pairs of the symbol behind a stretch and its code. */
void choose_codes(const int16_t *indices, i64 count, int raw_bits, Ways *ways, Growing *found);
void choose_run_codes(const int32_t *runs, i64 count, const Growing *codes, Ways *ways, Growing *found);

/* Bits, the lowest first. */
typedef struct {
    unsigned char *at;
    size_t length, room;
    uint64_t word;
    int bits, failed;
} Writer;

/* A slice of indices, and of zero runs unless `runs` is NULL, in a code each; the first slice of a section has its palette. */
void put_slice(Writer *w, const Palette *p, const int16_t *indices, const int32_t *runs, i64 count, i64 code, i64 run_code, int is_first);
/* The end mark, and ones up to a multiple of 16 bytes. */
void put_end(Writer *w);

PyObject *encode_weights(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
