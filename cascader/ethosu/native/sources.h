/* Where a kernel reads, as cascader/ethosu/cost/memory_path.py has it. */
#ifndef SOURCES_H
#define SOURCES_H

#include "flat.h"

typedef struct {
    double word, latency, reads, burst, sustained;
} Source;

/* Memories of the feature maps and of the constants, and the NPU's timing: Sources.flat. */
typedef struct {
    Source maps, home;
    double shared, shared_cap, drain_responses, slot_response, single, kernel_start, weights_ahead, apart, store_word, store_pace;
    double ifm_ahead, bursts_ahead, fill, word_bytes, stores_queue, write_latency, most_writes, turn_share, issued_ahead;
    double read_behind, constants_behind, gap;
} Sources;

enum { SOURCES_SIZE = sizeof(Sources) / sizeof(double) };

static inline double larger(double a, double b) { return b > a ? b : a; }

static inline i64 ceiling(double value)
{
    i64 whole = (i64)value;
    return whole + ((double)whole < value);
}

/* Source.cycles */
static inline double source_cycles(const Source *source, i64 words, i64 transactions)
{
    double path = (double)words * source->word;
    return source->reads != 0 ? larger(path, ((double)(transactions * (i64)source->latency) + path) / source->reads) : path;
}

/* Source.rate */
static inline double source_rate(const Source *source)
{
    return larger(source_cycles(source, (i64)source->burst, 1) / source->burst, source->sustained);
}

/* Sources.stores_path */
static inline double stores_path(const Sources *sources, double read, double constants, double written)
{
    return read * sources->read_behind + (constants * sources->constants_behind + written) * sources->store_word;
}

/* Sources.moving */
static inline double moving_cycles(const Sources *sources, i64 read, i64 written)
{
    double both = (double)(read + written), pace = larger(sources->maps.word, sources->maps.sustained);
    if (sources->apart != 0) return larger((double)read * pace, (double)written * sources->store_pace);
    return sources->shared_cap != 0 ? both * pace : larger(both * sources->maps.word, (double)most(read, written) * pace);
}

#endif
