/* The operations of a flat draft as the compiled replay takes them: what cascader/ethosu/codegen/lowering.py lowers, without an object of it.
   What a draft needs and the tables do not have is asked for in place of an answer. */

#include "issue.h"

enum { CONSTANTS, ARENA };
enum { IFM, OFM, IFM2, MAPS, STAYS = MAPS, STAGED, BLOCKDEP, MOVERS };
enum { REGISTERS = 2048, LONG = 1024, MAX_BLOCKDEP = 3, DONE = 0, KERNELS_MISSING, PAIRS_MISSING, NO_ANSWER };
enum { KERNEL_KEY = 12, PAIR_KEY = 4, WORK_KEY = 2 };
enum { KERNEL_ROW, DMA_ROW, KERNEL_WAIT_ROW, DMA_WAIT_ROW, OTHER_ROW, ROW = 7 };
/* Addresses of weights count as what is left of them. */
enum { WEIGHTS_ALIKE = 1024 };
#define APART ((i64)1 << 60)

typedef struct {
    i64 most_kernels, most_transfers, reserved_banks, tables_at, slot, word, aligned, shram, unknown_cores, segments;
    i64 source_region, source, target_region, target, length, regions, ports[8];
} Device;

typedef struct {
    i64 tensor[MAPS], is_kernel, is_transfer, table_start, table_end, table_at, ranges, range_count, segment;
} Part;

typedef struct {
    i64 part, start, end, height, width, depth;
} Job;

/* A tensor's place, as cascader/draft/draft.py has it: `rows` and `row_bytes` of a buffer that rolls, 0 of one that is whole. */
typedef struct {
    i64 address, rows, row_bytes, size, start, end, buffer, rank;
} Place;

typedef struct {
    i64 step, address, part, reader;
} Copy;

typedef struct {
    i64 start, end, region, mover;
} Range;

typedef struct {
    i64 number, value, mover, is_sticky;
} Register;

/* Where things of a template are, from its beginning on. */
typedef struct {
    i64 blocks, shram, region, table, spans[3 * MAPS], reads, read_count, writes, write_count;
    i64 home, home_count, staged, staged_count, settings[2], setting_count[2], pieces, piece_count;
} Template;

typedef struct {
    i64 template_at, offset[MAPS];
} Kernel;

typedef struct {
    const Template *template;
    i64 at[MOVERS], blockdep, staged;
} Issued;

typedef struct {
    i64 region, start, end, target_region, target, to_shram;
} Transfer;

typedef struct {
    const Device *device;
    const Part *parts;
    const i64 *ranges, *templates;
    i64 templates_length, known_count;
    Numbers kernels, pairs, works;
    const Kernel *known;
    const Place *places;
    const Job *jobs;
    i64 job_count;
    const Copy *copies;
    i64 copy_count;
    /* The Program so far. */
    Issued *issued;
    i64 issued_count, running;
    Transfer transfers[64];
    i64 transfer_count;
    i64 tables[64][3], table_count;
    i64 values[REGISTERS];
    char is_set[REGISTERS];
    i64 shram, first_wait;
    Growing rows, used, missing_pairs, missing_works;
    i64 *staged;
    int failed;
} Issue;

static const Place NOWHERE = {0};

static const Place *place_of(const Issue *m, i64 tensor) { return tensor < 0 ? &NOWHERE : &m->places[tensor]; }

static void kernel_key(const Issue *m, const Job *job, i64 *key)
{
    const Part *part = &m->parts[job->part];
    memcpy(key, job, 6 * sizeof(i64));
    for (int map = 0; map < MAPS; map++) {
        const Place *place = place_of(m, part->tensor[map]);
        key[6 + 2 * map] = place->rows;
        key[7 + 2 * map] = place->row_bytes;
    }
}

