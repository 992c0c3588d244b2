/* The dynamic program over plans: cascader.plan.proposals.propose in C. */
#include "core.h"

enum { PLAN_FIRST, PLAN_MEMORY, PLAN_CYCLES, PLAN_COLD, PLAN_FIELDS };

/* Whether every plan ends with the part that it is listed for, and begins with that one or one before; else an exception is set. */
static int plans_fit(const Flat *plans, const Flat *ends, const Flat *how)
{
    if (!flat_has(ends, 1) || !flat_has(how, 3)) return 0;
    i64 count = plans->length / PLAN_FIELDS;
    int fits = how->at[2] > 0 && ends->at[0] >= 0 && ends->at[ends->length - 1] <= count;
    for (Py_ssize_t last = 0; last + 1 < ends->length && fits; last++) {
        fits = ends->at[last] <= ends->at[last + 1] && ends->at[last + 1] <= count;
        for (i64 number = ends->at[last]; number < ends->at[last + 1] && fits; number++) {
            i64 first = plans->at[number * PLAN_FIELDS + PLAN_FIRST];
            fits = first >= 0 && first <= last;
        }
    }
    if (!fits) PyErr_SetString(PyExc_ValueError, "plans are listed by their last part, and begin with that one or one before");
    return fits;
}

/* propose(plans, where the plans of each last part begin, [limit, share, whole]) -> numbers of the plans from the last part to the first */
PyObject *native_propose(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    Flat f[3];
    Growing out = {0};
    if (count != 3) return PyErr_Format(PyExc_TypeError, "propose(plans, ends, how)");
    if (flat_all(arguments, f, 3, 3) < 0) return NULL;
    if (!plans_fit(&f[0], &f[1], &f[2])) {
        flat_release(f, 3);
        return NULL;
    }
    i64 parts = f[1].length - 1, limit = f[2].at[0], share = f[2].at[1], whole = f[2].at[2];
    i64 *cycles = malloc((size_t)(2 * parts + 2) * sizeof(i64));
    if (cycles) {
        i64 *choice = cycles + parts + 1;
        cycles[0] = 0;
        for (i64 last = 0; last < parts; last++) {
            cycles[last + 1] = choice[last + 1] = -1;
            for (i64 number = f[1].at[last]; number < f[1].at[last + 1]; number++) {
                const i64 *plan = f[0].at + number * PLAN_FIELDS;
                i64 before = cycles[plan[PLAN_FIRST]];
                if (plan[PLAN_MEMORY] > limit || before < 0) continue;
                i64 total = before + plan[PLAN_CYCLES] + div_down(share * (plan[PLAN_COLD] - plan[PLAN_CYCLES]), whole);
                if (cycles[last + 1] >= 0 && total >= cycles[last + 1]) continue;
                cycles[last + 1] = total;
                choice[last + 1] = number;
            }
        }
        for (i64 end = cycles[parts] < 0 ? 0 : parts; end > 0; end = f[0].at[choice[end] * PLAN_FIELDS + PLAN_FIRST]) growing_push(&out, choice[end]);
        free(cycles);
    } else
        out.failed = 1;
    flat_release(f, 3);
    return growing_bytes(&out);
}
