/* mcu: a program for a microcontroller: one function that calls the kernels in order, over memory
 * that the caller gives or one static array.
 *
 * All sizes are known, so addresses are constants and nothing is checked: there is no manifest, no
 * prepare, no table of calls. What data alone can get wrong is an index, which the function
 * returns.
 */
#include "emit/mcu.h"

#include <string.h>

typedef struct {
    Ctx *c;
    Arena *a;
    Text *t;
    const HostProgram *p;
    const Plan *plan;
    const Graph *g;
} Mcu;

const char *
emit_mcu_prelude(void)
{
    static const char prelude[] =
#include "prelude_mcu_text.h"
#include "prelude_kernel_text.h"
        ;
    return prelude;
}

const char *
emit_mcu_type(DType t)
{
    return dtype_is_short(t) && dtype_info[t].bytes == 2 ? "uint16_t"
           : dtype_is_short(t) || t == DT_BOOL           ? "uint8_t"
                                                         : dtype_info[t].ctype;
}

void
emit_mcu_parameters(Text *t, const Graph *g)
{
    for (uint32_t i = 0; i < g->input.n; i++)
        text_printf(t, "%sconst %s *in%u", i ? ", " : "",
                    emit_mcu_type(g->value.at[g->input.at[i]].type->dtype), i);
    for (uint32_t i = 0; i < g->output.n; i++)
        text_printf(t, "%s%s *out%u", i || g->input.n ? ", " : "",
                    emit_mcu_type(g->value.at[g->output.at[i]].type->dtype), i);
}

/* No size is open; what is left is the number of threads. */
static bool
one(void *user, Var v, int64_t *out)
{
    (void)user;
    *out = 1;
    return v.kind == VAR_SYMBOL;
}

const Kernel *
emit_mcu_kernel(Ctx *c, Arena *a, const Kernel *k)
{
    const Expr **of = NEW_ARRAY(a, const Expr *, 1 + k->nvariant);
    int64_t at = 0;

    for (uint32_t i = 0; i <= k->nvariant; i++)
        of[i] = expr_int(c, i);
    return k->nvariant && expr_eval(kernel_pick(c, k, of), one, NULL, &at) && at > 0
               ? k->variant[at - 1]
               : k;
}

int64_t
emit_mcu_scratch(Ctx *c, Arena *a, const Kernel *k)
{
    int64_t bytes = 0;

    return expr_eval(kernel_scratch_bytes(c, emit_mcu_kernel(c, a, k)), one, NULL, &bytes) ? bytes
                                                                                           : 0;
}

static const char *
place(const Mcu *m, ValueId v)
{
    const Placement *at = &m->plan->value[v];
    long long offset = at->offset ? expr_or(at->offset, 0) : 0;

    switch (at->place) {
    case PLACE_INPUT: return arena_printf(m->a, "(void *)in%u", at->index);
    case PLACE_OUTPUT:
        return arena_printf(m->a, offset ? "(char *)out%u + %lld" : "(void *)out%u", at->index,
                            offset);
    case PLACE_WEIGHT: return arena_printf(m->a, "(char *)tn_weights + %lld", offset);
    case PLACE_ARENA: return arena_printf(m->a, "memory + %lld", offset);
    case PLACE_BLOCK:
    case PLACE_TABLE: break; /* emit_mcu_fits */
    }
    return "0";
}

static void
call(const Mcu *m, NodeId id, uint32_t number)
{
    const Node *n = &m->g->node.at[id];
    const Kernel *k = emit_mcu_kernel(m->c, m->a, n->kernel);
    uint64_t code = 0;
    int64_t trips = 1;

    map_get(m->p->kernel_code, MAP_PTR(k), &code);
    expr_eval(k->trips, one, NULL, &trips);
    text_add(m->t, "    {    /* ");
    text_comment(m->t, n->kernel->origin ? n->kernel->origin : n->kernel->name);
    text_add(m->t, " */\n        void *const buf[] = {");
    for (uint32_t i = 0; i < n->in.count + n->out.count; i++)
        text_printf(
            m->t, "%s%s", i ? ", " : "",
            place(m, i < n->in.count ? node_in(m->g, n, i) : node_out(m->g, n, i - n->in.count)));
    text_printf(m->t,
                "};\n        args.buf = buf;\n        args.kernel = %u;\n        %s(&args, 0, "
                "%lld, memory + %lld);\n    }\n",
                number, ((const KernelCode *)(uintptr_t)code)->symbol, (long long)trips,
                (long long)emit_mcu_arena(m->plan));
}

static void
join(const Mcu *m, NodeId id)
{
    const Node *n = &m->g->node.at[id];
    const char *to = place(m, node_out(m->g, n, 0));
    long long offset = 0;

    for (uint32_t i = 0; i < n->in.count; i++) {
        ValueId v = node_in(m->g, n, i);
        long long bytes = expr_or(type_bytes(m->c, m->g->value.at[v].type), 0);
        if (bytes)
            text_printf(m->t, "    tn_copy((char *)(%s) + %lld, %s, %lld);\n", to, offset,
                        place(m, v), bytes);
        offset += bytes;
    }
}