/* Whether a kernel has a template with all of its lists. What the lists hold is the Python form's. */
static int has_template(const Issue *m, i64 number)
{
    if (number >= m->known_count) return 0;
    i64 at = m->known[number].template_at, length = m->templates_length - at;
    if (at < 0 || length < (i64)(sizeof(Template) / 8)) return 0;
    const Template *t = (const Template *)(m->templates + at);
    const struct { i64 at, count, size; } lists[] = {
        {t->reads, t->read_count, sizeof(Range) / 8},   {t->writes, t->write_count, sizeof(Range) / 8},
        {t->home, t->home_count, sizeof(Range) / 8},    {t->staged, t->staged_count, sizeof(Range) / 8},
        {t->settings[0], t->setting_count[0], sizeof(Register) / 8}, {t->settings[1], t->setting_count[1], sizeof(Register) / 8},
        {t->pieces, t->piece_count, 5},
    };
    int fits = 1;
    for (int i = 0; i < 7; i++) fits &= lists[i].at >= 0 && lists[i].at <= length && lists[i].count >= 0 && lists[i].count <= (length - lists[i].at) / lists[i].size;
    return fits;
}

/* The numbers of jobs whose kernels are not known. Returns 0, or -1 with an exception set if a known one has no template. */
static int find_kernels(const Issue *m, Growing *missing)
{
    for (i64 i = 0; i < m->job_count; i++) {
        i64 key[KERNEL_KEY];
        if (!m->parts[m->jobs[i].part].is_kernel) continue;
        kernel_key(m, &m->jobs[i], key);
        i64 number = number_of(&m->kernels, key);
        if (number < 0) growing_push(missing, i);
        else if (!has_template(m, number)) {
            PyErr_SetString(PyExc_ValueError, "a kernel of the table has no template");
            return -1;
        }
    }
    return 0;
}

static Issued issued_of(const Issue *m, const Job *job)
{
    i64 key[KERNEL_KEY];
    kernel_key(m, job, key);
    const Kernel *kernel = &m->known[number_of(&m->kernels, key)];
    const Part *part = &m->parts[job->part];
    Issued one = {.template = (const Template *)(m->templates + kernel->template_at), .staged = -1};
    for (int map = 0; map < MAPS; map++) one.at[map] = place_of(m, part->tensor[map])->address + kernel->offset[map];
    return one;
}

static const Range *ranges_at(const Issued *one, i64 at) { return (const Range *)((const i64 *)one->template + at); }

static int meets(const Issued *one, i64 at, i64 count, i64 region, i64 start, i64 end)
{
    const Range *range = ranges_at(one, at);
    for (i64 i = 0; i < count; i++, range++)
        if (range->region == region && range->start + one->at[range->mover] < end && start < range->end + one->at[range->mover]) return 1;
    return 0;
}

static int reads(const Issued *one, i64 region, i64 start, i64 end)
{
    const Template *t = one->template;
    if (meets(one, t->reads, t->read_count, region, start, end)) return 1;
    return one->staged < 0 ? meets(one, t->home, t->home_count, region, start, end)
                           : meets(one, t->staged, t->staged_count, region, start, end);
}

static int writes(const Issued *one, i64 region, i64 start, i64 end)
{
    return meets(one, one->template->writes, one->template->write_count, region, start, end);
}

static int touches(const Issued *one, const Transfer *transfer)
{
    i64 end = transfer->target + transfer->end - transfer->start;
    if (!transfer->to_shram &&
        (reads(one, transfer->target_region, transfer->target, end) || writes(one, transfer->target_region, transfer->target, end)))
        return 1;
    return writes(one, transfer->region, transfer->start, transfer->end);
}

/* Whether a kernel holds bytes of SHRAM where a table is. */
static int uses(const Issue *m, const Issued *one, i64 at, i64 length)
{
    if (!m->device->reserved_banks) return 1;
    if (one->template->table < 0) return 0;
    i64 start = m->device->tables_at + one->template->table * m->device->slot, size = m->device->slot;
    for (i64 i = 0; i < m->table_count; i++)
        if (m->tables[i][2] == start) {
            size = m->tables[i][1] - m->tables[i][0];
            break;
        }
    return start < at + length && at < start + size;
}

