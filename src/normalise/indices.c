/* indices: what follows from indices alone is computed where it is read, never stored; and what
 * does not vary along a dimension is computed once for it.
 *
 *     r[i] = i        m[i, j] = r[j] <= r[i] ? 0 : -inf        s[h, i, j] = q[h, i, j] + m[i, j]
 *
 * becomes s[h, i, j] = q[h, i, j] + (j <= i ? 0 : -inf).
 *
 * Exporters build masks and positions so, of Range, Expand, Gather and comparisons, and read them
 * in every layer. A value has a form if its nest, with the forms of its inputs and one-element
 * constants substituted, has no inputs. Forms are inlined into the nests that read them. A schedule
 * then sees what a mask hides (kernel/support.h). Constants may have forms too (constant_form.c).
 *
 *     m[b, h, i, j] = pad[b, j] ? 0 : -inf     becomes     m[b, 0, 0, j], read at 0
 *
 * Exporters also expand masks to the shape of their consumers. Such a value keeps one point along
 * these dimensions, and its form is a read of that.
 *
 * Other forms are whole numbers, conditions, and selects of constants: a few instructions.
 * Expensive functions of indices, a table of sines, stay values.
 */
#include "algebra/algebra.h"
#include "normalise/constant_form.h"
#include "normalise/normalise.h"

#include "nest/walk.h"

#include <string.h>

enum { MOST_OPERATIONS = 24 }; /* of a form: a larger one is computed once */

/* A nest in place of a value, and the new graph's value that it reads; 0: none. */
typedef struct {
    const Nest *nest;
    ValueId in;
} IndexForm;

typedef struct {
    Ctx *c;
    const Graph *from;
    Graph *to;
    ValueId *map;    /* 0 for forms that no reader needed as a value yet */
    IndexForm *form; /* [from->value.n]; nest NULL: no form */
    /* likewise: a read of another value, which does not vary along some dimension */
    IndexForm *view;
    NodeId *maker; /* of forms */
} Forms;

/* ---- which nests are forms ------------------------------------------------------------------- */

static bool
is_costly(const Scalar *s)
{
    bool cheap = s->op == S_CONST || s->op == S_INDEX || s->op == S_SELECT || s->op == S_CAST ||
                 s->op == S_ADD || s->op == S_SUB || s->op == S_MUL || s->op == S_MIN ||
                 s->op == S_MAX || s->op == S_AND || s->op == S_OR || s->op == S_XOR ||
                 s->op == S_NOT || s->op == S_NEG || (s->op >= S_EQ && s->op <= S_GE);
    /* floats are selected, not computed */
    bool chosen = s->op == S_CONST || s->op == S_SELECT || !dtype_is_float(s->dtype);

    return !cheap || !chosen;
}

/* Is every element the same, `first` being the scan's value before its first step? Then each step
 * makes it again. */
static const Scalar *
steady_scan(Ctx *c, Arena *a, const Nest *n)
{
    Accesses all = nest_accesses(c, a, n);
    ScalarMap m = { .ctx = c, .done = { .arena = a } };
    const Scalar *first = NULL;

    for (uint32_t i = 0; i < all.n; i++) {
        const Scalar *load = all.at[i].load, *outside = load->u.load.outside;
        if (load->u.load.slot != n->nin || !outside || outside->op != S_CONST ||
            (first && first != outside))
            return NULL;
        first = outside;
        map_put(&m.done, MAP_PTR(load), MAP_PTR(outside));
    }
    return first && scalar_map(&m, n->write[0].value) == first ? first : NULL;
}

/* A select of two constants; cond NULL: one constant. */
typedef struct {
    const Scalar *cond, *arm[2];
} ConstantSelect;

static bool
choice_of(Ctx *c, const Scalar *s, ConstantSelect *out)
{
    *out = (ConstantSelect){ NULL, { s, s } };
    if (s->op == S_SELECT)
        *out = (ConstantSelect){ s->arg[0], { s->arg[1], s->arg[2] } };
    else if (s->op == S_CAST && s->arg[0]->dtype == DT_BOOL)
        *out = (ConstantSelect){ s->arg[0],
                                 { scalar_number(c, s->dtype, 1), scalar_number(c, s->dtype, 0) } };
    return out->arm[0]->op == S_CONST && out->arm[1]->op == S_CONST;
}

