/* Compressed weight streams, walked as npu_model/weight_stream does: mlw_header.py, mlw_chunks.py, mlw.py and mlw_work.py are the
   specification. A stream that is damaged in any way gives None, so that the Python form says what is wrong with it. */

#include "weights.h"
#include "order.h"

enum { UNARY = 12, LEAD = 8, A_CYCLE = 8, END = 7, NO_RUNS = 6, MOST_ENTRIES = 32, LARGEST_INDEX = 511 };

typedef struct {
    const unsigned char *at;
    i64 bytes, bits;
} Stream;

/* Up to 49 bits from a position on; zeros behind the end. */
static uint64_t window(const Stream *stream, i64 position)
{
    i64 byte = position >> 3;
    uint64_t word = 0;
    if (byte + 8 <= stream->bytes) {
        for (int i = 7; i >= 0; i--) word = word << 8 | stream->at[byte + i];
    } else {
        for (i64 i = stream->bytes - 1; i >= byte; i--) word = word << 8 | stream->at[i];
    }
    return word >> (position & 7);
}

static i64 field(const Stream *stream, i64 position, int width, int *damaged)
{
    if (position + width > stream->bits) {
        *damaged = 1;
        return 0;
    }
    return (i64)(window(stream, position) & (((uint64_t)1 << width) - 1));
}

static int ones(uint64_t word)
{
    int count = 0;
    for (; word; word &= word - 1) count++;
    return count;
}

typedef struct {
    i64 known, size, offset, bits, entries[MOST_ENTRIES];
} Palette;

typedef struct {
    i64 unary, remainder, raw, truncated;
} Coding;

typedef struct {
    i64 count, has_runs, new_palette, body, runs_count;
    Coding weights, runs;
} Header;

/* 1: a slice, 0: an end mark. */
static int read_header(const Stream *stream, i64 position, Palette *palette, Header *header, int *damaged)
{
    i64 runs = field(stream, position, 3, damaged);
    if (*damaged) return 0;
    if (runs == END) return 0;
    i64 division = field(stream, position + 18, 3, damaged), fresh = field(stream, position + 22, 1, damaged);
    if (!(runs <= 3 || runs == NO_RUNS) || !(division <= 5 || division == 7)) *damaged = 1;
    if (*damaged) return 0;
    i64 body = position + 23;
    if (fresh) {
        i64 size = field(stream, body + 5, 5, damaged);
        palette->known = 1;
        palette->offset = field(stream, body, 5, damaged);
        palette->bits = field(stream, body + 10, 3, damaged) + 2;
        palette->size = size ? size + 1 : 0;
        body += 13;
        for (i64 i = 0; i < palette->size; i++, body += palette->bits) palette->entries[i] = field(stream, body, (int)palette->bits, damaged);
    }
    if (!palette->known) *damaged = 1;
    if (*damaged) return 0;
    header->count = field(stream, position + 3, 15, damaged) + 1;
    header->has_runs = runs != NO_RUNS;
    header->new_palette = fresh;
    header->body = body;
    header->runs_count = header->has_runs ? header->count + fresh : 0;
    header->runs = (Coding){runs >= 3 ? 8 : 12, runs, 0, 0};
    i64 width = palette->bits;
    if (palette->size) for (width = 0; (palette->size - 1) >> width; width++) {}
    if (division == 7) header->weights = (Coding){width > 5 ? 8 : 12, width, 1, 0};
    else header->weights = (Coding){12, division, 0, field(stream, position + 21, 1, damaged)};
    return 1;
}

/* The chunks of one kind of symbol, four numbers each: unary bits, symbols, bit of the first remainder, last cycle. */
typedef struct {
    Growing of;
    i64 total;
} Chunks;

static void add_chunk(Chunks *chunks, i64 code, i64 count, i64 turn)
{
    growing_push(&chunks->of, code);
    growing_push(&chunks->of, count);
    growing_push(&chunks->of, 0);
    growing_push(&chunks->of, turn);
    chunks->total += count;
}

static i64 *last_chunk(Chunks *chunks) { return chunks->of.at + chunks->of.length - 4; }

