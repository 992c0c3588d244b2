/* The ports of sim/engine/ports.py with their lanes and gates: how transactions go is worked out as it comes, not looked up. */

#include "ports.h"

static void start_beats(Beats *beats, const i64 *pairs, i64 count, i64 phase, i64 burst)
{
    /* Most bursts are powers of two: a division takes as long as a transaction. */
    i64 over = burst & (burst - 1) ? phase % burst : phase & (burst - 1), head = over ? burst - over : 0;
    beats->burst = burst;
    beats->pair = pairs;
    beats->pairs = count;
    beats->times = pairs[0];
    beats->left = pairs[1];
    /* The first transaction of an unaligned run is shorter. */
    beats->head = head && head < pairs[1] ? head : 0;
}

/* Words of the next transaction; 0 behind the last one. */
static i64 next_beats(Beats *beats)
{
    while (!beats->left) {
        if (beats->times > 1) {
            beats->times--;
        } else {
            if (beats->pairs <= 1) return 0;
            beats->pairs--;
            beats->pair += 2;
            beats->times = beats->pair[0];
        }
        beats->left = beats->pair[1];
    }
    i64 words = least(beats->left, beats->head ? beats->head : beats->burst);
    beats->head = 0;
    beats->left -= words;
    return words;
}

static int is_over(const Beats *beats) { return !beats->left && beats->times <= 1 && beats->pairs <= 1; }

static int gate_room(Machine *m, Gate *gate)
{
    i64 room = gate->room ? 2 * gate->room : 1024;
    Passed *moved = malloc((size_t)room * sizeof(Passed));
    if (!moved) {
        m->agenda.failed = FAILED;
        return 0;
    }
    for (i64 i = 0; i < gate->count; i++) moved[i] = gate->passed[(gate->first + i) & (gate->room - 1)];
    free(gate->passed);
    gate->passed = moved;
    gate->first = 0;
    gate->room = room;
    return 1;
}

/* When a transaction is issued that could be from `time` on. */
static inline i64 admit(Machine *m, Gate *gate, i64 time, i64 words)
{
    i64 mask = gate->room - 1;
    while (gate->words >= gate->cap) {
        const Passed *oldest = &gate->passed[gate->first];
        gate->words -= oldest->words;
        gate->earliest = oldest->cycle + gate->length;
        gate->first = (gate->first + 1) & mask;
        gate->count--;
    }
    time = most(time, gate->earliest);
    /* Most transactions are issued in the period of the one before: a division takes longer than all else here. */
    if (time < gate->begin || time - gate->begin >= gate->length) gate->begin = time / gate->length * gate->length;
    if (time - gate->begin >= gate->on) time = gate->begin += gate->length;
    if (gate->cap == NEVER) return time;
    if (gate->count == gate->room) {
        if (!gate_room(m, gate)) return time;
        mask = gate->room - 1;
    }
    gate->words += words;
    Passed added = {gate->slides ? time : gate->begin, words};
    i64 place = gate->count++;
    for (; place; place--) {
        const Passed *before = &gate->passed[(gate->first + place - 1) & mask];
        if (before->cycle <= added.cycle) break;
        gate->passed[(gate->first + place) & mask] = *before;
    }
    gate->passed[(gate->first + place) & mask] = added;
    return time;
}

/* The first whole cycle at which a path is free. */
static inline i64 whole(i64 path, i64 denominator) { return denominator == 1 ? path : div_up(path, denominator); }

/* One turn that starts in `cycle`: the cycle after its last issue, and when its last transaction is complete. */
static inline i64 turn(Machine *m, Server *s, Beats *waiting, i64 cycle, i64 *finish, i64 pace, const i64 denominator)
{
    const i64 before = s->before, behind = s->behind, lead = s->lead, limit = s->limit, numerator = s->numerator;
    Gate *gate = s->gate->is_open ? NULL : s->gate;
    Beats beats = *waiting;
    i64 path = *s->path, free = whole(path, denominator), time = cycle - 1, next = s->next_finish, *finishes = s->finishes;
    i64 filling = s->filling, end = free;
    for (i64 left = m->timing.grant; left && !is_over(&beats); left--) {
        i64 words = next_beats(&beats);
        time = most(time + 1, (pace ? most(free, filling) : free) - lead);
        if (limit) time = most(time, finishes[next]);
        if (gate) time = admit(m, gate, time, words);
        path = most(path, (time + before) * denominator) + words * numerator;
        end = free = whole(path, denominator);
        if (pace) {
            filling = most(filling, time + before) + pace * words;
            end = most(free, filling);
        }
        if (limit) {
            finishes[next] = end + behind;
            if (++next == limit) next = 0;
        }
    }
    *finish = end + behind;
    s->filling = filling;
    s->next_finish = next;
    *s->path = path;
    *waiting = beats;
    return time + 1;
}

static i64 turn_of_any(Machine *m, Server *s, Beats *waiting, i64 cycle, i64 *finish, i64 pace)
{
    return turn(m, s, waiting, cycle, finish, pace, s->denominator);
}

/* The same where a word takes one cycle, and the input buffer takes all as it comes: without divisions. */
static i64 turn_of_whole(Machine *m, Server *s, Beats *waiting, i64 cycle, i64 *finish) { return turn(m, s, waiting, cycle, finish, 0, 1); }

