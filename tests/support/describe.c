/* describe: every query of a nest as text, one line each, for golden tests and for people.
 *
 *     axes parallel n < b, k < f; reduce q < c
 *     read x[n, q] contr, under sum q; a point needs [n +1, 0 +c]
 *     contraction row {n} (x[n, q]) col {k} (w[q, k]) batch {} sum {q}
 *     cost points b*f, add b*c*f, mul b*c*f, div 0, special 0; bytes read 4*b*c + 4*c*f, written
 *     4*b*f
 */
#include "nest/walk.h"
#include "support/support.h"
#include "text/text.h"

static void
axis_name(void *user, Text *t, Var v)
{
    const Nest *n = user;

    if (v.kind == VAR_AXIS)
        text_add(t, v.id < n->naxis ? n->axis[v.id].name : "?");
    else
        text_add(t, v.kind == VAR_SYMBOL ? (Sym)(uintptr_t)v.id : "?");
}

/* An Expr with the nest's names; where it is computed from data, as the printer of scalars has
 * it. */
static void
print_expr(Ctx *c, Text *t, const Nest *n, const Expr *e)
{
    ExprStyle style = { .name = axis_name, .user = (void *)(uintptr_t)n };

    if (expr_uses_kind(e, VAR_COMPUTED))
        scalar_print(c, t, n, scalar_index(c, e));
    else
        expr_print(t, e, &style);
}

static void
print_axes(Text *t, const Nest *n, AxisSet set)
{
    const char *comma = "";

    text_add(t, "{");
    for (uint32_t k = 0; k < n->naxis; k++)
        if (set & axis_one(k)) {
            text_printf(t, "%s%s", comma, n->axis[k].name);
            comma = ", ";
        }
    text_add(t, "}");
}

static void
describe_axes(Ctx *c, Text *t, const Nest *n)
{
    static const char *const kind_name[] = { "parallel", "reduce", "scan" };
    const char *between = "axes ";

    for (uint32_t kind = AXIS_PARALLEL; kind <= AXIS_SCAN; kind++) {
        const char *comma = " ";
        if (!nest_axes_of_kind(n, (AxisKind)kind))
            continue;
        text_printf(t, "%s%s", between, kind_name[kind]);
        for (uint32_t k = 0; k < n->naxis; k++) {
            if (n->axis[k].kind != (AxisKind)kind)
                continue;
            text_printf(t, "%s%s < ", comma, n->axis[k].name);
            print_expr(c, t, n, n->axis[k].extent);
            comma = ", ";
        }
        between = "; ";
    }
    text_add(t, between[0] == 'a' ? "axes none\n" : "\n");
}

/* What one output point needs of the tensor: parallel axes stand still, reduction axes run. */
static void
describe_region(Ctx *c, Text *t, const Nest *n, const Access *a)
{
    const Expr *lo[NEST_MAX_AXES], *width[NEST_MAX_AXES], *out_lo[TN_MAX_RANK],
        *out_width[TN_MAX_RANK];

    for (uint32_t k = 0; k < n->naxis; k++) {
        bool runs = (a->reduce & axis_one(k)) != 0;
        lo[k] = runs ? expr_int(c, 0) : expr_axis(c, k);
        width[k] = runs ? n->axis[k].extent : expr_int(c, 1);
    }
    access_region(c, a, n->naxis, lo, width, out_lo, out_width);
    text_add(t, "; a point needs [");
    for (uint32_t d = 0; d < a->load->u.load.rank; d++) {
        text_add(t, d ? ", " : "");
        if (!out_lo[d]) {
            text_add(t, "?");
            continue;
        }
        print_expr(c, t, n, out_lo[d]);
        text_add(t, " +");
        print_expr(c, t, n, out_width[d]);
    }
    text_add(t, "]");
}

static void
describe_read(Ctx *c, Text *t, const Nest *n, const Access *a)
{
    text_add(t, "read ");
    scalar_print(c, t, n, a->load);
    text_printf(t, " %s", mapping_name[nest_mapping(c, n, a)]);
    if (a->reduce) {
        text_add(t, ", under ");
        print_axes(t, n, a->reduce);
    }
    if (a->conditional)
        text_add(t, ", conditional");
    if (a->load->u.load.rank)
        describe_region(c, t, n, a);
    text_add(t, "\n");
}

static void
describe_contraction(Ctx *c, Text *t, const Nest *n)
{
    Contraction v;

    if (!nest_contraction(c, n, &v)) {
        text_add(t, "contraction no\n");
        return;
    }
    text_add(t, "contraction row ");
    print_axes(t, n, v.row);
    text_add(t, " (");
    scalar_print(c, t, n, v.a);
    text_add(t, ") col ");
    print_axes(t, n, v.col);
    text_add(t, " (");
    scalar_print(c, t, n, v.b);
    text_add(t, ") batch ");
    print_axes(t, n, v.batch);
    text_add(t, " sum ");
    print_axes(t, n, v.sum);
    text_add(t, "\n");
}

static void
describe_cost(Ctx *c, Text *t, const Nest *n)
{
    NestCost cost = nest_cost(c, n);
    const struct {
        const char *name;
        const Expr *e;
    } row[] = {
        { "cost points ", cost.points },
        { ", add ", cost.add },
        { ", mul ", cost.mul },
        { ", div ", cost.div },
        { ", special ", cost.special },
        { "; bytes read ", cost.bytes_read },
        { ", written ", cost.bytes_written },
    };

    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        text_add(t, row[i].name);
        print_expr(c, t, n, row[i].e);
    }
    text_add(t, "\n");
}

void
nest_describe(Ctx *c, Text *t, const Nest *n)
{
    Arena *scratch = arena_child(c->arena);
    Accesses reads = nest_accesses(c, scratch, n);

    describe_axes(c, t, n);
    for (uint32_t i = 0; i < reads.n; i++)
        describe_read(c, t, n, &reads.at[i]);
    describe_contraction(c, t, n);
    describe_cost(c, t, n);
    arena_free(scratch);
}