/* The bit after a slice; less than nothing if it goes on after the stream's last bit. */
static i64 walk(const Stream *stream, const Header *header, Chunks *weights, Chunks *zeros)
{
    const Coding *coding = &header->weights, *runs = &header->runs;
    i64 position = header->body, turn = 0, late = 0, known = 0, zeros_known = 0;
    int width = coding->raw ? 0 : UNARY, owes_weights = 0, owes_zeros = 0;
    weights->of.length = zeros->of.length = 0;
    for (;; turn++) {
        int has_weights = known < header->count && (!header->has_runs || known - zeros_known < LEAD);
        int has_zeros = header->has_runs && known >= zeros_known && zeros_known < header->runs_count;
        if (position > stream->bits || weights->of.failed || zeros->of.failed) return -1;
        uint64_t word = window(stream, position), first = 0, second = 0, code = 0;
        if (has_weights) {
            first = word & (((uint64_t)1 << width) - 1);
            word >>= width;
            position += width;
        }
        if (has_zeros) {
            code = word & (((uint64_t)1 << runs->unary) - 1);
            word >>= runs->unary;
            position += runs->unary;
        }
        if (has_weights) {
            int more = ones(first);
            second = word & (((uint64_t)1 << more) - 1);
            position += more;
        }
        if (owes_weights) {
            i64 *chunk = last_chunk(weights);
            chunk[2] = position;
            position += chunk[1] * coding->remainder;
        }
        if (owes_zeros) {
            i64 *chunk = last_chunk(zeros);
            chunk[2] = position;
            position += chunk[1] * runs->remainder;
        }
        if (has_weights) {
            i64 count = least(coding->unary - (coding->truncated ? 0 : ones(second)), header->count - known);
            late += most(count - A_CYCLE, 0);
            add_chunk(weights, (i64)(first | second << UNARY), count, turn + div_up(late, A_CYCLE));
            known += count;
        }
        if (has_zeros) {
            i64 count = least(runs->unary - ones(code), header->runs_count - zeros_known);
            add_chunk(zeros, (i64)code, count, turn + div_up(late, A_CYCLE));
            zeros_known += count;
        }
        owes_weights = has_weights;
        owes_zeros = has_zeros;
        if (!has_weights && !has_zeros) break;
    }
    return position > stream->bits || weights->of.failed || zeros->of.failed ? -1 : position;
}

static i64 remainder_of(const Stream *stream, i64 start, i64 width)
{
    return width ? (i64)(window(stream, start) & (((uint64_t)1 << width) - 1)) : 0;
}

/* The numbers that a slice's chunks of weights hold, in `out`. */
static void weight_indices(const Stream *stream, const Chunks *chunks, const Coding *coding, i64 *out)
{
    i64 quotient = 0;
    for (size_t c = 0; c < chunks->of.length; c += 4) {
        const i64 *chunk = chunks->of.at + c;
        i64 found = 0, first = chunk[0], second = chunk[0] >> UNARY;
        if (coding->raw) {
            for (; found < chunk[1]; found++) *out++ = remainder_of(stream, chunk[2] + found * coding->remainder, coding->remainder);
            continue;
        }
        for (int bit = 0; bit < UNARY; bit++) {
            i64 one = first >> bit & 1, two = one & second;
            if (one) second >>= 1;
            quotient += one + two;
            if (two && !coding->truncated) continue;
            if (found == chunk[1]) break;
            *out++ = (quotient << coding->remainder) + remainder_of(stream, chunk[2] + found++ * coding->remainder, coding->remainder);
            quotient = 0;
        }
    }
}

static i64 run_lengths(const Stream *stream, const Chunks *chunks, const Coding *coding, i64 *out)
{
    i64 quotient = 0, sum = 0;
    for (size_t c = 0; c < chunks->of.length; c += 4) {
        const i64 *chunk = chunks->of.at + c;
        i64 found = 0;
        for (int bit = 0; bit < coding->unary; bit++) {
            if (chunk[0] >> bit & 1) {
                quotient++;
                continue;
            }
            if (found == chunk[1]) break;
            *out = (quotient << coding->remainder) + remainder_of(stream, chunk[2] + found++ * coding->remainder, coding->remainder);
            sum += *out++;
            quotient = 0;
        }
    }
    return sum;
}

typedef struct {
    Stream stream;
    i64 position;
    Palette palette;
    Header header;
    Chunks weights, zeros;
    i64 *indices, *runs, zeros_total;
    int damaged;
} Walk;

static int walk_begin(Walk *w, const Flat *bytes)
{
    memset(w, 0, sizeof *w);
    w->stream = (Stream){(const unsigned char *)bytes->view.buf, bytes->view.len, 8 * bytes->view.len};
    w->indices = malloc(sizeof(i64) * (1 << 15));
    w->runs = malloc(sizeof(i64) * ((1 << 15) + 1));
    return w->indices && w->runs ? 0 : -1;
}