static i64 set_register(Issue *m, i64 place, i64 value)
{
    if (m->is_set[place] && m->values[place] == value) return 0;
    m->is_set[place] = 1;
    m->values[place] = value;
    return place >= LONG ? 2 : 1;
}

static void put_row(Issue *m, i64 kind, i64 words, i64 a, i64 b, i64 c, i64 d, i64 e)
{
    i64 row[ROW] = {kind, words, a, b, c, d, e};
    for (int i = 0; i < ROW; i++) growing_push(&m->rows, row[i]);
}

static void put_wait(Issue *m, i64 kind, i64 outstanding)
{
    if (m->first_wait < 0) m->first_wait = (i64)m->rows.length;
    put_row(m, kind, 1, outstanding, 0, 0, 0, 0);
}

/* The SETs of an operation stand before the waits that it needs. */
static i64 words_of(Issue *m, i64 changed)
{
    if (m->first_wait < 0) return changed + 1;
    if (!m->rows.failed) m->rows.at[m->first_wait + 1] += changed;
    m->first_wait = -1;
    return 1;
}

static void wait_for_kernels(Issue *m, i64 age)
{
    put_wait(m, KERNEL_WAIT_ROW, age);
    m->running = age;
}

static i64 port_of(Issue *m, i64 region)
{
    if (region >= 0 && region < m->device->regions) return m->device->ports[region];
    m->failed = 1;
    return 0;
}

static void put_transfer(Issue *m, const Transfer *transfer)
{
    const Device *device = m->device;
    i64 length = transfer->end - transfer->start, changed = 0;
    changed += set_register(m, device->source_region, transfer->region);
    changed += set_register(m, device->source, transfer->start);
    changed += set_register(m, device->target_region, transfer->to_shram ? device->shram : transfer->target_region);
    changed += set_register(m, device->target, transfer->target);
    changed += set_register(m, device->length, length);
    i64 words = words_of(m, changed), word = device->aligned ? device->word : 0;
    put_row(m, DMA_ROW, words, port_of(m, transfer->region), word ? transfer->start / word : 0,
            transfer->to_shram ? -1 : port_of(m, transfer->target_region), word ? transfer->target / word : 0, div_up(length, device->word));
    if (m->transfer_count == device->most_transfers) {
        m->transfer_count--;
        memmove(m->transfers, m->transfers + 1, (size_t)m->transfer_count * sizeof(Transfer));
    }
    m->transfers[m->transfer_count++] = *transfer;
}

static void load_table(Issue *m, const Part *part)
{
    i64 length = part->table_end - part->table_start, left = 0;
    for (i64 i = 0; i < m->table_count; i++)
        if (m->tables[i][0] == part->table_start && m->tables[i][1] == part->table_end && m->tables[i][2] == part->table_at) return;
    for (i64 age = 0; age < m->running; age++)
        if (uses(m, &m->issued[m->issued_count - 1 - age], part->table_at, length)) {
            wait_for_kernels(m, age);
            break;
        }
    Transfer transfer = {CONSTANTS, part->table_start, part->table_end, 0, part->table_at, 1};
    put_transfer(m, &transfer);
    for (i64 i = 0; i < m->table_count; i++) {
        i64 *table = m->tables[i];
        if (table[2] < part->table_at + length && part->table_at < table[2] + table[1] - table[0]) continue;
        memmove(m->tables[left++], table, sizeof m->tables[0]);
    }
    if (left == 64) {
        m->failed = 1;
        return;
    }
    i64 *last = m->tables[left++];
    last[0] = part->table_start, last[1] = part->table_end, last[2] = part->table_at;
    m->table_count = left;
}

/* Whether the place of a part's table in SHRAM holds no table, not even the same one. */
static int is_place_free(const Issue *m, const Part *part)
{
    for (i64 i = 0; i < m->table_count; i++) {
        const i64 *table = m->tables[i];
        if (table[2] < part->table_at + part->table_end - part->table_start && part->table_at < table[2] + table[1] - table[0]) return 0;
    }
    return 1;
}