/* The first channel with work, from the one after the last on. */
static int pick(int after, int work)
{
    for (int channel = after; channel < CHANNELS; channel++)
        if (work >> channel & 1) return channel;
    for (int channel = 0; channel < after; channel++)
        if (work >> channel & 1) return channel;
    return 0;
}

void serve(Machine *m, int number)
{
    Server *s = &m->servers[number];
    Agenda *a = &m->agenda;
    Resume me = FIRST_SERVER + number;
    while (!a->failed) {
        if (!s->work) {
            s->idle = 1;
            return;
        }
        int channel = pick(s->after, s->work);
        s->after = channel + 1;
        Queue *queue = &s->queues[channel];
        Transfer *first = &queue->items[queue->first];
        int is_next = a->due[a->due_length - 1] == me;
        i64 horizon = is_next && s->work == 1 << channel ? soonest(a) : 0;
        i64 since = a->cycle, finish = 0, pace = first->pace;
        do since = s->denominator == 1 && !pace ? turn_of_whole(m, s, &first->beats, since, &finish) : turn_of_any(m, s, &first->beats, since, &finish, pace);
        while (!is_over(&first->beats) && since < horizon && !a->failed);
        if (is_over(&first->beats)) {
            if (first->done != NOBODY) later_add(a, finish - s->behind, a->number++, first->done);
            if (++queue->first == queue->room) queue->first = 0;
            if (!--queue->length) {
                s->work &= ~(1 << channel);
                if (!s->work) {
                    s->next_cycle = since;
                    s->next_number = a->number++;
                    continue;
                }
            }
        }
        if (is_next && soonest(a) > since) {
            a->cycle = since;
            a->running = NEVER;
        } else {
            later_add(a, since, a->number++, me);
            return;
        }
    }
}

static Transfer *queue_add(Machine *m, Queue *queue)
{
    if (queue->length == queue->room) {
        i64 room = queue->room ? 2 * queue->room : 8;
        Transfer *items = malloc((size_t)room * sizeof(Transfer));
        if (!items) {
            m->agenda.failed = FAILED;
            return NULL;
        }
        for (i64 i = 0; i < queue->length; i++) items[i] = queue->items[(queue->first + i) % queue->room];
        free(queue->items);
        queue->items = items;
        queue->first = 0;
        queue->room = room;
    }
    return &queue->items[(queue->first + queue->length++) & (queue->room - 1)];
}

void transfer(Machine *m, i64 port, int writes, int channel, const i64 *pairs, i64 count, i64 phase, Resume done)
{
    int number = (int)(2 * port + writes);
    Server *s = &m->servers[number];
    if (!count) {
        if (done != NOBODY) due_add(&m->agenda, done);
        return;
    }
    const Memory *memory = &m->memories[port];
    i64 burst = channel == IFM ? memory->ifm_burst : memory->burst;
    Transfer *added = queue_add(m, &s->queues[channel]);
    if (!added) return;
    start_beats(&added->beats, pairs, count, phase, burst);
    added->done = done;
    added->pace = channel == IFM ? m->kernels[m->load_kernel].ifm_pace : 0;
    s->work |= 1 << channel;
    if (s->idle) {
        s->idle = 0;
        Resume me = FIRST_SERVER + number;
        if (m->agenda.cycle > s->next_cycle || !belatedly(&m->agenda, s->next_cycle, s->next_number, me)) due_add(&m->agenda, me);
    }
}

void transfer_beats(Machine *m, i64 port, int writes, int channel, i64 beats, i64 phase, Resume done)
{
    /* The single pair is not looked at again once the transfer has begun. */
    i64 pair[2] = {1, beats};
    transfer(m, port, writes, channel, pair, beats > 0, phase, done);
}

static void make_gate(Gate *gate, const Memory *memory, i64 slides)
{
    *gate = (Gate){.is_open = !memory->pulses, .slides = slides != 0, .on = memory->on, .length = memory->length, .cap = memory->cap};
}

/* Let each server find its path and its gate in its own machine. */
void link_servers(Machine *m)
{
    for (int number = 0; number < SERVERS; number++) {
        Server *s = &m->servers[number];
        s->path = m->memories[number / 2].shared ? &m->paths[number / 2] : &s->own_path;
        s->gate = &m->gates[m->timing.shared_cap ? number / 2 * 2 : number];
    }
}

int make_servers(Machine *m)
{
    link_servers(m);
    for (int number = 0; number < SERVERS; number++) {
        int writes = number % 2;
        const Memory *memory = &m->memories[number / 2];
        Server *s = &m->servers[number];
        make_gate(&m->gates[number], memory, m->timing.sliding_cap);
        s->before = writes ? 0 : memory->read_latency;
        s->behind = writes ? memory->write_latency : 0;
        s->lead = s->before + m->timing.lookahead;
        s->limit = writes ? memory->most_writes : memory->most_reads;
        s->numerator = memory->numerator;
        s->denominator = memory->denominator;
        s->next_number = -1;
        if (s->limit && !(s->finishes = calloc((size_t)s->limit, sizeof(i64)))) return -1;
    }
    return 0;
}
