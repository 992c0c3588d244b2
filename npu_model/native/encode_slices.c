/* The bits of a stream: headers, and chunks of unary words and remainders. */

#include "encode.h"

enum { MOST_CHUNK_BYTES = 64 };

static void put(Writer *w, int bits, uint64_t value)
{
    w->word |= value << w->bits;
    w->bits += bits;
    if (w->bits < 32) return;
    for (int i = 0; i < 4; i++) w->at[w->length + i] = (unsigned char)(w->word >> 8 * i);
    w->length += 4;
    w->word >>= 32;
    w->bits -= 32;
}

/* Room for a chunk, or for a header with its palette. */
static void reserve(Writer *w)
{
    if (w->length + MOST_CHUNK_BYTES <= w->room) return;
    size_t room = 2 * w->room + 1024;
    unsigned char *moved = realloc(w->at, room);
    if (!moved) {
        w->failed = 1;
        w->length = 0;
        return;
    }
    w->at = moved;
    w->room = room;
}

typedef struct {
    int division, truncated, is_plain, unary;
} Code;

static Code code_of(i64 code, int raw_bits)
{
    if (code == PLAIN) return (Code){raw_bits, 0, 1, raw_bits > 5 ? 8 : 12};
    return (Code){(int)(code % DIVISIONS), code >= DIVISIONS, 0, 12};
}

static void put_header(Writer *w, const Palette *p, i64 count, const Code *code, i64 run_code, int is_new)
{
    put(w, 3, p->has_runs ? (uint64_t)run_code : 6);
    put(w, 15, (uint64_t)(count - 1));
    put(w, 3, code->is_plain ? 7 : (uint64_t)code->division);
    put(w, 1, (uint64_t)code->truncated);
    put(w, 1, (uint64_t)is_new);
    if (!is_new) return;
    put(w, 5, (uint64_t)p->offset);
    put(w, 5, (uint64_t)most(0, p->size - 1));
    put(w, 3, (uint64_t)(p->bits - 2));
    for (i64 i = 0; i < p->size; i++) put(w, (int)p->bits, (uint64_t)p->entries[i]);
}

/* The symbols of one kind on their way into chunks: the quotient that is left of the next one (less than nothing: none was begun). */
typedef struct {
    i64 done, count, before;
    int quotient;
} Line;

static uint64_t low_bits(i64 value, int bits) { return (uint64_t)value & (((uint64_t)1 << bits) - 1); }

/* A chunk of indices: its first unary word; the second one, a bit for each bit set in the first, in `second`. */
static uint64_t index_chunk(Line *line, const int16_t *indices, const Code *code, uint64_t *second, int *ones)
{
    uint64_t first = 0;
    *second = 0;
    *ones = 0;
    if (code->is_plain) {
        line->done = least(line->done + code->unary, line->count);
        return 0;
    }
    for (int bit = 0; bit < 12;) {
        if (line->quotient < 0) {
            if (line->done == line->count) break;
            line->quotient = indices[line->done] >> code->division;
        }
        /* A bit set for each two of the quotient, with one in the second word; then a bit for what is left, unless none can be. */
        int room = 12 - bit, twos = line->quotient >> 1, rest = line->quotient & 1, taken = twos < room ? twos : room;
        first |= low_bits(-1, taken) << bit;
        *second |= low_bits(-1, taken) << *ones;
        *ones += taken;
        bit += taken;
        line->quotient -= 2 * taken;
        if (code->truncated && taken) line->quotient = -1;
        else if (bit < 12) {
            first |= (uint64_t)rest << bit++;
            *ones += rest;
            line->quotient = -1;
        }
        if (line->quotient < 0) line->done++;
    }
    return first;
}

static uint64_t run_chunk(Line *line, const int32_t *runs, int division, int unary)
{
    uint64_t word = 0;
    for (int bit = 0; bit < unary; bit++) {
        if (line->quotient < 0) {
            if (line->done == line->count) break;
            line->quotient = runs[line->done] >> division;
        }
        word |= (uint64_t)(line->quotient > 0) << bit;
        if (--line->quotient < 0) line->done++;
    }
    return word;
}

/* Chunks of indices and zero runs in turn, each followed by the remainders of the one before. */
static void put_chunks(Writer *w, const int16_t *indices, const int32_t *runs, i64 count, const Code *code, i64 run_code, int is_new)
{
    Line index = {0, count, 0, -1}, zeros = {0, runs ? count + is_new : 0, 0, -1};
    int run_unary = run_code < 3 ? 12 : 8;
    i64 owed_index = 0, owed_run = 0;
    for (;;) {
        i64 ahead = runs ? index.done - zeros.done : 0;
        int has_index = ahead < 8 && index.done < index.count, has_run = runs && ahead >= 0 && zeros.done < zeros.count, ones = 0;
        uint64_t second = 0;
        i64 first_index = index.done, first_run = zeros.done;
        reserve(w);
        if (w->failed) return;
        if (has_index) {
            uint64_t first = index_chunk(&index, indices, code, &second, &ones);
            if (!code->is_plain) put(w, 12, first);
        }
        if (has_run) put(w, run_unary, run_chunk(&zeros, runs, (int)run_code, run_unary));
        put(w, ones, second);
        for (i64 i = index.before; i < index.before + owed_index; i++) put(w, code->division, low_bits(indices[i], code->division));
        for (i64 i = zeros.before; i < zeros.before + owed_run; i++) put(w, (int)run_code, low_bits(runs[i], (int)run_code));
        index.before = first_index;
        zeros.before = first_run;
        owed_index = index.done - first_index;
        owed_run = zeros.done - first_run;
        if (!has_index && !has_run) return;
    }
}

/* The codes of a section; the arrays have room for every weight of the stream. */

void put_slice(Writer *w, const Palette *p, const int16_t *indices, const int32_t *runs, i64 count, i64 code, i64 run_code, int is_first)
{
    Code how = code_of(code, p->raw_bits);
    reserve(w);
    if (w->failed) return;
    put_header(w, p, count, &how, run_code, is_first);
    put_chunks(w, indices, runs, count, &how, run_code, is_first);
}

void put_end(Writer *w)
{
    reserve(w);
    if (w->failed) return;
    put(w, 3, 7);
    while (w->bits & 7) put(w, 1, 1);
    while (w->bits || w->length % 16) put(w, 8, 0xff);
}