static int is_reader(const Issue *m, i64 part, const Copy *copy)
{
    const Copy *line = copy;
    while (line > m->copies && line[-1].step == copy->step) line--;
    for (; line < m->copies + m->copy_count && line->step == copy->step; line++)
        if (line->part == copy->part && line->reader == part) return 1;
    return 0;
}

/* The tables of jobs that come before the first one that uses a copy, as _tables_before of cascader/ethosu/codegen/lowering.py. */
static void load_tables_before(Issue *m, const Copy *copy)
{
    if (m->device->most_transfers == 1 || !m->device->reserved_banks) return;
    for (i64 step = copy->step; step < m->job_count && !m->failed; step++) {
        const Part *part = &m->parts[m->jobs[step].part];
        if (!part->is_kernel || is_reader(m, m->jobs[step].part, copy)) return;
        if (part->table_at >= 0 && is_place_free(m, part)) load_table(m, part);
    }
}

static void move_bytes(Issue *m, const Transfer *transfer)
{
    for (i64 age = 0; age < m->running; age++)
        if (touches(&m->issued[m->issued_count - 1 - age], transfer)) {
            wait_for_kernels(m, age);
            break;
        }
    put_transfer(m, transfer);
}

static int spans_meet(const i64 *written, i64 at, const i64 *read, i64 from)
{
    return written[2] >= 0 && written[2] == read[2] && written[0] + at < read[1] + from && read[0] + from < written[1] + at;
}

/* The two templates, and how far apart what the first writes and what the second reads lie where they meet. */
static void pair_key(const Issue *m, const Issued *one, const Issued *two, i64 *key)
{
    const i64 *written = one->template->spans + 3 * OFM, *first = two->template->spans, *second = first + 3 * IFM2;
    key[0] = (const i64 *)one->template - m->templates;
    key[1] = (const i64 *)two->template - m->templates;
    key[2] = spans_meet(written, one->at[OFM], first, two->at[IFM]) ? one->at[OFM] - two->at[IFM] : APART;
    key[3] = spans_meet(written, one->at[OFM], second, two->at[IFM2]) ? one->at[OFM] - two->at[IFM2] : APART;
}

static i64 pair_number(Issue *m, const Issued *one, const Issued *two)
{
    i64 key[PAIR_KEY], number;
    pair_key(m, one, two, key);
    number = number_of(&m->pairs, key);
    if (number < 0) {
        for (int i = 0; i < PAIR_KEY; i++) growing_push(&m->missing_pairs, key[i]);
        growing_push(&m->missing_pairs, one->at[OFM]);
        growing_push(&m->missing_pairs, two->at[IFM]);
        growing_push(&m->missing_pairs, two->at[IFM2]);
        return 0;
    }
    return number;
}

/* `value` lowered so far that no unfinished block belongs to an earlier kernel whose result is read. */
static i64 look_back(const Issue *m, i64 value, const Issued *kernel)
{
    i64 blocks = 0;
    for (i64 i = m->issued_count - 1; i >= 0 && i > m->issued_count - 1 - MAX_BLOCKDEP && blocks < value; i--) {
        const Issued *earlier = &m->issued[i];
        const Range *range = ranges_at(earlier, earlier->template->writes);
        for (i64 k = 0; blocks && k < earlier->template->write_count; k++, range++)
            if (reads(kernel, range->region, range->start + earlier->at[range->mover], range->end + earlier->at[range->mover])) return blocks;
        if (!earlier->blockdep) break;
        blocks += earlier->template->blocks;
    }
    return value;
}

static i64 set_kernel(Issue *m, const Issued *one)
{
    const Template *t = one->template;
    int copied = one->staged >= 0;
    const Register *setting = (const Register *)((const i64 *)t + t->settings[copied]);
    i64 changed = 0;
    for (i64 i = 0; i < t->setting_count[copied]; i++, setting++) {
        i64 place = setting->number;
        if (setting->is_sticky && (!m->is_set[place] || (place == m->device->unknown_cores && !m->values[place]))) continue;
        changed += set_register(m, place, setting->value + one->at[setting->mover]);
    }
    return changed;
}

