/* host_tables: string constants, as arrays of pointers to literals in the host program (the dynamic
 * loader relocates them), and the string helpers. */
#include "emit/host.h"

static bool
has_strings(const Host *h)
{
    for (uint32_t i = 0; i < h->p->plan->plan.n; i++) {
        const Graph *g = h->p->plan->plan.at[i]->graph;
        for (ValueId v = 1; v < g->value.n; v++)
            if (g->value.at[v].type->dtype == DT_STR)
                return true;
    }
    return false;
}

/* In the layout, padding is NULL, which is printed as "". */
static void
print_table(Host *h, uint32_t i)
{
    const Value *v = h->p->plan->table.at[i];
    const char *const *s = v->data;
    const char **packed = NULL;
    int64_t n;

    bool fixed = expr_const(format_count(h->c, v->format, v->type), &n);
    if (fixed && v->format)
        s = packed = NEW_ARRAY(h->a, const char *, n ? n : 1);
    if (!fixed || (packed && !format_apply(v->format, v->type, v->data, packed))) {
        h->failed = !diag_error(&h->c->diags, DIAG_INTERNAL, (Loc){ 0 },
                                "emit: strings %%%s cannot be packed: their type is %s", v->name,
                                type_str(h->c, v->type));
        return;
    }
    text_printf(h->t, "static const TnText tn_table_%u[] = {    /* %%", i);
    text_comment(h->t, v->name);
    text_add(h->t, " */\n");
    for (int64_t k = 0; k < n; k++) {
        text_add(h->t, "    { ");
        host_string(h->t, s[k]);
        text_add(h->t, " },\n");
    }
    text_add(h->t, "    { 0 }\n};\n"); /* C has no empty array, and n may be 0 */
}

void
host_tables(Host *h)
{
    uint32_t n = h->p->plan->table.n;

    h->texts = has_strings(h);
    if (!h->texts)
        return;
    text_add(h->t,
#include "prelude_text_text.h"
    );
    for (uint32_t i = 0; i < n; i++)
        print_table(h, i);
    if (n)
        text_add(h->t, "static const void *const tn_tables[] = {\n");
    for (uint32_t i = 0; i < n; i++)
        text_printf(h->t, "    tn_table_%u,\n", i);
    text_add(h->t, n ? "};\n\n" : "\n");
}
