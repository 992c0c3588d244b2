/* The units of sim/engine/commands.py and sim/engine/pipeline.py, wait by wait in the same order: each goes on where it waited. */

#include "units.h"

/* A unit is a function that is entered again at the line where it left off. */
#define BEGIN switch (m->at[me]) { case 0:
#define YIELD do { m->at[me] = __LINE__; return; case __LINE__:; } while (0)
#define WAIT(condition) do { if (condition) { m->at[me] = __LINE__; return; case __LINE__:; } } while (0)
#define END }

/* Wait and count the cycles for an operation. */
#define COUNTED(operation, what, condition) do { m->since[me] = m->agenda.cycle; WAIT(condition); counted(m, me, operation, what); } while (0)

static void counted(Machine *m, int me, i64 operation, int what)
{
    if (m->counts && operation >= 0) m->counts[operation * COUNTS + what] += m->agenda.cycle - m->since[me];
}

static int must_wait(Machine *m, Resume me)
{
    if (m->agenda.due[m->agenda.due_length - 1] == me) return 0;
    due_add(&m->agenda, me);
    return 1;
}

static void wake(Machine *m, Resume *waiting)
{
    if (*waiting == NOBODY) return;
    due_add(&m->agenda, *waiting);
    *waiting = NOBODY;
}

static int reach(Machine *m, Count *count, i64 level, Resume me)
{
    if (count->value >= level) return must_wait(m, me);
    count->level = level;
    count->waiting = me;
    return 1;
}

static void advance(Machine *m, Count *count, i64 by)
{
    count->value += by;
    if (count->value >= count->level) wake(m, &count->waiting);
}

static int take(Machine *m, Slots *slots, Resume me)
{
    if (!slots->left) {
        slots->waiting = me;
        return 1;
    }
    slots->left--;
    return must_wait(m, me);
}

static void release(Machine *m, Slots *slots)
{
    if (slots->waiting == NOBODY) slots->left++;
    else wake(m, &slots->waiting);
}

/* A longer ring for a queue that is full, a power of two. */
static int fifo_room(Machine *m, Fifo *fifo)
{
    i64 room = fifo->room ? 2 * fifo->room : 16;
    i64 *items = malloc((size_t)(room * ITEM) * sizeof(i64));
    if (!items) {
        m->agenda.failed = FAILED;
        return 0;
    }
    for (i64 i = 0; i < fifo->length; i++)
        memcpy(items + i * ITEM, fifo->items + ((fifo->first + i) & (fifo->room - 1)) * ITEM, ITEM * sizeof(i64));
    free(fifo->items);
    fifo->items = items;
    fifo->first = 0;
    fifo->room = room;
    return 1;
}

static inline void put(Machine *m, Fifo *fifo, const i64 *item)
{
    if (fifo->length == fifo->room && !fifo_room(m, fifo)) return;
    memcpy(fifo->items + ((fifo->first + fifo->length++) & (fifo->room - 1)) * ITEM, item, ITEM * sizeof(i64));
    wake(m, &fifo->waiting);
}

static int is_empty(Machine *m, Fifo *fifo, Resume me)
{
    if (fifo->length) return must_wait(m, me);
    fifo->waiting = me;
    return 1;
}

static inline void pop(Fifo *fifo, i64 *item)
{
    memcpy(item, fifo->items + fifo->first * ITEM, ITEM * sizeof(i64));
    fifo->first = (fifo->first + 1) & (fifo->room - 1);
    fifo->length--;
}

static const i64 *job_of(const Kernel *kernel, i64 block)
{
    const i64 *work = kernel->work;
    if (kernel->depths == 1) return work + work[work[4] + work[work[3] + block]];
    i64 column = work[work[3] + block / kernel->depths];
    return work + work[work[4] + column * kernel->depths + block % kernel->depths];
}

/* Queue the reads of a list; `done` is resumed with each. */
static void ask_for(Machine *m, const i64 *work, i64 list, int channel, Resume done)
{
    if (!list) return;
    const i64 *read = work + list;
    for (i64 left = *read++; left; left--) {
        transfer(m, m->ports[read[0]], 0, channel, read + 3, read[2], read[1], done);
        read += 3 + 2 * read[2];
    }
}

static i64 reads_in(const i64 *work, i64 list) { return list ? work[list] : 0; }