static void run_kernel(Issue *m, Issued *one)
{
    const Template *t = one->template;
    for (i64 age = 0; age < m->transfer_count; age++) {
        const Transfer *transfer = &m->transfers[m->transfer_count - 1 - age];
        if (transfer->to_shram ? !uses(m, one, transfer->target, transfer->end - transfer->start) : !touches(one, transfer)) continue;
        put_wait(m, DMA_WAIT_ROW, age);
        memmove(m->transfers, m->transfers + m->transfer_count - age, (size_t)age * sizeof(Transfer));
        m->transfer_count = age;
        break;
    }
    one->blockdep = 0;
    if (m->issued_count) one->blockdep = look_back(m, pair_number(m, &m->issued[m->issued_count - 1], one) & MAX_BLOCKDEP, one);
    one->at[BLOCKDEP] = one->blockdep;
    i64 key[WORK_KEY] = {(const i64 *)t - m->templates, one->staged < 0 ? -1 : one->staged % WEIGHTS_ALIKE}, work = number_of(&m->works, key);
    if (work < 0) {
        growing_push(&m->missing_works, key[0]);
        growing_push(&m->missing_works, key[1]);
    }
    i64 words = words_of(m, set_kernel(m, one));
    put_row(m, KERNEL_ROW, words, one->blockdep, m->shram >= 0 && m->shram != t->shram, port_of(m, t->region), 0, 0);
    growing_push(&m->used, work);
    m->shram = t->shram;
    m->issued[m->issued_count++] = *one;
    m->running = least(m->running + 1, m->device->most_kernels);
    if (!m->device->reserved_banks && t->table < 0) m->table_count = 0;
}

static void run_job(Issue *m, i64 step, i64 *copy)
{
    const Job *job = &m->jobs[step];
    const Part *part = &m->parts[job->part];
    if (!part->is_kernel) {
        m->failed = 1;
        return;
    }
    if (part->table_at >= 0) load_table(m, part);
    for (; *copy < m->copy_count && m->copies[*copy].step == step; ++*copy) {
        const Copy *one = &m->copies[*copy];
        const Part *copied = &m->parts[one->part];
        i64 address = one->address;
        m->staged[one->reader] = address;
        if (one->reader == one->part) load_tables_before(m, one);
        for (i64 i = 0; one->reader == one->part && i < copied->range_count; i++) {
            const i64 *range = m->ranges + copied->ranges + 2 * i;
            Transfer transfer = {CONSTANTS, range[0], range[1], ARENA, address, 0};
            move_bytes(m, &transfer);
            address += range[1] - range[0];
        }
    }
    Issued one = issued_of(m, job);
    const Template *t = one.template;
    if (part->is_transfer && t->piece_count) {
        const i64 *piece = (const i64 *)t + t->pieces;
        for (i64 i = 0; i < t->piece_count; i++, piece += 5) {
            i64 from = piece[1] + one.at[IFM];
            Transfer transfer = {piece[0], from, from + piece[4], piece[2], piece[3] + one.at[OFM], 0};
            move_bytes(m, &transfer);
        }
        return;
    }
    one.staged = m->staged[job->part];
    one.at[STAGED] = most(one.staged, 0);
    run_kernel(m, &one);
}

static void begin_program(Issue *m)
{
    m->issued_count = m->running = m->transfer_count = m->table_count = 0;
    m->shram = m->first_wait = -1;
    memset(m->is_set, 0, sizeof m->is_set);
}

/* The first table that is used is loaded behind the first job, of which the Program has a further one. */
static const Part *early_table(const Issue *m, i64 first, i64 last)
{
    if (m->device->reserved_banks)
        for (i64 step = first; step < last; step++)
            if (m->parts[m->jobs[step].part].table_at >= 0) return &m->parts[m->jobs[step].part];
    return NULL;
}