static void walk_end(Walk *w)
{
    free(w->indices);
    free(w->runs);
    free(w->weights.of.at);
    free(w->zeros.of.at);
}

/* 1: the next slice is read, 0: the stream is over or damaged. */
static int walk_next(Walk *w)
{
    for (;;) {
        if (!read_header(&w->stream, w->position, &w->palette, &w->header, &w->damaged)) {
            if (w->damaged) return 0;
            w->position = (w->position + 3 + 7) / 8 * 8;
            w->palette.known = 0;
            if (w->position == w->stream.bits) return 0;
            continue;
        }
        w->weights.total = w->zeros.total = 0;
        i64 end = walk(&w->stream, &w->header, &w->weights, &w->zeros);
        if (end < 0 || w->weights.total != w->header.count || w->zeros.total != w->header.runs_count) {
            w->damaged = 1;
            return 0;
        }
        w->zeros_total = w->header.has_runs ? run_lengths(&w->stream, &w->zeros, &w->header.runs, w->runs) : 0;
        w->position = end;
        return 1;
    }
}

static int push_weights(Walk *w, int16_t *out)
{
    const Palette *palette = &w->palette;
    const Header *header = &w->header;
    weight_indices(&w->stream, &w->weights, &header->weights, w->indices);
    i64 run = 0;
    if (header->has_runs && header->new_palette) out += w->runs[run++];
    for (i64 i = 0; i < header->count; i++) {
        i64 index = w->indices[i], coded = index < palette->size ? palette->entries[index] : index + palette->offset - palette->size;
        if (coded > LARGEST_INDEX) return -1;
        *out++ = (int16_t)(coded & 1 ? -(coded >> 1) : coded >> 1);
        if (header->has_runs) out += w->runs[run++];
    }
    return 0;
}

/* All weights of a stream, `limit` at most (less than nothing: any number), in `out`, which is to be freed. Returns their number, DAMAGED or
   NO_ROOM. */
enum { DAMAGED = -1, NO_ROOM = -2 };

static i64 decode_all(const Flat *bytes, i64 limit, int16_t **out)
{
    Walk w;
    i64 done = 0, room = 0;
    if (walk_begin(&w, bytes) < 0) {
        walk_end(&w);
        return NO_ROOM;
    }
    while (walk_next(&w)) {
        i64 symbols = w.header.count + w.zeros_total;
        if (limit >= 0 && done + symbols > limit) w.damaged = 1;
        if (w.damaged) break;
        if (done + symbols > room) {
            room = 2 * (done + symbols);
            int16_t *moved = realloc(*out, (size_t)room * sizeof(int16_t));
            if (!moved) {
                walk_end(&w);
                return NO_ROOM;
            }
            *out = moved;
        }
        memset(*out + done, 0, (size_t)symbols * sizeof(int16_t));
        if (push_weights(&w, *out + done) < 0) w.damaged = 1;
        if (w.damaged) break;
        done += symbols;
    }
    walk_end(&w);
    return w.damaged ? DAMAGED : done;
}

/* Return what was decoded as a bytes object, None if it is damaged, and free it. */
static PyObject *decoded(int16_t *values, i64 count)
{
    PyObject *result = count == NO_ROOM ? PyErr_NoMemory() : Py_None;
    if (count == DAMAGED) Py_INCREF(Py_None);
    if (count >= 0) result = PyBytes_FromStringAndSize((const char *)values, (Py_ssize_t)(count * (i64)sizeof(int16_t)));
    free(values);
    return result;
}

PyObject *decode_weights(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Flat bytes;
    int16_t *out = NULL;
    (void)module;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "a stream and a number of weights are needed");
        return NULL;
    }
    i64 limit = PyLong_AsLongLong(arguments[1]);
    if (PyErr_Occurred() || bytes_get(arguments[0], &bytes) < 0) return NULL;
    i64 done;
    Py_BEGIN_ALLOW_THREADS
    done = decode_all(&bytes, limit, &out);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&bytes.view);
    return decoded(out, done);
}