/* Whether there is anything to read; the unit is resumed when all is there. */
static int ask(Machine *m, const i64 *work, i64 list, int channel, i64 second, int second_channel, Resume me)
{
    i64 count = reads_in(work, list) + reads_in(work, second);
    if (!count) return 0;
    Resume done = me;
    if (count > 1) {
        done = FIRST_COUNTDOWN + me - LOAD;
        m->countdowns[me - LOAD] = count;
    }
    ask_for(m, work, list, channel, done);
    ask_for(m, work, second, second_channel, done);
    return 1;
}

/* An operation is over: when it was issued and finished, and which it is. */
static void finish(Machine *m, i64 operation, i64 issued)
{
    i64 *entry = m->times + 3 * m->finished++;
    entry[0] = operation;
    entry[1] = issued;
    entry[2] = m->agenda.cycle;
    if (!m->others || m->others[operation] < 0) return;
    m->lag += entry[2] - m->others[operation];
    m->not_sooner = entry[2] < m->others[operation] ? 0 : m->not_sooner + 1;
    if (m->not_sooner >= m->timing.sure && m->lag >= 0) m->agenda.failed = BEATEN;
}

static void command_fetch(Machine *m)
{
    const int me = FETCH;
    const Timing *t = &m->timing;
    BEGIN
    while (m->requested < m->words) {
        WAIT(reach(m, &m->parsed, m->requested + t->fetch_words - t->buffer_words, me));
        m->fetching = least(t->fetch_words, m->words - m->requested);
        transfer_beats(m, t->command_port, 0, COMMANDS,
                       div_up((m->requested + m->fetching) * 4, t->word) - div_up(m->requested * 4, t->word), 0, me);
        YIELD;
        advance(m, &m->fetched, m->fetching);
        m->requested += m->fetching;
    }
    END
    m->at[me] = -1;
}

static void command_processor(Machine *m)
{
    const int me = PROCESSOR;
    i64 item[ITEM] = {0};
    BEGIN
    for (m->command = 0; m->command < m->operation_count; m->command++) {
        m->parsed_end += m->operations[m->command].words;
        while (m->parsed.value < m->parsed_end) {
            m->step = least(m->timing.fetch_words, m->parsed_end - m->parsed.value);
            COUNTED(m->command, CC_COMMANDS, reach(m, &m->fetched, m->parsed.value + m->step, me));
            COUNTED(m->command, BUSY_CC, later(&m->agenda, m->step * m->timing.pace, me));
            advance(m, &m->parsed, m->step);
        }
        if (m->operations[m->command].kind == KERNEL_OPERATION) {
            COUNTED(m->command, CC_KERNEL_QUEUE, reach(m, &m->kernels_done, m->issued_kernels + 1 - m->timing.most_kernels, me));
            m->kernels[m->issued_kernels].issued = m->agenda.cycle;
            item[0] = m->issued_kernels++;
            put(m, &m->kernel_queue, item);
        } else if (m->operations[m->command].kind == DMA_OPERATION) {
            COUNTED(m->command, CC_DMA_QUEUE, reach(m, &m->dmas_done, m->issued_dmas + 1 - m->timing.most_dmas, me));
            item[0] = m->command;
            item[1] = m->agenda.cycle;
            put(m, &m->dma_queue, item);
            m->issued_dmas++;
        } else if (m->operations[m->command].kind == KERNEL_WAIT) {
            COUNTED(m->command, CC_KERNEL_WAIT, reach(m, &m->kernels_done, m->issued_kernels - m->operations[m->command].first, me));
        } else if (m->operations[m->command].kind == DMA_WAIT) {
            COUNTED(m->command, CC_DMA_WAIT, reach(m, &m->dmas_done, m->issued_dmas - m->operations[m->command].first, me));
        }
    }
    COUNTED(m->operation_count - 1, CC_DRAIN, reach(m, &m->kernels_done, m->issued_kernels, me));
    COUNTED(m->operation_count - 1, CC_DRAIN, reach(m, &m->dmas_done, m->issued_dmas, me));
    m->end = m->agenda.cycle;
    END
    m->at[me] = -1;
}

/* A copy: source port and word address, target port (less than nothing: the shared buffer) and word address, beats. */
static i64 chunk_start(const Machine *m, const Operation *op, i64 chunk)
{
    if (!chunk) return 0;
    return least(op->fifth, chunk * m->timing.chunk_beats - op->second % m->timing.chunk_beats);
}