/* Selects by one condition become one select: (1 - (j <= i ? 1 : 0)) * -3e38. */
static const Scalar *
chosen(ScalarMap *m, const Scalar *s)
{
    Ctx *c = m->ctx;
    const Scalar *cond = NULL, *made[2];
    ConstantSelect arg[2];

    if (s->op == S_CAST && s->arg[0]->dtype == DT_BOOL && choice_of(c, s, &arg[0]))
        return scalar_select(c, arg[0].cond, arg[0].arm[0], arg[0].arm[1]);
    if (s->narg < 1 || s->narg > 2 || (s->op != S_CAST && (s->op < S_ADD || s->op > S_ISINF)))
        return s;
    for (uint32_t i = 0; i < s->narg; i++) {
        if (!choice_of(c, s->arg[i], &arg[i]) || (cond && arg[i].cond && arg[i].cond != cond))
            return s;
        cond = arg[i].cond ? arg[i].cond : cond;
    }
    for (int k = 0; k < 2 && cond; k++)
        made[k] = s->op == S_CAST
                      ? scalar_cast(c, s->dtype, arg[0].arm[k])
                      : scalar_op(c, s->op,
                                  (const Scalar *[]){ arg[0].arm[k],
                                                      s->narg > 1 ? arg[1].arm[k] : NULL });
    if (!cond || made[0]->op != S_CONST || made[1]->op != S_CONST)
        return s;
    if (s->dtype == DT_BOOL && made[0] != made[1])
        return made[0]->u.bits ? cond : scalar_1(c, S_NOT, cond);
    return scalar_select(c, cond, made[0], made[1]);
}

const Nest *
normalise_choices(Ctx *c, const Nest *n)
{
    NestEdit e = nest_edit(c, n, 0, 0);
    ScalarMap m = { .node = chosen, .ctx = c, .done = { .arena = e.scratch } };

    nest_edit_map(&e, &m);
    return nest_edit_done(c, &e);
}

/* The nest, which has no inputs, as a form; NULL: it is none. */
static const Nest *
form_of(Ctx *c, const Nest *n)
{
    Arena *scratch = arena_child(c->arena);
    bool costly = n->param[n->nin].type->dtype == DT_STR;
    const Nest *form = NULL;

    if (n->nout == 1 && n->nwrite == 1 && n->nin == 0 && !costly &&
        write_is_plain(c, n, &n->write[0])) {
        const Scalar *steady = nest_axes_of_kind(n, AXIS_SCAN) ? steady_scan(c, scratch, n) : NULL;
        FOR_EACH_SCALAR (s, scalar_nodes(c, n->write[0].value))
            costly |= is_costly(s);
        if (steady)
            form = nest_of_scalar(c, n->name, n->param[0].type, steady);
        else if (!costly && !nest_axes_of_kind(n, AXIS_SCAN) &&
                 scalar_size(c, n->write[0].value) <= MOST_OPERATIONS)
            form = n;
    }
    arena_free(scratch);
    return form;
}

/* ---- what does not vary ---------------------------------------------------------------------- */

/* Parallel axes, each a dimension of the only output longer than 1, with which the value does not
 * vary. */
static AxisSet
idle_axes(Ctx *c, const Nest *n)
{
    const Write *w = &n->write[0];
    AxisSet idle = 0;

    if (n->nout != 1 || n->nwrite != 1 || !n->nin || nest_axes_of_kind(n, AXIS_SCAN) ||
        nest_axes_of_kind(n, AXIS_REDUCE) || !write_is_plain(c, n, w))
        return 0;
    for (uint32_t d = 0; d < n->param[n->nin].type->rank; d++)
        if (axis_bit(w->at[d]) && expr_or(n->axis[axis_of(w->at[d])].extent, 2) > 1)
            idle |= axis_bit(w->at[d]) & ~w->value->axes;
    return idle;
}

/* The type with one point along idle dimensions. */
static const Type *
narrow_type(Ctx *c, const Nest *n, AxisSet idle)
{
    const Type *t = n->param[n->nin].type;
    const Expr *dim[TN_MAX_RANK];

    for (uint32_t d = 0; d < t->rank; d++)
        dim[d] = idle & axis_bit(n->write[0].at[d]) ? expr_int(c, 1) : t->dim[d];
    return type_new(c, t->dtype, t->rank, dim);
}

/* The nest with one point along idle axes. */
static const Nest *
narrow(Ctx *c, const Nest *n, AxisSet idle)
{
    NestEdit e = nest_edit(c, n, 0, 0);

    e.param[n->nin].type = narrow_type(c, n, idle);
    FOR_EACH_AXIS (x, idle)
        e.axis[x].extent = expr_int(c, 1);
    return nest_edit_done(c, &e);
}

