/* parse_nest: parses a nest. doc/nest.md has the grammar.
 *
 * Axes are numbered in order of appearance: those of a `for` line, then the left side of the first
 * write, then reductions. A left side without an extent takes the output's dimension, a reduction
 * the dimension of its first bare read.
 */
#include "text/parser.h"
#include "nest/walk.h"

#include <string.h>

typedef struct {
    Scope scope;
    AxisTable axes;
    VEC(NestParam) param;
    VEC(Write) write;
    uint32_t nin;
    bool fixed; /* left sides declare no more axes */
    bool given; /* the caller gives parameters; results are converted to their types */
} NestText;

static bool
parse_params(NestText *t)
{
    Scope *s = &t->scope;
    Parse *p = s->p;
    if (!parse_expect(p, "("))
        return false;
    while (!parse_peek(p, ")")) {
        Sym name = parse_name(p);
        NameEntry e = { .name = name, .kind = NAME_SLOT, .id = t->param.n };
        if (!name || !scope_declare(s, e) || !parse_expect(p, ":"))
            return false;
        const Type *type = parse_type_in(s, NULL);
        if (!type)
            return false;
        if (type->rank > TN_MAX_RANK)
            return parse_error(p, "%s has rank %u, the limit is %d (TN_MAX_RANK)", name, type->rank,
                               TN_MAX_RANK);
        VEC_PUSH(p->ctx->arena, &t->param, ((NestParam){ name, type }));
        VEC_PUSH(s->scratch, &s->slot_type, type);
        if (!parse_accept(p, ","))
            break;
    }
    return parse_expect(p, ")");
}

static bool
declare_axis(NestText *t, Axis axis)
{
    Scope *s = &t->scope;
    if (t->axes.list.n == NEST_MAX_AXES)
        return parse_error(s->p, "more than %d axes (NEST_MAX_AXES)", NEST_MAX_AXES);
    if (!scope_declare(s,
                       (NameEntry){ .name = axis.name, .kind = NAME_AXIS, .id = t->axes.list.n }))
        return false;
    VEC_PUSH(s->p->ctx->arena, &t->axes.list, axis);
    return true;
}

/* for i<n>, reduce k<m>: */
static bool
parse_for(NestText *t)
{
    Scope *s = &t->scope;
    Parse *p = s->p;
    do {
        Axis axis = { .kind = parse_accept(p, "reduce") ? AXIS_REDUCE : AXIS_PARALLEL };
        const Expr *limit;
        if (!(axis.name = parse_name(p)) || !parse_axis_extent(s, &axis, &limit))
            return false;
        if (!axis.extent)
            return parse_error(p,
                               limit ? "axis %s needs an extent over symbols here: %s<extent>"
                                     : "axis %s needs an extent here: %s<extent>",
                               axis.name, axis.name);
        if (!declare_axis(t, axis))
            return false;
    } while (parse_accept(p, ","));
    return parse_expect(p, ":");
}

/* One index of a left side: a new axis if one may be declared here, otherwise any index. */
static const Expr *
parse_left_index(NestText *t, const Expr *dim)
{
    Scope *s = &t->scope;
    Parse before = *s->p;
    parse_skip(s->p);
    bool word = s->p->s < s->p->end && !strchr("0123456789-(", *s->p->s);
    Sym name = word && !t->fixed ? parse_name(s->p) : NULL;
    if (word && !t->fixed && !name)
        return NULL;
    bool fresh = name && !scope_find(s, name) && !parse_peek(s->p, "(") && !parse_peek(s->p, "[");
    if (!fresh) {
        *s->p = before;
        return parse_index(s);
    }
    Axis axis = { name, AXIS_PARALLEL, NULL };
    const Expr *limit;
    if (!parse_axis_extent(s, &axis, &limit))
        return NULL;
    if (!axis.extent)
        axis.extent = dim;
    if (!declare_axis(t, axis))
        return NULL;
    t->axes.limit[t->axes.list.n - 1] = limit;
    return expr_axis(s->p->ctx, t->axes.list.n - 1);
}