static void read_chunk(Machine *m, const Operation *op, i64 chunk, Resume me)
{
    i64 start = chunk_start(m, op, chunk);
    transfer_beats(m, op->first, 0, MEM2MEM, chunk_start(m, op, chunk + 1) - start, op->second + start, me);
}

static void dma(Machine *m)
{
    const int me = DMA;
    const Operation *op;
    i64 item[ITEM] = {0}, start;
    BEGIN
    for (;;) {
        WAIT(is_empty(m, &m->dma_queue, me));
        pop(&m->dma_queue, item);
        m->copying = item[0];
        m->copy_issued = item[1];
        m->since[me] = m->agenda.cycle;
        op = &m->operations[m->copying];
        for (m->chunks = 0; op->fifth > chunk_start(m, op, m->chunks); m->chunks++) {}
        WAIT(!m->chunks && soon(&m->agenda, me));
        op = &m->operations[m->copying];
        for (m->chunk = 0; m->chunk < least(m->chunks, m->timing.chunks_ahead); m->chunk++) read_chunk(m, op, m->chunk, me);
        for (m->chunk = 0; m->chunk < m->chunks; m->chunk++) {
            op = &m->operations[m->copying];
            if (0 < m->chunk && m->chunk <= m->chunks - m->timing.chunks_ahead) read_chunk(m, op, m->chunk + m->timing.chunks_ahead - 1, me);
            YIELD;
            op = &m->operations[m->copying];
            if (op->third < 0) continue;
            start = chunk_start(m, op, m->chunk);
            transfer_beats(m, op->third, 1, MEM2MEM, chunk_start(m, op, m->chunk + 1) - start, op->fourth + start,
                           m->chunk == m->chunks - 1 ? me : NOBODY);
        }
        if (m->chunks && m->operations[m->copying].third >= 0) {
            YIELD;
            WAIT(m->servers[2 * m->operations[m->copying].third + 1].behind &&
                 later(&m->agenda, m->servers[2 * m->operations[m->copying].third + 1].behind, me));
        }
        counted(m, me, m->copying, BUSY_DMA);
        finish(m, m->copying, m->copy_issued);
        advance(m, &m->dmas_done, 1);
    }
    END
}

/* Tell a decoder that asks ahead that something has changed. */
static void tell_weights(Machine *m)
{
    i64 item[ITEM] = {0};
    if (m->timing.weight_bursts) put(m, &m->weight_news, item);
}

/* Words of a transaction of scales at most. */
static i64 scale_burst(const Machine *m, const i64 *read) { return least(m->memories[m->ports[read[0]]].burst, m->timing.scale_words); }

/* Transactions of a list of scales. */
static i64 scale_transactions(const Machine *m, const i64 *work, i64 list)
{
    i64 count = 0;
    const i64 *read = work + list + 1;
    for (i64 left = reads_in(work, list); left; left--, read += 3 + 2 * read[2])
        count += div_up(read[1] % scale_burst(m, read) + read[4], scale_burst(m, read));
    return count;
}

/* The read of scales at hand, of this block or the next; none: NULL. */
static const i64 *next_scales(Machine *m)
{
    i64 item[ITEM];
    for (;;) {
        if (m->scale_reads && m->scale_at < m->scale_read[4]) return m->scale_read;
        if (m->scale_reads) {
            m->scale_read += 3 + 2 * m->scale_read[2];
            m->scale_reads--;
        } else {
            if (!m->scale_queue.length) return NULL;
            i64 *run = m->scale_queue.items + m->scale_queue.first * ITEM;
            const Kernel *kernel = &m->kernels[run[0]];
            i64 list = job_of(kernel, run[1]++)[2];
            m->scale_reads = reads_in(kernel->work, list);
            m->scale_read = kernel->work + list + 1;
            if (run[1] == run[2]) pop(&m->scale_queue, item);
        }
        m->scale_at = 0;
    }
}

/* If no scales are under way, ask for as many as their buffer holds. */
static void ask_scales(Machine *m)
{
    const i64 *read;
    i64 room = m->scales_asked ? 0 : m->timing.scale_words;
    while (room && (read = next_scales(m))) {
        i64 burst = scale_burst(m, read), beats = least(read[4] - m->scale_at, burst - (read[1] + m->scale_at) % burst);
        if (beats > room) return;
        room -= beats;
        transfer_beats(m, m->ports[read[0]], 0, SCALES, beats, read[1] + m->scale_at, SCALES_ARRIVAL);
        m->scale_at += beats;
        m->scales_asked++;
    }
}