/* Lengths of each Program in rows and in kernels, pushed to `programs`. */
static void put_programs(Issue *m, Growing *programs)
{
    i64 first = 0, copy = 0;
    for (i64 segment = 0; segment < m->device->segments; segment++) {
        i64 last = first, rows = (i64)m->rows.length, used = (i64)m->used.length;
        while (last < m->job_count && m->parts[m->jobs[last].part].segment == segment) last++;
        if (last > first && !m->parts[m->jobs[first].part].is_kernel) {
            first = last;
            continue;
        }
        begin_program(m);
        const Part *early = early_table(m, first, last);
        for (i64 step = first; step < last && !m->failed; step++) {
            if (step == first + 1 && early) load_table(m, early);
            while (copy < m->copy_count && m->copies[copy].step < step) copy++;
            run_job(m, step, &copy);
        }
        put_row(m, OTHER_ROW, words_of(m, 0), 0, 0, 0, 0, 0);
        growing_push(programs, ((i64)m->rows.length - rows) / ROW);
        growing_push(programs, (i64)m->used.length - used);
        first = last;
    }
}

static void append(Growing *all, Growing *some)
{
    for (size_t i = 0; i < some->length; i++) growing_push(all, some->at[i]);
    all->failed |= some->failed;
}

enum { TERMS = 11, JOBS = 9, COPIES = 10 };

/* Whether a device has registers, ports and divisors that there are. */
static int device_fits(const Device *d)
{
    return d->most_transfers >= 1 && d->most_transfers <= 64 && d->most_kernels >= 1 && d->regions >= 0 && d->regions <= 8 && d->word > 0 &&
           are_within(&d->source_region, 5, 1, 0, REGISTERS) && d->unknown_cores >= 0 && d->unknown_cores < REGISTERS;
}