static bool
parse_scan(NestText *t)
{
    Scope *s = &t->scope;
    do {
        Sym name = parse_name(s->p);
        const NameEntry *e = name ? scope_find(s, name) : NULL;
        if (!name)
            return false;
        if (!e || e->kind != NAME_AXIS || t->axes.list.at[e->id].kind == AXIS_REDUCE)
            return parse_error(s->p, "scan walks axes of the left side; %s is none", name);
        t->axes.list.at[e->id].kind = AXIS_SCAN;
    } while (parse_accept(s->p, ","));
    return parse_expect(s->p, ":");
}

static bool
parse_output(NestText *t, uint32_t *slot)
{
    Scope *s = &t->scope;
    Sym name = parse_name(s->p);
    const NameEntry *e = name ? scope_find(s, name) : NULL;
    if (!name)
        return false;
    if (!e || e->kind != NAME_SLOT || e->id < t->nin)
        return parse_error(s->p, "%s is not an output", name);
    *slot = e->id;
    return true;
}

/* o[i, j]   or   (v, a)[i, j] */
static bool
parse_left(NestText *t, uint32_t *slot, uint32_t *count, const Expr **at)
{
    Scope *s = &t->scope;
    Parse *p = s->p;
    *count = 0;
    bool tuple = parse_accept(p, "(");
    do {
        if (*count == 2)
            return parse_error(p, "a tuple has 2 values, here is a third output");
        if (!parse_output(t, &slot[(*count)++]))
            return false;
    } while (tuple && parse_accept(p, ","));
    if ((tuple && !parse_expect(p, ")")) || !parse_expect(p, "["))
        return false;
    if (tuple && *count != 2)
        return parse_error(p, "a tuple has 2 values, here is one output");
    const Type *type = t->param.at[slot[0]].type;
    if (tuple && t->param.at[slot[1]].type->rank != type->rank)
        return parse_error(p, "outputs of one tuple have ranks %u and %u", type->rank,
                           t->param.at[slot[1]].type->rank);
    for (uint32_t d = 0; d < type->rank; d++)
        if ((d && !parse_expect(p, ",")) || !(at[d] = parse_left_index(t, type->dim[d])))
            return false;
    t->fixed = true;
    return parse_expect(p, "]");
}

static AxisSet
axes_on_left(const NestText *t)
{
    AxisSet set = 0;

    for (uint32_t k = 0; k < t->axes.list.n; k++)
        set |= t->axes.list.at[k].kind == AXIS_REDUCE ? 0 : axis_one(k);
    return set;
}

static bool
parse_write(NestText *t)
{
    Scope *s = &t->scope;
    Parse *p = s->p;
    Ctx *c = p->ctx;
    uint32_t slot[2], count;
    const Expr *at[TN_MAX_RANK];
    if (!parse_left(t, slot, &count, at))
        return false;
    Combiner k = COMB_NONE;
    for (Combiner i = COMB_SUM; i < COMB_COUNT && k == COMB_NONE; i++)
        if (parse_accept(p, combiner_name[i]))
            k = i;
    if (!parse_expect(p, "=") || (parse_accept(p, "scan") && !parse_scan(t)))
        return false;
    const Type *type = t->param.at[slot[0]].type;
    const Scalar *value = parse_value(s, type->dtype, count > 1);
    if (!value)
        return false;
    if (count > 1 && value->op != S_REDUCE)
        return parse_error(p, "two outputs need a tuple: argmax or argmin");
    uint32_t init = NO_SLOT;
    if (parse_accept(p, "over")) {
        Sym name = parse_name(p);
        const NameEntry *e = name ? scope_find(s, name) : NULL;
        if (!name)
            return false;
        if (!e || e->kind != NAME_SLOT || e->id >= t->nin || k == COMB_NONE)
            return parse_error(
                p, k == COMB_NONE ? "`over %s` needs a combiner before `=`" : "%s is not an input",
                name);
        init = e->id;
    }
    const Scalar *within = axes_within(c, &t->axes, axes_on_left(t));
    if (within && count > 1)
        return parse_error(p, "the points of two outputs are all of an axis");
    if (within)
        value = scalar_select(c, within, value, combiner_identity(c, k, value->dtype));
    const Expr *const *copy = arena_copy(c->arena, at, type->rank * sizeof *at);
    for (uint32_t i = 0; i < count; i++) {
        const Scalar *item = count > 1 ? scalar_item(c, value, i) : value;
        const NestParam *out = &t->param.at[slot[i]];
        item = t->given ? scalar_cast(c, out->type->dtype, item) : item;
        if (item->dtype != out->type->dtype)
            return parse_error(p, "%s is %s, its value is %s: convert it with %s(…)", out->name,
                               dtype_info[out->type->dtype].name, dtype_info[item->dtype].name,
                               dtype_info[out->type->dtype].name);
        VEC_PUSH(c->arena, &t->write, ((Write){ slot[i], copy, k, init, item }));
    }
    return true;
}