void scales_arrived(Machine *m)
{
    m->scales_asked--;
    advance(m, &m->scales_there, 1);
    ask_scales(m);
}

/* Let the decoder go on with blocks `first` to `last` (exclusive) of a kernel. */
static void put_weights(Machine *m, i64 kernel, i64 first, i64 last)
{
    i64 item[ITEM] = {kernel, first, last};
    if (first < last) put(m, &m->weight_queue, item);
    if (first < last && m->timing.scale_words) {
        put(m, &m->scale_queue, item);
        ask_scales(m);
    }
    tell_weights(m);
}

/* The decoder's next block: its queue holds runs of blocks. */
static void pop_weights(Machine *m)
{
    i64 *run = m->weight_queue.items + m->weight_queue.first * ITEM, item[ITEM];
    m->decode_kernel = run[0];
    m->decode_block = run[1]++;
    if (run[1] == run[2]) pop(&m->weight_queue, item);
}

/* The reads of a step that has a slot of its own, or goes on in that of the one before. */
static i64 fetched(i64 list) { return list < 0 ? -1 - list : list; }

/* Hand on, in their turn, the loads that are there. */
static void hand_on(Machine *m)
{
    i64 item[ITEM];
    while (m->loads.length) {
        const i64 *first = m->loads.items + m->loads.first * ITEM;
        if (first[0] > m->load_arrived[0] || first[1] > m->load_arrived[1]) return;
        i64 since = most(first[2], m->last_load);
        pop(&m->loads, item);
        pop(&m->loads, item);
        if (m->counts) m->counts[m->kernels[item[0]].index * COUNTS + BUSY_IFM] += m->agenda.cycle - since;
        m->last_load = m->agenda.cycle;
        put(m, &m->loaded, item);
    }
}

void ifm_arrived(Machine *m, int port)
{
    m->load_arrived[port]++;
    hand_on(m);
}

/* Read the IFM of a step into a slot that is taken, or in the one before: two items of the queue. */
static void ask_ahead(Machine *m, const i64 *work, i64 list, const i64 *step)
{
    if (list) {
        const i64 *read = work + list;
        for (i64 left = *read++; left; left--) {
            i64 port = m->ports[read[0]];
            m->load_asked[port]++;
            transfer(m, port, 0, IFM, read + 3, read[2], read[1], FIRST_LOADED + (Resume)port);
            read += 3 + 2 * read[2];
        }
    }
    i64 asked[ITEM] = {m->load_asked[0], m->load_asked[1], m->agenda.cycle};
    put(m, &m->loads, asked);
    put(m, &m->loads, step);
    hand_on(m);
}

/* As COUNTED, of the input load: it is at work as long as loads are under way. */
#define LOADING(what, condition) do { \
    m->since[me] = m->agenda.cycle; WAIT(condition); \
    if (!m->loads.length) { m->since[me] = most(m->since[me], m->last_load); counted(m, me, m->kernels[m->load_kernel].index, what); } \
} while (0)

