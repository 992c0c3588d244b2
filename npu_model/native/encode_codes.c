/* Codes of a section's symbols: the way through all of them that takes the fewest bits, where another code costs some, too. */

#include "encode.h"

enum { RUN_CODES = 4, CHANGE = 40, NEVER = 1000, LONGEST_QUOTIENT = 31 };

/* The stretches of the way that ends in `code`: pairs of a code and the symbol behind its last one, in order. */
static void stretches(const Ways *ways, i64 count, int code, Growing *found)
{
    i64 end = count;
    found->length = 0;
    for (i64 i = count - 1; i >= 0; i--) {
        if (!(ways->from_best[i] >> code & 1)) continue;
        growing_push(found, end);
        growing_push(found, code);
        code = ways->best[i];
        end = i;
    }
    growing_push(found, end);
    growing_push(found, code);
    if (found->failed) return;
    for (size_t low = 0, high = found->length; low < high; low++) {
        i64 last = found->at[--high];
        found->at[high] = found->at[low];
        found->at[low] = last;
    }
}

/* Bits of each index in each code, times 16; lanes beyond the codes are never best. */
static void index_costs(Lanes *costs, int raw_bits)
{
    for (int index = 0; index < VALUES; index++)
        for (int code = 0; code < LANES; code++) {
            int truncated = code >= DIVISIONS, division = code % DIVISIONS, quotient = index >> division;
            int bits = truncated ? (int)least(quotient + 1, 2) + division : quotient + 1 + division;
            if (quotient > (truncated ? 2 : LONGEST_QUOTIENT)) bits = NEVER;
            if (code >= PLAIN) bits = code == PLAIN ? raw_bits : NEVER;
            costs[index][code] = (int16_t)(bits * LANES);
        }
}

static int16_t least_of(const int16_t *costs)
{
    int16_t found = costs[0];
#pragma GCC unroll 1
    for (int code = 0; code < LANES; code++) found = costs[code] < found ? costs[code] : found;
    return found;
}

/* The cost of a code that is taken up from the best one, and the bit of each code. */
static const int16_t MOVED[LANES] = {640, 641, 642, 643, 644, 645, 646, 647, 648, 649, 650, 651, 652, 653, 654, 655};
static const int16_t BIT[LANES] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, -32768};

/* Codes of a section's indices: the fewest bits, with CHANGE bits for another code. Costs are times 16 plus the code, above the best. */
void choose_codes(const int16_t *indices, i64 count, int raw_bits, Ways *ways, Growing *found)
{
    if (ways->raw_bits != raw_bits) index_costs(ways->costs, ways->raw_bits = raw_bits);
    Lanes now, bits;
    for (int code = 0; code < LANES; code++) now[code] = (int16_t)code;
    for (i64 i = 0; i < count; i++) {
        const int16_t *cost = ways->costs[indices[i]];
        int16_t best = least_of(now), base = (int16_t)(best & ~(LANES - 1)), changed = 0;
#pragma GCC unroll 1
        for (int code = 0; code < LANES; code++) {
            int16_t kept = (int16_t)(now[code] - base);
            bits[code] = MOVED[code] < kept ? BIT[code] : 0;
            now[code] = (int16_t)((MOVED[code] < kept ? MOVED[code] : kept) + cost[code]);
        }
#pragma GCC unroll 1
        for (int code = 0; code < LANES; code++) changed |= bits[code];
        ways->best[i] = (uint8_t)(best & (LANES - 1));
        ways->from_best[i] = (uint16_t)changed;
    }
    stretches(ways, count, least_of(now) & (LANES - 1), found);
}

static int best_of(const i64 *costs)
{
    int best = 0;
    for (int code = 1; code < RUN_CODES; code++) if (costs[code] < costs[best]) best = code;
    return best;
}

/* Codes of zero runs: as those of indices, but a change is free where the indices change theirs. */
void choose_run_codes(const int32_t *runs, i64 count, const Growing *codes, Ways *ways, Growing *found)
{
    i64 now[RUN_CODES] = {0};
    size_t next = 0;
    for (i64 i = 0; i < count; i++) {
        int best = best_of(now);
        i64 change = now[best] + CHANGE;
        uint16_t changed = 0;
        if (2 * next < codes->length && codes->at[2 * next + 1] == i + 1) {
            change -= CHANGE;
            next++;
        }
        for (int code = 0; code < RUN_CODES; code++) {
            if (change < now[code]) {
                now[code] = change;
                changed |= (uint16_t)(1 << code);
            }
            now[code] += (runs[i] >> code) + 1 + code;
        }
        ways->best[i] = (uint8_t)best;
        ways->from_best[i] = changed;
    }
    stretches(ways, count, best_of(now), found);
}