static bool
parse_writes(NestText *t)
{
    Parse *p = t->scope.p;
    if (parse_accept(p, "for")) {
        if (!parse_for(t))
            return false;
        t->fixed = true;
    }
    do {
        if (!parse_write(t))
            return false;
    } while (!parse_peek(p, "}") && !parse_end(p));
    return true;
}

static const Nest *
finished(NestText *t, Sym name, Loc loc)
{
    Ctx *c = t->scope.p->ctx;
    Nest *n = NEW(c->arena, Nest);
    *n = (Nest){
        .name = name,
        .loc = loc,
        .naxis = t->axes.list.n,
        .axis = t->axes.list.at,
        .nin = t->nin,
        .nout = t->param.n - t->nin,
        .param = t->param.at,
        .nwrite = t->write.n,
        .write = t->write.at,
    };
    /* definitions of operators keep inside of their tensors by construction; nests of users are
     * checked */
    return nest_verify(c, n, t->given ? DIAG_INTERNAL : DIAG_MODEL) ? n : NULL;
}

static const Nest *
parse_whole(NestText *t)
{
    Parse *p = t->scope.p;
    parse_skip(p);
    Loc loc = parse_here(p);
    Sym name = parse_expect(p, "nest") ? parse_name(p) : NULL;
    if (!name || !parse_symbols(&t->scope) || !parse_params(t))
        return NULL;
    t->nin = t->param.n;
    if (!parse_expect(p, "->") || !parse_params(t) || !parse_expect(p, "{") || !parse_writes(t) ||
        !parse_expect(p, "}"))
        return NULL;
    return finished(t, name, loc);
}

const Nest *
nest_parse(Parse *p)
{
    Arena *scratch = arena_child(p->ctx->arena);
    NestText t = { .scope = { .p = p, .scratch = scratch, .find = { .arena = scratch } } };
    t.scope.axes = &t.axes;
    const Nest *n = parse_whole(&t);
    arena_free(scratch);
    return n;
}

static bool
declare_given(NestText *t, const NestSource *source)
{
    Scope *s = &t->scope;
    Ctx *c = s->p->ctx;

    for (uint32_t i = 0; i < source->nin + source->nout; i++) {
        const NestParam *param = &source->param[i];
        if (!scope_declare(s, (NameEntry){ .name = param->name, .kind = NAME_SLOT, .id = i }))
            return false;
        VEC_PUSH(c->arena, &t->param, *param);
        VEC_PUSH(s->scratch, &s->slot_type, param->type);
    }
    for (uint32_t i = 0; i < source->nnames; i++)
        if (!scope_declare(s, (NameEntry){ .name = sym(c, source->names[i].name),
                                           .kind = NAME_VALUE,
                                           .value = scalar_index(c, source->names[i].index) }))
            return false;
    return true;
}

const Nest *
nest_of_text(Ctx *c, const NestSource *source)
{
    Arena *scratch = arena_child(c->arena);
    const char *name = source->name, *body = source->body;
    Parse p = parse_begin(c, name, (Bytes){ (const uint8_t *)body, strlen(body) });
    NestText t = { .scope = { .p = &p,
                              .scratch = scratch,
                              .find = { .arena = scratch },
                              .widen = !source->moves },
                   .nin = source->nin,
                   .given = true };
    const Nest *n = NULL;

    t.scope.axes = &t.axes;
    if (declare_given(&t, source) && parse_writes(&t))
        n = parse_end(&p) ? finished(&t, sym(c, name), (Loc){ .file = name, .line = 1, .col = 1 })
                          : (parse_error(&p, "expected the end of the nest"), NULL);
    arena_free(scratch);
    return n;
}
