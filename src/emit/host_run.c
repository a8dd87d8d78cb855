/* host_run: the program itself: the calls of the kernels, in order.
 *
 * Calls are rows of one table, each as long as the call has buffers:
 *
 *     kernel, trips, grain, n,   where, offset, … n times         which kernel; how it is divided; its buffers
 *
 * A number that depends on symbols is TN_N(k): the k-th size of the function that walks over the row, which
 * computes its sizes once at its beginning. A run of rows without anything in between is one statement.
 */
#include "emit/host.h"

typedef struct {
    Host *h;
    Parts parts;
    Text rows;
    uint32_t length;                 /* numbers in rows */
    uint32_t nrow;
    uint32_t run_at, run_row;        /* the run of rows that is open: where it begins; run_row == nrow: none is */
} Program;

/* Where a value lies, and how many bytes in: as two columns of a row, or two arguments of tn_place. */
static void
print_place(Program *p, Text *t, ValueId v)
{
    static const char *const where[] = {
        [PLACE_INPUT] = "TN_INPUT", [PLACE_OUTPUT] = "TN_OUTPUT", [PLACE_WEIGHT] = "TN_WEIGHTS", [PLACE_ARENA] = "TN_ARENA",
    };
    const Placement *at = &p->h->p->plan->value[v];

    text_printf(t, "%s, ", where[at->place]);
    if (at->place == PLACE_INPUT || at->place == PLACE_OUTPUT)
        text_printf(t, "%u", at->index);
    else
        part_number(&p->parts, t, at->offset);
}

/* ---- statements ---------------------------------------------------------------------------------- */

static void
end_calls(Program *p)
{
    if (p->run_row < p->nrow)
        text_printf(&p->parts.body, "    if ((code = tn_calls(f, n, tn_functions, tn_rows + %u, %u, %u)))\n        return code;\n",
                    p->run_at, p->run_row, p->nrow - p->run_row);
    p->run_at = p->length;
    p->run_row = p->nrow;
}

static void
begin_statement(Program *p)
{
    end_calls(p);
    part_statement(&p->parts);
}

static void
call(Program *p, NodeId id)
{
    Host *h = p->h;
    const Node *n = &h->g->node.at[id];
    Text *t = &p->rows;
    uint32_t nbuffer = n->in.count + n->out.count;

    if (p->run_row == p->nrow || part_is_full(&p->parts))
        begin_statement(p);
    text_printf(t, "    %u, ", host_function(h, id));
    part_number(&p->parts, t, n->kernel->trips);
    text_add(t, ", ");
    part_number(&p->parts, t, n->kernel->grain);
    text_printf(t, ", %u,  ", nbuffer);
    for (uint32_t i = 0; i < nbuffer; i++) {
        print_place(p, t, i < n->in.count ? node_in(h->g, n, i) : node_out(h->g, n, i - n->in.count));
        text_add(t, i + 1 < nbuffer ? ", " : ",");
    }
    text_add(t, "    /* ");
    host_comment(t, n->kernel->origin ? n->kernel->origin : n->kernel->name);
    text_add(t, " */\n");
    p->length += 4 + 2 * nbuffer;
    p->nrow++;
}

static void
copy(Program *p, ValueId from, uint32_t output)
{
    Host *h = p->h;
    Text *t = &p->parts.body;

    begin_statement(p);
    text_printf(t, "    memcpy(f->outputs[%u], tn_place(f, n, ", output);
    print_place(p, t, from);
    text_printf(t, "), (size_t)(%s));\n", host_plain(h, type_bytes(h->c, h->g->value.at[from].type)));
}

/* ---- the tables, the functions ------------------------------------------------------------------- */

static void
print_tables(const Program *p, Text *t)
{
    text_add(t, "static TnKernelFn *const tn_functions[] = {\n");
    for (uint32_t i = 0; i < p->h->function.n; i++)
        text_printf(t, "    %s,\n", p->h->function.at[i]);
    text_printf(t, "    0\n};\n\n/* kernel, trips, grain, buffers; then of each buffer where it lies and at which byte */\n"
                   "static const int64_t tn_rows[] = {\n%s    0\n};\n\n", text_str(&p->rows));
}

void
host_run(Host *h)
{
    Text functions = {.arena = h->a};
    Program p = {
        .h = h, .rows.arena = h->a,
        .parts = {.h = h, .t = &functions, .name = "tn_steps", .parameters = "const TnFrame *f", .arguments = "f", .numbers = true,
                  .begin = "    const int64_t *const sym = f->sym;\n    int code = 0;\n    (void)sym, (void)code;\n"},
    };

    for (NodeId n = 1; n < h->g->node.n; n++)
        if (host_is_call(h->g, n))
            call(&p, n);
    for (uint32_t i = 0; i < h->p->plan->copy.n; i++)
        copy(&p, h->p->plan->copy.at[i].from, h->p->plan->copy.at[i].output);
    end_calls(&p);
    parts_end(&p.parts);
    print_tables(&p, h->t);
    text_add(h->t, text_str(&functions));
    text_add(h->t, "static int\ntn_run(const TnFrame *f)\n{\n    TnFrame frame = {0};\n"
                   "    memcpy(&frame, f, f->size < sizeof frame ? f->size : sizeof frame);\n    *f->fault = (TnFault){0};\n");
    text_printf(h->t, "    if (!frame.weights)\n        frame.weights = %s;\n", h->own_weights);
    if (h->p->plan->weights_bytes)
        text_printf(h->t, "    if (!frame.weights)\n        return tn_refuse(f->fault, TN_FAULT_WEIGHTS, 0, 0, 0, INT64_C(%lld));\n",
                    (long long)h->p->plan->weights_bytes);
    text_add(h->t, "    return tn_steps(&frame);\n}\n\n");
}