static int read_terms(Issue *m, PyObject *const *arguments, Flat *flats, Py_ssize_t count)
{
    if (count != TERMS) {
        PyErr_SetString(PyExc_TypeError, "a device, parts, ranges, templates, kernels, their table, pairs, works, places, jobs, copies are needed");
        return -1;
    }
    if (flat_all(arguments, flats, TERMS, TERMS) < 0) return -1;
    memset(m, 0, sizeof *m);
    m->device = (const Device *)flats[0].at;
    m->parts = (const Part *)flats[1].at;
    m->ranges = flats[2].at;
    m->templates = flats[3].at;
    m->templates_length = flats[3].length;
    m->known = (const Kernel *)flats[4].at;
    m->known_count = flats[4].length * 8 / (Py_ssize_t)sizeof(Kernel);
    m->kernels = numbers_of(&flats[5], KERNEL_KEY);
    m->pairs = numbers_of(&flats[6], PAIR_KEY);
    m->works = numbers_of(&flats[7], WORK_KEY);
    m->places = (const Place *)flats[8].at;
    m->jobs = (const Job *)flats[JOBS].at;
    m->job_count = flats[JOBS].length * 8 / (Py_ssize_t)sizeof(Job);
    m->copies = (const Copy *)flats[COPIES].at;
    m->copy_count = flats[COPIES].length * 8 / (Py_ssize_t)sizeof(Copy);
    i64 parts = flats[1].length * 8 / (Py_ssize_t)sizeof(Part), used = 0;
    for (i64 i = 0; i < m->job_count; i++) used |= m->jobs[i].part < 0 || m->jobs[i].part >= parts;
    for (i64 i = 0; i < m->copy_count; i++) used |= m->copies[i].part < 0 || m->copies[i].part >= parts || m->copies[i].reader < 0 || m->copies[i].reader >= parts;
    i64 places = flats[8].length * 8 / (Py_ssize_t)sizeof(Place);
    for (i64 i = 0; i < parts; i++) {
        const Part *part = &m->parts[i];
        for (int map = 0; map < MAPS; map++) used |= part->tensor[map] >= places;
        used |= part->ranges < 0 || part->range_count < 0 || part->ranges > flats[2].length || part->range_count > (flats[2].length - part->ranges) / 2;
    }
    if (used || flats[0].length * 8 != (Py_ssize_t)sizeof(Device) || !device_fits(m->device)) {
        flat_release(flats, TERMS);
        PyErr_SetString(PyExc_ValueError, "this is no draft of these parts");
        return -1;
    }
    m->issued = calloc((size_t)m->job_count + 1, sizeof(Issued));
    m->staged = malloc(((size_t)parts + 1) * sizeof(i64));
    for (i64 i = 0; m->staged && i < parts; i++) m->staged[i] = -1;
    if (!m->issued || !m->staged) {
        free(m->issued);
        free(m->staged);
        flat_release(flats, TERMS);
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* The answer: the timeline found, or the costs that are missing for it; all else is freed. */
static PyObject *answer(Issue *m, Flat *flats, Growing *found)
{
    free(m->issued);
    free(m->staged);
    free(m->rows.at);
    free(m->used.at);
    free(m->missing_pairs.at);
    free(m->missing_works.at);
    flat_release(flats, TERMS);
    return growing_bytes(found);
}

static void ask(Issue *m, Growing *found)
{
    growing_push(found, PAIRS_MISSING);
    growing_push(found, (i64)m->missing_pairs.length);
    append(found, &m->missing_pairs);
    append(found, &m->missing_works);
}

/* The terms of `read_terms`: the operations of each Program in rows and the numbers of its kernels' works, or what is missing for that. */
PyObject *issue(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Flat flats[TERMS];
    Growing found = {0}, programs = {0};
    (void)module;
    Issue *m = malloc(sizeof *m);
    if (!m) return PyErr_NoMemory();
    if (read_terms(m, arguments, flats, count) < 0) {
        free(m);
        return NULL;
    }
    growing_push(&found, KERNELS_MISSING);
    int is_wrong = find_kernels(m, &found) < 0;
    if (!is_wrong && found.length == 1) {
        found.length = 0;
        put_programs(m, &programs);
        if (m->failed) {
            growing_push(&found, NO_ANSWER);
        } else if (m->missing_pairs.length || m->missing_works.length) {
            ask(m, &found);
        } else {
            growing_push(&found, DONE);
            growing_push(&found, (i64)programs.length / 2);
            append(&found, &programs);
            append(&found, &m->rows);
            append(&found, &m->used);
        }
    }
    free(programs.at);
    PyObject *result = answer(m, flats, &found);
    free(m);
    if (is_wrong) Py_CLEAR(result);
    return result;
}

/* The same terms: the number of each job's kernel and the one before it, -1 where one of the two is none; or what is missing for that. */
PyObject *pairs(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Flat flats[TERMS];
    Growing found = {0};
    (void)module;
    Issue *m = malloc(sizeof *m);
    if (!m) return PyErr_NoMemory();
    if (read_terms(m, arguments, flats, count) < 0) {
        free(m);
        return NULL;
    }
    growing_push(&found, KERNELS_MISSING);
    int is_wrong = find_kernels(m, &found) < 0;
    if (!is_wrong && found.length == 1) {
        int has_before = 0;
        Issued before = {0};
        found.at[0] = DONE;
        for (i64 i = 0; i < m->job_count; i++) {
            const Part *part = &m->parts[m->jobs[i].part];
            if (!part->is_kernel || part->is_transfer) {
                growing_push(&found, -1);
                has_before = 0;
                continue;
            }
            Issued one = issued_of(m, &m->jobs[i]);
            growing_push(&found, has_before ? pair_number(m, &before, &one) : -1);
            before = one;
            has_before = 1;
        }
        if (m->missing_pairs.length) {
            found.length = 0;
            ask(m, &found);
        }
    }
    PyObject *result = answer(m, flats, &found);
    free(m);
    if (is_wrong) Py_CLEAR(result);
    return result;
}