static void
weights(const Mcu *m)
{
    int64_t n = m->p->plan->weights_bytes;
    const unsigned char *from = m->p->embed_weights;

    text_printf(m->t, "\nstatic const uint64_t tn_weights[] %s_IN(%s_WEIGHTS_SECTION) = {",
                m->p->prefix, m->p->prefix);
    for (int64_t i = 0; i < n; i += 8) {
        uint64_t word = 0;
        memcpy(&word, from + i, n - i < 8 ? (size_t)(n - i) : 8);
        text_printf(m->t, "%s0x%016llx,", i % 40 ? " " : "\n    ", (unsigned long long)word);
    }
    text_add(m->t, n ? "\n};\n" : "0};\n");
}

int64_t
emit_mcu_arena(const Plan *p)
{
    return (expr_or(p->arena_bytes, 0) + 7) / 8 * 8;
}

bool
emit_mcu_fits(Ctx *c, const ModelPlan *plan)
{
    const Graph *g = plan->plan.at[0]->graph;
    const Plan *p = plan->plan.at[0];
    const char *why = NULL, *what = "";

    for (ValueId v = 1; v < g->value.n && !why; v++) {
        const Value *value = &g->value.at[v];
        what = value->name;
        if (value->type && !type_is_static(value->type))
            why = "has an open size; fix it with --dim NAME=SIZE or --shape";
        else if (value->type && value->type->dtype == DT_STR)
            why = "is text, which needs a C library";
        else if (value->type && expr_or(type_bytes(c, value->type), 0) > INT32_MAX)
            why = "has more than 2 GB";
        else if (p->value[v].bytes && p->value[v].place == PLACE_BLOCK)
            why = "is as large as data say, which needs memory as it goes";
    }
    for (NodeId n = 1; n < g->node.n && !why; n++) {
        what = g->node.at[n].origin ? g->node.at[n].origin : "a node";
        if (g->node.at[n].callee != CALL_KERNEL && g->node.at[n].callee != CALL_JOIN)
            why = "branches, loops or calls a routine; compile it with --emit c instead";
    }
    return !why ||
           diag_error(&c->diags, DIAG_UNSUPPORTED, (Loc){ 0 }, "--profile mcu: %s %s", what, why);
}

bool
emit_c_mcu(Ctx *c, Text *t, const HostProgram *p)
{
    Mcu m = { .c = c, .a = t->arena, .t = t, .p = p, .plan = p->plan->plan.at[0], .g = p->graph };
    const char *name = p->prefix;
    Text parameters = { .arena = t->arena }, names = { .arena = t->arena };
    uint32_t number = 0, copies = m.plan->copy.n;

    for (NodeId n = 1; n < m.g->node.n; n++)
        copies += m.g->node.at[n].callee == CALL_JOIN;
    emit_mcu_parameters(&parameters, m.g);
    for (uint32_t i = 0; i < m.g->input.n + m.g->output.n; i++)
        text_printf(&names, ", %s%u", i < m.g->input.n ? "in" : "out",
                    i < m.g->input.n ? i : i - m.g->input.n);
    weights(&m);
    text_printf(t,
                "%s\nint\n%s_run_in(void *arena, %s)\n{\n    char *const memory = (char *)arena;\n"
                "    TnFault fault = {0, 0, 0, 0, 0};\n    TnArgs args = {0, 0, 0};\n"
                "    args.fault = &fault;\n    (void)memory;\n    (void)tn_weights;\n",
                copies ? "\nstatic void\ntn_copy(void *to, const void *from, int32_t bytes)\n{\n"
                         "    if (to != from)\n        memcpy(to, from, (size_t)bytes);\n}\n"
                       : "",
                name, text_str(&parameters));
    for (NodeId n = 1; n < m.g->node.n; n++) {
        if (m.g->node.at[n].callee == CALL_JOIN)
            join(&m, n);
        else
            call(&m, n, number++);
    }
    for (uint32_t i = 0; i < m.plan->copy.n; i++) {
        ValueId from = m.plan->copy.at[i].from;
        text_printf(t, "    tn_copy(out%u, %s, %lld);\n", m.plan->copy.at[i].output,
                    place(&m, from),
                    (long long)expr_or(type_bytes(c, m.g->value.at[from].type), 0));
    }
    text_add(t, "    return (int)fault.code;\n}\n");
    text_printf(
        t,
        "\n#ifndef %s_NO_ARENA\nstatic uint64_t tn_arena[%s_RAM_BYTES / 8 + 1] "
        "%s_IN(%s_ARENA_SECTION);\n\nint\n%s_run(%s)\n{\n    return %s_run_in(tn_arena%s);\n}\n"
        "#endif\n",
        name, name, name, name, name, text_str(&parameters), name, text_str(&names));
    return true;
}