/* The old shape, as a read of that. */
static const Nest *
widened(Ctx *c, const Nest *n, AxisSet idle)
{
    NestBuilder b = nest_begin(c, "repeated");
    const Type *t = n->param[n->nin].type, *from = narrow_type(c, n, idle);
    const Expr *axis[TN_MAX_RANK], *at[TN_MAX_RANK];
    uint32_t x = nest_in(&b, "x", from);

    nest_axes_of(&b, t, axis);
    for (uint32_t d = 0; d < t->rank; d++)
        at[d] = expr_is(from->dim[d], 1) ? expr_int(c, 0) : axis[d];
    nest_write(&b, nest_out(&b, "o", t), axis, nest_load(&b, x, at));
    return nest_finish(&b);
}

/* ---- putting them in ------------------------------------------------------------------------- */

/* A value of the new graph for v, for a reader that cannot inline its form. */
static ValueId
settle(Forms *f, ValueId v)
{
    const Node *n = &f->from->node.at[f->maker[v]];

    if (!f->map[v]) {
        f->map[v] = graph_copy_value(f->to, f->from, v);
        graph_call_nest(f->to, f->form[v].nest, n->loc, n->origin, &f->form[v].in, &f->map[v]);
    }
    return f->map[v];
}

/* An input of a nest: a value of the old graph or of the new one. */
typedef struct {
    ValueId old, now;
} Input;

static ValueId
input_value(Forms *f, const Input *in)
{
    return in->now ? in->now : f->form[in->old].nest ? settle(f, in->old) : f->map[in->old];
}

static Input *
inputs_of(const Forms *f, const Node *n)
{
    Input *in = NEW_ARRAY(f->c->arena, Input, n->in.count + 1);

    for (uint32_t i = 0; i < n->in.count; i++)
        in[i].old = node_in(f->from, n, i);
    return in;
}

/* Would an index from data disappear that is checked where it is used, since the form does not vary
 * along its dimension? */
static bool
loses_check(Ctx *c, const Nest *n, uint32_t slot, const Nest *form)
{
    AxisSet used = form->write[0].value->axes;

    for (uint32_t w = 0; w < n->nwrite; w++)
        FOR_EACH_SCALAR (load, scalar_loads(c, n->write[w].value))
            for (uint32_t d = 0; load->u.load.slot == slot && d < load->u.load.rank; d++)
                if (!(used >> d & 1) && expr_uses_kind(load->u.load.at[d], VAR_COMPUTED))
                    return true;
    return false;
}

/* The node's nest with the forms of its inputs inlined, and numbers and views if requested; and its
 * inputs then. */
static const Nest *
with_forms(Forms *f, const Node *node, bool numbers, bool views, Input *in)
{
    const Nest *n = nest_simplify(f->c, node->nest);

    for (uint32_t slot = 0; n && slot < n->nin;) {
        ValueId v = in[slot].old;
        IndexForm form = f->form[v];
        if (!form.nest && views)
            form = f->view[v];
        if (v && !form.nest && numbers)
            form.nest = form_of_number(f->c, &f->from->value.at[v]);
        if (form.nest && f->from->value.at[v].data && loses_check(f->c, n, slot, form.nest))
            form.nest = NULL;
        const Nest *with = form.nest ? nest_inline(f->c, n, slot, form.nest) : NULL;
        if (!with) {
            slot++;
            continue;
        }
        memmove(in + slot, in + slot + 1, (n->nin - slot - 1) * sizeof *in);
        if (form.in) /* appended to the others */
            in[n->nin - 1] = (Input){ 0, form.in };
        n = nest_simplify(f->c, with);
    }
    return n;
}

static bool
only_forms(const Forms *f, const Node *n)
{
    for (uint32_t i = 0; i < n->in.count; i++) {
        ValueId v = node_in(f->from, n, i);
        if (f->form[v].in || (!f->form[v].nest && !form_of_number(f->c, &f->from->value.at[v])))
            return false;
    }
    return true;
}

/* Has an input a form, or a view? */
static bool
any_of(const Forms *f, const IndexForm *of, const Node *n)
{
    for (uint32_t i = 0; i < n->in.count; i++)
        if (of[node_in(f->from, n, i)].nest)
            return true;
    return false;
}

static void
call(Forms *f, NodeId id, const Nest *n, const Input *in, const ValueId *out)
{
    const Node *node = &f->from->node.at[id];
    ValueId *from = NEW_ARRAY(f->c->arena, ValueId, n->nin + 1);

    for (uint32_t i = 0; i < n->nin; i++)
        from[i] = input_value(f, &in[i]);
    graph_call_nest(f->to, n, node->loc, node->origin, from, out);
}

