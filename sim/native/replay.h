/* The machine of the compiled replay as sim/engine has it: its agenda, its ports and what its units keep. Types alone: agenda.h, ports.h and
   units.h, each of which stands on the one before, have what is done with them. */
#ifndef REPLAY_H
#define REPLAY_H

#include "flat.h"

enum { CORES = 2, CHANNELS = 6, PORTS = 2, SERVERS = 2 * PORTS, UNITS = 8, COUNTDOWNS = 2 };
enum { COMMANDS, IFM, WEIGHTS, SCALES, MEM2MEM, OFM };
enum { FETCH, DMA, LOAD, DECODER, MAC, OUTPUT, WRITE, PROCESSOR };

/* The tasks that the agenda resumes: a unit, a server, the countdown of a unit, each of the first two also for the first time, the response to
   a block that was handed over to a port, the arrival of the IFM through a port, the arrival of weights, that of scales; or nobody. */
typedef int Resume;
enum { NOBODY = -1, FIRST_SERVER = UNITS, FIRST_COUNTDOWN = UNITS + SERVERS, FIRST_RESPONSE = FIRST_COUNTDOWN + COUNTDOWNS };
enum { FIRST_LOADED = FIRST_RESPONSE + PORTS, ARRIVAL = FIRST_LOADED + PORTS, SCALES_ARRIVAL, FIRST_START };

#define NEVER ((i64)1 << 62)

/* Why an agenda ends before its time. */
enum { FAILED = 1, BEATEN };

typedef struct {
    i64 cycle, number;
    Resume resume;
} Later;

typedef struct {
    i64 cycle, running, number;
    Resume *due;
    i64 due_length, due_room;
    /* Those that come soonest are the last ones. */
    Later *later;
    i64 later_length, later_room;
    i64 *numbers;
    i64 numbers_length, numbers_room;
    int failed;
} Agenda;

/* Data words of a transfer that are still to be moved: pairs of how often and how many beats, in transactions of at most `burst`. */
typedef struct {
    const i64 *pair;
    i64 pairs, times, left, burst, head;
} Beats;

typedef struct {
    Beats beats;
    Resume done;
    /* Cycles in which the input buffer takes a word; 0: as they come. */
    i64 pace;
} Transfer;

/* Its room, as that of a Fifo, is a power of two. */
typedef struct {
    Transfer *items;
    i64 first, length, room;
} Queue;

/* Words that passed a gate, and the cycle. */
typedef struct {
    i64 cycle, words;
} Passed;

/* The transactions whose words count, soonest first, from `first` on in a ring whose room is a power of two. A period begins in `begin`. */
typedef struct {
    int is_open, slides;
    i64 on, length, cap, words, earliest, begin;
    Passed *passed;
    i64 first, count, room;
} Gate;

typedef struct {
    i64 before, behind, lead, limit, numerator, denominator;
    i64 *finishes, next_finish;
    /* When the input buffer can take more of what is read. */
    i64 filling;
    i64 own_path, *path;
    Gate *gate;
    Queue queues[CHANNELS];
    i64 next_cycle, next_number;
    int work, idle, after;
} Server;

/* A count that grows, a queue and free slots, with one unit at most that waits. */
typedef struct {
    i64 value, level;
    Resume waiting;
} Count;

/* Integers of an item of a queue. Most need fewer, but as many each time are copied without a loop. */
enum { ITEM = 5 };

typedef struct {
    i64 *items;
    i64 first, length, room;
    Resume waiting;
} Fifo;

typedef struct {
    i64 left;
    Resume waiting;
} Slots;

typedef struct {
    i64 index, blockdep, repartitions, port, issued, previous, finished;
    const i64 *work;
    /* Transactions of weights under way; 0: as many as the cores may have. */
    i64 depths, blocks, ifm_pace, weight_bursts;
    Count written;
} Kernel;

typedef struct {
    i64 kind, words, first, second, third, fourth, fifth;
} Operation;
enum { KERNEL_OPERATION, DMA_OPERATION, KERNEL_WAIT, DMA_WAIT, OTHER_OPERATION };