/* The weights (OHWI) of a stream in the order of a format; None if it is damaged or holds others. Other threads go on meanwhile. */
PyObject *decode_plain(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Flat bytes, terms;
    Order order;
    int16_t *ordered = NULL, *plain = NULL;
    PyObject *result = NULL;
    (void)module;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "a stream and the terms of its order are needed");
        return NULL;
    }
    if (bytes_get(arguments[0], &bytes) < 0) return NULL;
    if (flat_get(arguments[1], &terms, 0) < 0) {
        PyBuffer_Release(&bytes.view);
        return NULL;
    }
    if (order_get(&terms, &order, -1) == 0) {
        i64 done;
        Py_BEGIN_ALLOW_THREADS
        i64 all = ordered_count(&order), size = order.depth * order.height * order.width * order.channels;
        done = decode_all(&bytes, all, &ordered);
        if (done >= 0 && done != all) done = DAMAGED;
        if (done >= 0) {
            plain = malloc((size_t)size * sizeof(int16_t));
            done = plain ? size : NO_ROOM;
        }
        if (done >= 0) plain_weights(ordered, plain, &order);
        Py_END_ALLOW_THREADS
        result = decoded(plain, done);
    }
    free(ordered);
    PyBuffer_Release(&terms.view);
    PyBuffer_Release(&bytes.view);
    return result;
}

/* A place among the chunks of a kind that only moves on: the chunk of the n-th symbol, and the symbols up to its end. */
typedef struct {
    const Chunks *chunks;
    size_t at;
    i64 until;
} Place;

static void reach(Place *place, i64 number, i64 remainder, i64 *bits, i64 *turns)
{
    if (number <= 0) return;
    const i64 *chunk = place->chunks->of.at + place->at;
    if (!place->until) place->until = chunk[1];
    while (place->until < number) {
        place->at += 4;
        chunk = place->chunks->of.at + place->at;
        place->until += chunk[1];
    }
    *bits = most(*bits, chunk[2] + chunk[1] * remainder);
    *turns = most(*turns, chunk[3] + 1);
}

/* Bits and turns up to the end of each part of a stream. Returns the parts that end in this slice. */
static Py_ssize_t slice_work(Walk *w, const i64 *counts, Py_ssize_t length, i64 before, i64 taken, i64 *bits, i64 *turns)
{
    const Header *header = &w->header;
    i64 total = header->count + w->zeros_total, weight = 0, run = 0, at = 0, stands = -1;
    Place weights = {&w->weights, 0, 0}, zeros = {&w->zeros, 0, 0};
    Py_ssize_t n = 0;
    /* `at` is behind the last weight that was passed, and behind the run after it. */
    if (header->has_runs && header->new_palette) at = w->runs[run++];
    for (; n < length && counts[n] - before <= total; n++) {
        i64 wanted = counts[n] - before;
        while (weight < header->count && at < wanted) {
            stands = at++;
            weight++;
            if (header->has_runs) at += w->runs[run++];
        }
        bits[n] = turns[n] = 0;
        reach(&weights, weight, header->weights.remainder, &bits[n], &turns[n]);
        if (header->has_runs) reach(&zeros, weight + header->new_palette - (stands == wanted - 1), header->runs.remainder, &bits[n], &turns[n]);
        turns[n] += taken;
    }
    return n;
}

static i64 turns_of(const Chunks *chunks) { return chunks->of.length ? chunks->of.at[chunks->of.length - 1] + 1 : 0; }

PyObject *decoder_work(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Flat bytes, flats[2];
    Walk w;
    (void)module;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "a stream, counts of symbols and room for bits and turns are needed");
        return NULL;
    }
    if (bytes_get(arguments[0], &bytes) < 0) return NULL;
    if (flat_all(arguments + 1, flats, 2, 1) < 0) {
        PyBuffer_Release(&bytes.view);
        return NULL;
    }
    Py_ssize_t length = flats[0].length, done = 0;
    i64 symbols = 0, taken = 0, is_whole = 0;
    i64 *bits = flats[1].at, *turns = bits + length;
    if (flats[1].length != 2 * length) {
        PyErr_SetString(PyExc_ValueError, "there is no room for the work");
    } else if (walk_begin(&w, &bytes) < 0) {
        PyErr_NoMemory();
        walk_end(&w);
    } else {
        while (walk_next(&w)) {
            done += slice_work(&w, flats[0].at + done, length - done, symbols, taken, bits + done, turns + done);
            taken += most(turns_of(&w.weights), turns_of(&w.zeros));
            symbols += w.header.count + w.zeros_total;
        }
        is_whole = !w.damaged && done == length && (!length || flats[0].at[length - 1] == symbols);
        if (is_whole && length) bits[length - 1] = w.stream.bits;
        walk_end(&w);
    }
    flat_release(flats, 2);
    PyBuffer_Release(&bytes.view);
    return PyErr_Occurred() ? NULL : PyBool_FromLong((long)is_whole);
}