/* A value that does not vary along some dimensions, made without them. False: none are idle. */
static bool
put_narrow(Forms *f, NodeId id, const Nest *n, const Input *in)
{
    AxisSet idle = n->nwrite == 1 && n->write[0].value->op == S_LOAD ? 0 : idle_axes(f->c, n);
    ValueId v = node_out(f->from, &f->from->node.at[id], 0);
    const Nest *made = idle ? narrow(f->c, n, idle) : NULL,
               *form = made ? widened(f->c, n, idle) : NULL;

    if (!form)
        return false;
    ValueId out =
        graph_value(f->to, arena_printf(f->c->arena, "%s_once", f->from->value.at[v].name),
                    narrow_type(f->c, n, idle));
    call(f, id, made, in, &out);
    f->form[v] = (IndexForm){ form, out };
    f->maker[v] = id;
    return true;
}

/* A value that only reads another one is remembered for its readers, which may be idle too. */
static void
note_view(Forms *f, const Node *node, const Nest *n, const Input *in)
{
    const Scalar *value = n->write[0].value;

    if (node->out.count == 1 && n->nin == 1 && idle_axes(f->c, n) && value->op == S_LOAD &&
        !value->u.load.outside)
        f->view[node_out(f->from, node, 0)] = (IndexForm){ n, input_value(f, &in[0]) };
}

/* The node's only value follows from indices: it gets a form. */
static bool
put_form(Forms *f, NodeId id)
{
    const Node *n = &f->from->node.at[id];
    const Nest *with = n->out.count == 1 && only_forms(f, n)
                           ? with_forms(f, n, true, false, inputs_of(f, n))
                           : NULL,
               *form = with && (with = normalise_choices(f->c, with)) ? form_of(f->c, with) : NULL;

    if (!form)
        return false;
    f->form[node_out(f->from, n, 0)].nest = form;
    f->maker[node_out(f->from, n, 0)] = id;
    return true;
}

/* The value does not vary along some dimension. */
static bool
put_narrow_form(Forms *f, NodeId id)
{
    const Node *n = &f->from->node.at[id];
    Input *in = inputs_of(f, n);
    const Nest *with = n->out.count == 1 && (any_of(f, f->view, n) || any_of(f, f->form, n) ||
                                             idle_axes(f->c, n->nest))
                           ? with_forms(f, n, false, true, in)
                           : NULL;

    return with && put_narrow(f, id, with, in);
}

static bool
put_forms(Forms *f, NodeId id)
{
    const Node *n = &f->from->node.at[id];
    Input *in = inputs_of(f, n);

    if (put_form(f, id) || put_narrow_form(f, id))
        return true;
    if (!any_of(f, f->form, n)) {
        graph_copy_node(f->to, f->from, id, f->map);
        note_view(f, n, n->nest, in);
        return true;
    }
    const Nest *with = with_forms(f, n, false, false, in);
    if (!with)
        return false;
    ValueId *out = NEW_ARRAY(f->c->arena, ValueId, n->out.count);
    for (uint32_t i = 0; i < n->out.count; i++)
        out[i] = f->map[node_out(f->from, n, i)] =
            graph_copy_value(f->to, f->from, node_out(f->from, n, i));
    call(f, id, with, in, out);
    note_view(f, n, with, in);
    return true;
}

Graph *
normalise_indices(const Graph *g)
{
    Arena *scratch = arena_child(g->arena);
    ValueId *map;
    bool ok = true;
    Forms f = { .c = g->ctx,
                .from = g,
                .to = graph_rebuild(g, &map),
                .form = NEW_ARRAY(scratch, IndexForm, g->value.n),
                .view = NEW_ARRAY(scratch, IndexForm, g->value.n),
                .maker = NEW_ARRAY(scratch, NodeId, g->value.n) };

    f.map = map;
    for (ValueId v = 1; v < g->value.n; v++) {
        f.form[v].nest = form_of_constant(g->ctx, &g->value.at[v]);
        if (!f.form[v].nest)
            f.form[v].nest = form_of_mask(f.to, &g->value.at[v], &f.form[v].in);
    }
    for (NodeId id = 1; id < g->node.n && ok; id++) {
        const Node *n = &g->node.at[id];
        if (n->callee == CALL_NEST) {
            ok = put_forms(&f, id);
            continue;
        }
        for (uint32_t i = 0; i < n->in.count; i++)
            if (f.form[node_in(g, n, i)].nest)
                settle(&f, node_in(g, n, i));
        graph_copy_node(f.to, g, id, map);
    }
    for (uint32_t i = 0; i < g->output.n && ok; i++)
        if (f.form[g->output.at[i]].nest)
            settle(&f, g->output.at[i]);
    if (ok)
        graph_finish(f.to, g, map);
    arena_free(scratch);
    return ok ? f.to : NULL;
}