static void input_load(Machine *m)
{
    const int me = LOAD;
    const i64 *job;
    i64 item[ITEM] = {0};
    Kernel *kernel;
    BEGIN
    for (;;) {
        WAIT(is_empty(m, &m->kernel_queue, me));
        pop(&m->kernel_queue, item);
        m->load_kernel = item[0];
        kernel = &m->kernels[m->load_kernel];
        if (m->timing.weights_ahead) put_weights(m, m->load_kernel, 0, kernel->blocks);
        LOADING(IFM_SHRAM, m->load_kernel && m->kernels[m->load_kernel].repartitions && m->timing.shram_drains &&
                               reach(m, &m->kernels[m->load_kernel - 1].written, m->kernels[m->load_kernel - 1].blocks, me));
        kernel = &m->kernels[m->load_kernel];
        m->load_all_but = m->load_ahead = 0;
        if (m->load_kernel && m->timing.blockdep_rule != 1) {
            m->load_all_but = kernel[-1].blocks;
            m->load_ahead = m->timing.blockdep_rule ? 0 : kernel->blockdep;
        }
        for (m->load_block = 0; m->load_block < m->kernels[m->load_kernel].blocks; m->load_block++) {
            m->load_job = job_of(&m->kernels[m->load_kernel], m->load_block);
            if (m->load_kernel) {
                LOADING(IFM_BLOCKDEP,
                        reach(m, &m->kernels[m->load_kernel - 1].written, m->load_all_but - most(0, m->load_ahead - m->load_block), me));
                if (!m->load_block && m->load_all_but && !m->load_ahead) {
                    kernel = &m->kernels[m->load_kernel - 1];
                    m->drained = kernel->finished + m->timing.drain_responses * m->servers[2 * kernel->port + 1].behind - m->agenda.cycle;
                    LOADING(IFM_BLOCKDEP, m->drained > 0 && later(&m->agenda, m->drained, me));
                }
            }
            if (!m->timing.weights_ahead) put_weights(m, m->load_kernel, m->load_block, m->load_block + 1);
            LOADING(IFM_START, !m->load_block && m->timing.kernel_start && later(&m->agenda, m->timing.kernel_start, me));
            for (m->load_step = 0; m->load_step < m->load_job[3]; m->load_step++) {
                LOADING(IFM_IB, m->load_job[4 + 3 * m->load_step] >= 0 && take(m, &m->input, me));
                if (!m->timing.ifm_ahead)
                    COUNTED(m->kernels[m->load_kernel].index, BUSY_IFM,
                            ask(m, m->kernels[m->load_kernel].work, fetched(m->load_job[4 + 3 * m->load_step]), IFM, 0, IFM, me));
                job = m->load_job;
                item[4] = job - m->kernels[m->load_kernel].work;
                item[0] = m->load_kernel;
                item[1] = m->load_block;
                item[2] = job[4 + 3 * m->load_step + 2];
                item[3] = (m->load_step == 0) + 2 * (m->load_step == job[3] - 1);
                /* The next step does not go on with the same IFM block. */
                if (m->load_step == job[3] - 1 || job[4 + 3 * (m->load_step + 1)] >= 0) item[3] += 4;
                if (m->timing.ifm_ahead) ask_ahead(m, m->kernels[m->load_kernel].work, fetched(job[4 + 3 * m->load_step]), item);
                else put(m, &m->loaded, item);
            }
        }
    }
    END
}

void weights_arrived(Machine *m)
{
    m->got++;
    tell_weights(m);
}

/* Note the step at hand as under way if nothing is left to ask for. */
static void note_asked(Machine *m)
{
    i64 item[ITEM] = {m->kernels[m->decode_kernel].index, m->asked};
    if (!m->asks) put(m, &m->under_way, item);
}

/* Begin with the next step of the block at hand, in a slot that is taken. */
static void begin_step(Machine *m)
{
    const Kernel *kernel = &m->kernels[m->decode_kernel];
    const i64 *job = job_of(kernel, m->decode_block), *read;
    i64 weights = job[4 + 3 * m->decode_step + 1];
    m->ask_scales = m->decode_step || m->timing.scale_words ? 0 : job[2];
    m->ask_core = 0;
    m->ask_most = kernel->weight_bursts ? kernel->weight_bursts : m->timing.weight_bursts;
    m->asks = reads_in(kernel->work, m->ask_scales);
    if (weights) {
        read = kernel->work + weights + 1;
        for (i64 core = 0; core < kernel->work[weights] && core < CORES; core++, read += 3 + 2 * read[2]) {
            i64 burst = m->memories[m->ports[read[0]]].burst, head = (burst - read[1] % burst) % burst;
            m->ask_at[core] = 0;
            m->asks += head && head < read[4] ? 1 + div_up(read[4] - head, burst) : head ? 1 : div_up(read[4], burst);
        }
    }
    m->decode_step++;
    note_asked(m);
}

