/* routine: calls of library routines, by the same function that artefacts contain; it is tested
 * against independent implementations. */
#include "ref/internal.h"

#include "routine/routine.h"

#include <string.h>

static char *
text_memory(void *user, int64_t bytes)
{
    return arena_alloc(user, (size_t)bytes);
}

/* A function of a user's library. */
static bool
foreign(Ctx *c, Arena *a, const Foreign *f, const OpCall *call, Tensor *const *value)
{
    uint32_t n = call->nin + call->nout;
    TnArray *array = NEW_ARRAY(a, TnArray, n + 1);

    for (uint32_t i = 0; i < n; i++)
        if (value[i])
            array[i] = (TnArray){ value[i]->data, routine_type(value[i]->dtype),
                                  (int32_t)value[i]->rank, value[i]->dim };
    int code = f->call((int32_t)n, array);
    return !code || diag_error(&c->diags, DIAG_USAGE, call->loc, "its function %s returned %d",
                               f->function, code);
}

bool
ref_routine(Ctx *c, Arena *a, const OpCall *call, Tensor *const *value)
{
    const Foreign *of_user = op_foreign(c, call);
    if (of_user)
        return foreign(c, a, of_user, call, value);
    const Routine *routine = routine_named(op_info[call->op].name);
    uint32_t n = call->nin + call->nout;
    TnArray *array =
        NEW_ARRAY(a, TnArray, op_info[call->op].max_in + op_info[call->op].max_out + 1);
    TnFault fault = { 0 };
    int64_t scratch = 0;

    for (uint32_t i = 0; i < n; i++)
        if (value[i])
            array[i < call->nin ? i : i - call->nin + op_info[call->op].max_in] =
                (TnArray){ value[i]->data, routine_type(value[i]->dtype), (int32_t)value[i]->rank,
                           value[i]->dim };
    TnRoutine r = {
        { .size = sizeof r.args, .fault = &fault }, array, NULL, text_memory, c->arena
    };
    op_numbers(call, a, &r.attr);
    int64_t trips = routine->plan(&r, &scratch);
    if (!fault.code && trips > 0)
        routine->run(&r.args, 0, trips, arena_alloc(a, (size_t)scratch + 64));
    if (!fault.code)
        return true;
    if (fault.code == TN_FAULT_MEMORY)
        return diag_error(&c->diags, DIAG_LIMIT, call->loc, "%s: cannot get %lld bytes of memory",
                          op_info[call->op].name, (long long)fault.got);
    if (fault.code == TN_FAULT_LIBRARY) {
        char name[17] = { 0 };
        memcpy(name, &fault.got, 8);
        memcpy(name + 8, &fault.want, 8);
        return diag_error(&c->diags, DIAG_USAGE, call->loc,
                          "%s: what it was given needs the library lib%s, which is not on this "
                          "machine; install it",
                          op_info[call->op].name, name);
    }
    return diag_error(&c->diags, DIAG_USAGE, call->loc,
                      "%s: %lld is asked for, at most %lld is possible", op_info[call->op].name,
                      (long long)fault.got, (long long)fault.want);
}
