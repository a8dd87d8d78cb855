/* pins: a file of choices, with schedules of kernels by the name of the value that a kernel makes:
 *
 *   %relu2_out {
 *     split j by 16 -> jp jv pad
 *     …
 *   }
 *   %relu2_out when batch == 1 {
 *     …
 *   }
 */
#include "driver/internal.h"

#include <string.h>

/* The steps between braces, one per line. */
static bool
read_steps(Parse *p, Arena *a, const WrittenSteps **steps)
{
    Text t = { .arena = a };
    WrittenSteps *written = NEW(a, WrittenSteps);

    if (!parse_expect(p, "{"))
        return false;
    written->at = *p;
    for (; p->s < p->end && *p->s != '}'; p->s++) {
        if (*p->s == '\n') {
            p->line++;
            p->line_start = p->s + 1;
        }
        text_bytes(&t, p->s, 1);
    }
    written->at.end = p->s;
    written->steps = text_str(&t);
    *steps = written;
    return parse_expect(p, "}");
}

bool
pins_read(Job *j, const char *path, Pins *pins)
{
    Bytes file;

    if (!path)
        return true;
    if (!file_map(j->arena, &j->ctx->diags, path, &file))
        return false;
    Parse p = parse_begin(j->ctx, path, file);
    while (!parse_end(&p)) {
        Pin pin = { .loc = { .file = path, .line = p.line } };
        if (!parse_accept(&p, "%") || !(pin.value = parse_name(&p)))
            return parse_error(&p,
                               "expected %%NAME { steps } for the kernel that makes value NAME");
        if (parse_accept(&p, "when") && !guard_parse(&p, j->arena, &pin.where))
            return false;
        if (!read_steps(&p, j->arena, &pin.steps))
            return false;
        VEC_PUSH(j->arena, pins, pin);
    }
    return true;
}

Sym
kernel_value(const Graph *g, NodeId n)
{
    return g->value.at[node_out(g, &g->node.at[n], 0)].name;
}

Pin *
pins_of(const Pins *pins, Sym value, bool variant)
{
    for (uint32_t i = 0; i < pins->n; i++)
        if (!strcmp(pins->at[i].value, value) && (pins->at[i].where.n > 0) == variant)
            return &pins->at[i];
    return NULL;
}

Variants
pins_variants(Job *j, const Pins *pins, Sym value, const Kernel *k)
{
    Variants out = { .at = NEW_ARRAY(j->arena, Kernel *, pins->n) };

    for (uint32_t i = 0; i < pins->n; i++)
        if (!strcmp(pins->at[i].value, value) && pins->at[i].where.n) {
            out.at[out.n++] = variant_of(j, k, &pins->at[i].where, pins->at[i].steps->steps);
            out.at[out.n - 1]->schedule = pins->at[i].steps->steps;
            out.at[out.n - 1]->written = pins->at[i].steps;
            pins->at[i].used = true;
        }
    return out;
}

bool
pins_used(Job *j, const Pins *pins)
{
    Text t = { .arena = j->arena };

    for (uint32_t i = 0; i < pins->n; i++) {
        if (pins->at[i].used)
            continue;
        GraphList all = graph_all(j->graph, j->arena);
        for (uint32_t k = 0; k < all.n; k++)
            for (NodeId n = 1; n < all.at[k]->node.n; n++)
                if (all.at[k]->node.at[n].kernel)
                    text_printf(&t, "%s%%%s", t.n ? ", " : "", kernel_value(all.at[k], n));
        return diag_error(&j->ctx->diags, DIAG_USAGE, pins->at[i].loc,
                          "no kernel makes %%%s; kernels make %s", pins->at[i].value, text_str(&t));
    }
    return true;
}