/* Ask for one transaction of the step at hand: the cores in turn, and then its scales. */
static void ask_burst(Machine *m)
{
    const Kernel *kernel = &m->kernels[m->decode_kernel];
    const i64 *job = job_of(kernel, m->decode_block), *work = kernel->work;
    i64 weights = job[4 + 3 * (m->decode_step - 1) + 1], scales = reads_in(work, m->ask_scales);
    m->asked++;
    m->asks--;
    if (m->asks < scales) {
        const i64 *read = work + m->ask_scales + 1;
        for (i64 number = scales - 1 - m->asks; number; number--) read += 3 + 2 * read[2];
        transfer(m, m->ports[read[0]], 0, SCALES, read + 3, read[2], read[1], ARRIVAL);
    } else {
        for (;;) {
            const i64 *read = work + weights + 1;
            i64 core = m->ask_core;
            for (i64 number = core; number; number--) read += 3 + 2 * read[2];
            m->ask_core = (core + 1) % least(work[weights], CORES);
            i64 at = m->ask_at[core], burst = m->memories[m->ports[read[0]]].burst;
            if (at >= read[4]) continue;
            i64 beats = least(read[4] - at, burst - (read[1] + at) % burst);
            m->ask_at[core] += beats;
            transfer_beats(m, m->ports[read[0]], 0, WEIGHTS, beats, read[1] + at, ARRIVAL);
            break;
        }
    }
    note_asked(m);
}

/* The operation whose weights are waited for. */
static i64 under_way(const Machine *m)
{
    return m->under_way.length ? m->under_way.items[m->under_way.first * ITEM] : m->kernels[m->decode_kernel].index;
}

static int is_there(const Machine *m)
{
    return m->under_way.length && m->under_way.items[m->under_way.first * ITEM + 1] <= m->got;
}

/* Whether a step is at hand that was not begun, of this block or the next. */
static int next_step(Machine *m)
{
    if (m->decode_kernel >= 0 && m->decode_step < job_of(&m->kernels[m->decode_kernel], m->decode_block)[3]) return 1;
    if (!m->weight_queue.length) return 0;
    pop_weights(m);
    m->decode_step = 0;
    return 1;
}

/* Keep as many transactions under way as the cores may have; what arrives lets the next ones go. */
static void decoder_ahead(Machine *m)
{
    const int me = DECODER;
    i64 item[ITEM] = {0};
    BEGIN
    m->decode_kernel = -1;
    m->ask_most = m->timing.weight_bursts;
    for (;;) {
        while (is_there(m)) {
            pop(&m->under_way, item);
            put(m, &m->decoded, item);
        }
        while (m->asked - m->got < m->ask_most && !m->agenda.failed) {
            if (m->asks) {
                ask_burst(m);
                continue;
            }
            if (!next_step(m) || !m->weights.left) break;
            m->weights.left--;
            begin_step(m);
        }
        if (is_there(m)) continue;
        /* Less than nothing: nobody waits. */
        m->ask_waits = m->asked > m->got ? BUSY_WD : next_step(m) ? WD_DW : -1;
        m->since[me] = m->agenda.cycle;
        WAIT(is_empty(m, &m->weight_news, me));
        pop(&m->weight_news, item);
        if (m->ask_waits >= 0) counted(m, me, m->ask_waits == BUSY_WD ? under_way(m) : m->kernels[m->decode_kernel].index, m->ask_waits);
    }
    END
}

static void weight_decoder(Machine *m)
{
    const int me = DECODER;
    const i64 *job;
    i64 item[ITEM] = {0};
    BEGIN
    for (;;) {
        WAIT(is_empty(m, &m->weight_queue, me));
        pop_weights(m);
        m->decode_job = job_of(&m->kernels[m->decode_kernel], m->decode_block);
        for (m->decode_step = 0; m->decode_step < m->decode_job[3]; m->decode_step++) {
            COUNTED(m->kernels[m->decode_kernel].index, WD_DW, take(m, &m->weights, me));
            job = m->decode_job;
            COUNTED(m->kernels[m->decode_kernel].index, BUSY_WD,
                    ask(m, m->kernels[m->decode_kernel].work, job[4 + 3 * m->decode_step + 1], WEIGHTS,
                        m->decode_step || m->timing.scale_words ? 0 : job[2], SCALES, me));
            item[0] = 0;
            put(m, &m->decoded, item);
        }
    }
    END
}