typedef struct {
    i64 word, command_port, most_kernels, most_dmas, pace, slots, kernel_start, blockdep_rule, shram_drains, weights_ahead, grant, lookahead;
    i64 shared_cap, aligned, drain_responses, posted_writes, fetch_words, buffer_words, chunk_beats, chunks_ahead, weight_bursts, weight_slots;
    i64 ifm_ahead, ifm_pace, own_ifm_pace, sliding_cap, scale_words;
    /* Ends in a row that are not sooner than another replay's, after which the rest is taken to be no sooner either. */
    i64 sure;
} Timing;

typedef struct {
    i64 burst, ifm_burst, read_latency, write_latency, most_reads, most_writes, numerator, denominator, shared, pulses, on, length, cap;
} Memory;

typedef struct {
    Agenda agenda;
    Timing timing;
    Memory memories[2];
    const i64 *ports;
    i64 regions;
    Gate gates[SERVERS];
    i64 paths[2];
    Server servers[SERVERS];
    Count fetched, parsed, kernels_done, dmas_done;
    Slots input, weights, accumulators, outputs;
    Fifo kernel_queue, dma_queue, weight_queue, loaded, decoded, accumulated, scaled, weight_news;
    /* Blocks that are handed over and not answered yet, of each port: one that answers soon overtakes the other. */
    Fifo responses[PORTS];
    i64 countdowns[COUNTDOWNS];
    Kernel *kernels;
    const Operation *operations;
    i64 operation_count, kernel_count, words, end, *times, finished, resumed;
    /* Another replay's end of each operation, if there is one (-1: not comparable); how much later these are here; and the last in a row that are not sooner. */
    i64 *others, lag, not_sooner;
    /* The known replay that this one fills, if there is one, and the operation at which the machine is kept next. */
    struct Known *filled;
    i64 next_kept;
    /* Where each unit waits, and what it has at hand. */
    int at[UNITS];
    i64 since[UNITS], *counts;
    i64 requested, fetching;
    i64 command, parsed_end, step, issued_kernels, issued_dmas;
    i64 copying, chunk, chunks, copy_start, copy_issued;
    i64 load_kernel, load_block, load_step, load_all_but, load_ahead;
    i64 decode_kernel, decode_block, decode_step;
    const i64 *load_job, *decode_job;
    /* Weights that are asked for ahead: the steps under way, and what is left to ask for of the last of them. */
    Fifo under_way;
    i64 asked, got, ask_most, ask_core, ask_at[CORES], ask_scales, asks;
    int ask_waits;
    /* Scales with a buffer of their own: blocks, the read at hand, words of it that are asked for, and reads left; transactions under way,
       and those that the output unit has needed so far. */
    Fifo scale_queue;
    const i64 *scale_read;
    i64 scale_at, scale_reads, scales_asked, scales_needed;
    Count scales_there;
    /* Loads of the input buffer that are not handed on yet: what had been asked of each port, the step, since when; and what has arrived. */
    Fifo loads;
    i64 load_asked[PORTS], load_arrived[PORTS], last_load;
    i64 mac_item[ITEM], output_item[ITEM], write_item[ITEM], drained;
} Machine;

/* The counters of every operation: the busy cycles of the units, their waits by cause, and a kernel's data
   beats by port and direction. */
enum {
    BUSY_CC, BUSY_DMA, BUSY_IFM, BUSY_WD, BUSY_MAC, BUSY_AO, BUSY_OFM,
    CC_COMMANDS, CC_KERNEL_QUEUE, CC_DMA_QUEUE, CC_KERNEL_WAIT, CC_DMA_WAIT, CC_DRAIN,
    IFM_START, IFM_BLOCKDEP, IFM_SHRAM, IFM_IB, MAC_IB, MAC_WEIGHTS, MAC_ACC, AO_ACC, AO_OB, AO_SCALES, WD_DW,
    BEATS, COUNTS = BEATS + 4
};

#endif