static void mac_array(Machine *m)
{
    const int me = MAC;
    i64 item[ITEM] = {0};
    BEGIN
    for (;;) {
        m->since[me] = m->agenda.cycle;
        WAIT(is_empty(m, &m->loaded, me));
        pop(&m->loaded, m->mac_item);
        counted(m, me, m->kernels[m->mac_item[0]].index, MAC_IB);
        COUNTED(m->kernels[m->mac_item[0]].index, MAC_WEIGHTS, is_empty(m, &m->decoded, me));
        pop(&m->decoded, item);
        COUNTED(m->kernels[m->mac_item[0]].index, MAC_ACC, (m->mac_item[3] & 1) && take(m, &m->accumulators, me));
        COUNTED(m->kernels[m->mac_item[0]].index, BUSY_MAC, m->mac_item[2] && later(&m->agenda, m->mac_item[2], me));
        if (m->mac_item[3] & 4) release(m, &m->input);
        release(m, &m->weights);
        tell_weights(m);
        if (m->mac_item[3] & 2) put(m, &m->accumulated, m->mac_item);
    }
    END
}

static void output_unit(Machine *m)
{
    const int me = OUTPUT;
    const Kernel *kernel;
    BEGIN
    for (;;) {
        m->since[me] = m->agenda.cycle;
        WAIT(is_empty(m, &m->accumulated, me));
        pop(&m->accumulated, m->output_item);
        counted(m, me, m->kernels[m->output_item[0]].index, AO_ACC);
        COUNTED(m->kernels[m->output_item[0]].index, AO_OB, take(m, &m->outputs, me));
        if (m->timing.scale_words) {
            kernel = &m->kernels[m->output_item[0]];
            m->scales_needed += scale_transactions(m, kernel->work, kernel->work[m->output_item[4] + 2]);
            COUNTED(m->kernels[m->output_item[0]].index, AO_SCALES, reach(m, &m->scales_there, m->scales_needed, me));
        }
        COUNTED(m->kernels[m->output_item[0]].index, BUSY_AO,
                later(&m->agenda, m->kernels[m->output_item[0]].work[m->output_item[4]], me));
        release(m, &m->accumulators);
        put(m, &m->scaled, m->output_item);
    }
    END
}

/* Count a block as stored. */
static void stored(Machine *m, const i64 *item)
{
    Kernel *kernel = &m->kernels[item[0]];
    if (item[1] == kernel->blocks - 1) {
        kernel->finished = m->agenda.cycle;
        finish(m, kernel->index, kernel->issued);
        advance(m, &m->kernels_done, 1);
    }
    advance(m, &kernel->written, 1);
}

void responded(Machine *m, int port)
{
    i64 item[ITEM] = {0};
    pop(&m->responses[port], item);
    stored(m, item);
}

static void write_back(Machine *m)
{
    const int me = WRITE;
    const i64 *writes;
    Kernel *kernel;
    BEGIN
    for (;;) {
        WAIT(is_empty(m, &m->scaled, me));
        pop(&m->scaled, m->write_item);
        kernel = &m->kernels[m->write_item[0]];
        writes = kernel->work + kernel->work[m->write_item[4] + 1];
        transfer(m, kernel->port, 1, OFM, writes + 1, writes[0], 0, me);
        m->since[me] = m->agenda.cycle;
        YIELD;
        counted(m, me, m->kernels[m->write_item[0]].index, BUSY_OFM);
        COUNTED(m->kernels[m->write_item[0]].index, BUSY_OFM,
                !m->timing.posted_writes && m->servers[2 * m->kernels[m->write_item[0]].port + 1].behind &&
                    later(&m->agenda, m->servers[2 * m->kernels[m->write_item[0]].port + 1].behind, me));
        release(m, &m->outputs);
        kernel = &m->kernels[m->write_item[0]];
        if (m->timing.posted_writes && m->servers[2 * kernel->port + 1].behind) {
            put(m, &m->responses[kernel->port], m->write_item);
            later_add(&m->agenda, m->agenda.cycle + m->servers[2 * kernel->port + 1].behind, m->agenda.number++, FIRST_RESPONSE + (Resume)kernel->port);
        } else {
            stored(m, m->write_item);
        }
    }
    END
}

void run_unit(Machine *m, int unit)
{
    static void (*const RUN[UNITS])(Machine *) = {
        [FETCH] = command_fetch, [DMA] = dma,          [LOAD] = input_load,   [DECODER] = weight_decoder,
        [MAC] = mac_array,       [OUTPUT] = output_unit, [WRITE] = write_back, [PROCESSOR] = command_processor,
    };
    if (unit == DECODER && m->timing.weight_bursts) decoder_ahead(m);
    else if (m->at[unit] >= 0) RUN[unit](m);
}
