/* parse: a kernel from its text (print.c shows the form).
 *
 * Loops, lets and buffers are numbered in the order of the text, which has only their names.
 */
#include "kernel/kernel.h"
#include "text/parser.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

typedef struct {
    Scope scope;
    Kernel *k;
    Arena *arena;
    VEC(Part) part;
} KernelText;

static bool parse_block(KernelText *t, Block *b);

/* ---- buffers --------------------------------------------------------------------------------- */

/* The larger tensor that an argument is within. */
static const Type *
parse_within(KernelText *t, const Type *type, Space space)
{
    uint32_t lanes = 1;
    const Type *within = parse_type_in(&t->scope, &lanes);

    if (within && ((space != SPACE_IN && space != SPACE_OUT) || lanes > 1 ||
                   within->dtype != type->dtype || within->rank != type->rank)) {
        parse_error(t->scope.p,
                    "only an argument lies in another tensor, in one of its element type and rank");
        return NULL;
    }
    return within;
}

/* density 15 21 32 53, 20 32 48 77, 32 47 71 103 */
static bool
parse_density(Parse *p, Density *out)
{
    for (uint32_t k = 0; k < DENSITY_KEYS; k++)
        for (uint32_t r = 0; r < DENSITY_ROWS; r++) {
            int64_t n;
            if ((k && !r && !parse_expect(p, ",")) || !parse_int(p, &n))
                return false;
            if (n < 1 || n > DENSITY_OF)
                return parse_error(p, "a density of %" PRId64 " in %d", n, DENSITY_OF);
            out->of[k][r] = (uint8_t)n;
        }
    return true;
}

static bool
parse_buffer(KernelText *t, Space space, uint32_t *id)
{
    Scope *s = &t->scope;
    Parse *p = s->p;
    uint32_t lanes = 1;
    const Format *format = NULL;
    Sym name = parse_name(p);
    *id = t->k->buffer.n;
    if (!name || !scope_declare(s, (NameEntry){ .name = name, .kind = NAME_SLOT, .id = *id }) ||
        !parse_expect(p, ":"))
        return false;
    const Type *type = parse_type_in(s, &lanes), *within = NULL;
    if (!type || (parse_accept(p, "in") && !(within = parse_within(t, type, space))) ||
        (parse_accept(p, "as") && !(format = parse_format(p, type))))
        return false;
    kernel_buffer(p->ctx, t->arena, t->k, name, type, space, lanes);
    t->k->buffer.at[*id].format = format;
    t->k->buffer.at[*id].within = within;
    t->k->buffer.at[*id].kept = space == SPACE_IN && parse_accept(p, "kept");
    if (space == SPACE_IN && parse_accept(p, "density") &&
        !parse_density(p, &t->k->buffer.at[*id].density))
        return false;
    VEC_PUSH(s->scratch, &s->slot_type, buffer_type(p->ctx, &t->k->buffer.at[*id]));
    VEC_PUSH(s->scratch, &s->slot_lanes, (uint8_t)lanes);
    return true;
}

static bool
parse_arguments(KernelText *t, Space space, uint32_t *n)
{
    Parse *p = t->scope.p;
    uint32_t id;
    if (!parse_expect(p, "("))
        return false;
    for (*n = 0; !parse_peek(p, ")"); ++*n)
        if ((*n && !parse_expect(p, ",")) || !parse_buffer(t, space, &id))
            return false;
    return parse_expect(p, ")");
}

/* ---- parts ----------------------------------------------------------------------------------- */

static bool
parse_part_buffers(KernelText *t, uint32_t *list, uint32_t max, uint32_t *n)
{
    Parse *p = t->scope.p;
    do {
        Sym name = parse_name(p);
        const NameEntry *e = name ? scope_find(&t->scope, name) : NULL;
        if (!name)
            return false;
        if (!e || e->kind != NAME_SLOT)
            return parse_error(p, "%s is not a buffer", name);
        if (*n == max)
            return parse_error(p, "a part of more than %u buffers", max);
        list[(*n)++] = e->id;
    } while (parse_accept(p, ","));
    return true;
}

static bool
parse_part(KernelText *t)
{
    Parse *p = t->scope.p;
    uint32_t list[256], n = 0;
    bool inputs = !parse_peek(p, "->");
    if ((inputs && !parse_part_buffers(t, list, 256, &n)) || !parse_expect(p, "->"))
        return false;
    uint32_t nin = n;
    if (!parse_part_buffers(t, list, 256, &n))
        return false;
    const Nest *nest = nest_parse(p);
    if (!nest)
        return false;
    if (nest->nin != nin || nest->nout != n - nin)
        return parse_error(p, "the part names %u inputs and %u outputs, its nest has %u and %u",
                           nin, n - nin, nest->nin, nest->nout);
    VEC_PUSH(t->arena, &t->part, ((Part){ nest, arena_copy(t->arena, list, n * sizeof *list) }));
    return true;
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* The buffer of a list. */
static bool
parse_list_name(KernelText *t, uint32_t *list)
{
    Parse *p = t->scope.p;
    Sym name = parse_name(p);
    const NameEntry *e = name ? scope_find(&t->scope, name) : NULL;

    if (!name)
        return false;
    if (!e || e->kind != NAME_SLOT || t->k->buffer.at[e->id].space != SPACE_SCRATCH)
        return parse_error(p, "%s is not a scratch buffer, and so holds no list", name);
    *list = e->id;
    return true;
}

static bool
parse_list(KernelText *t, Block *b)
{
    Scope *s = &t->scope;
    Parse *p = s->p;
    uint32_t buffer, var = t->k->nloop++, mark = s->entry.n;
    const Expr *end;
    const Scalar *cond;
    Sym name;

    if (!parse_list_name(t, &buffer) || !parse_expect(p, "=") || !(name = parse_name(p)) ||
        !parse_expect(p, "<") || !(end = parse_index(s)) || !parse_expect(p, "if") ||
        !scope_declare(s, (NameEntry){ .name = name, .kind = NAME_LOOP, .id = var }) ||
        !(cond = parse_value(s, DT_BOOL, false)))
        return false;
    scope_leave(s, mark, true);
    tree_list(b, buffer, var, name, end, cond);
    return true;
}

static bool
parse_loop(KernelText *t, Block *b, LoopKind kind)
{
    Scope *s = &t->scope;
    Parse *p = s->p;
    const Expr *begin = expr_int(p->ctx, 0), *end;
    int64_t step = 1;
    uint32_t var;
    Sym name = parse_name(p);
    if (!name || (parse_accept(p, "from") && !(begin = parse_index(s))) || !parse_expect(p, "<") ||
        !(end = parse_index(s)) || (parse_accept(p, "step") && !parse_int(p, &step)))
        return false;
    if (step < 1)
        return parse_error(p, "a loop's step is at least 1, this is %lld", (long long)step);
    Block *body = tree_loop(t->k, b, kind, name, begin, end, step, &var);
    Tree *loop = b->list.at[b->list.n - 1];
    uint32_t mark = s->entry.n;
    if (parse_accept(p, "in") && !parse_list_name(t, &loop->u.loop.list))
        return false;
    if (!scope_declare(s, (NameEntry){ .name = name, .kind = NAME_LOOP, .id = var }))
        return false;
    if (loop->u.loop.list && parse_accept(p, "next")) {
        loop->u.loop.next = t->k->nloop++;
        if (!(name = loop->u.loop.next_name = parse_name(p)) ||
            !scope_declare(s,
                           (NameEntry){ .name = name, .kind = NAME_LOOP, .id = loop->u.loop.next }))
            return false;
    }
    if (!parse_block(t, body))
        return false;
    scope_leave(s, mark, true);
    return true;
}

/* A let is kept even if tree_let would return a variable: the text has a name for it. */
static bool
parse_let(KernelText *t, Block *b)
{
    Scope *s = &t->scope;
    Parse *p = s->p;
    const Expr *value;
    Sym name = parse_name(p);
    if (!name || !parse_expect(p, "=") || !(value = parse_index(s)))
        return false;
    Var v;
    const Expr *e = tree_let(p->ctx, t->k, b, name, value);
    if (!expr_is_var(e, &v) || v.kind != VAR_LOOP || e == value)
        return parse_error(p, "let %s only renames a variable or a number", name);
    return scope_declare(s, (NameEntry){ .name = name, .kind = NAME_LOOP, .id = (uint32_t)v.id });
}

static bool
parse_if(KernelText *t, Block *b)
{
    Scope *s = &t->scope;
    const Scalar *cond = parse_value(s, DT_BOOL, false);
    if (!cond)
        return false;
    if (cond->dtype != DT_BOOL || cond->lanes != 1)
        return parse_error(s->p, "a condition is one bool, this is %s",
                           dtype_info[cond->dtype].name);
    Tree *l = tree_if(b, cond);
    return parse_block(t, &l->body) && (!parse_accept(s->p, "else") || parse_block(t, &l->other));
}

/* store16, stream16: the lanes; 0: no store. */
static uint32_t
store_word(Parse *p, const char *word)
{
    uint32_t lanes = 0;
    const char *s = p->s;
    size_t n = strlen(word);
    if ((size_t)(p->end - s) <= n || memcmp(s, word, n) != 0 || !isdigit((unsigned char)s[n]))
        return 0;
    for (s += n; s < p->end && isdigit((unsigned char)*s) && lanes < 1000; s++)
        lanes = lanes * 10 + (uint32_t)(*s - '0');
    if (s < p->end && !isspace((unsigned char)*s))
        return 0;
    p->s = s;
    return lanes;
}

static bool
parse_store(KernelText *t, Block *b)
{
    Scope *s = &t->scope;
    Parse *p = s->p;
    ParsedAccess at;
    const Expr *stride = NULL, *valid = NULL;
    parse_skip(p);
    uint32_t lanes = store_word(p, "store");
    bool stream = !lanes && (lanes = store_word(p, "stream")) > 0;
    if (!parse_access(s, &at) || !parse_access_end(s, &stride, &valid) || !parse_expect(p, "="))
        return false;
    if (lanes == 0)
        lanes = at.lanes;
    const Scalar *value = parse_value(s, at.type->dtype, false);
    if (!value)
        return false;
    if (value->dtype != at.type->dtype || value->lanes != lanes)
        return parse_error(p, "%s is %s of %u lanes here, the value is %s of %u lanes",
                           t->k->buffer.at[at.slot].name, dtype_info[at.type->dtype].name, lanes,
                           dtype_info[value->dtype].name, value->lanes);
    tree_store_lanes(b, at.slot, at.rank, at.at, value, stride ? stride : expr_int(p->ctx, 1),
                     valid)
        ->u.store.stream = stream;
    return true;
}

static bool
parse_ahead(KernelText *t, Block *b)
{
    Parse *p = t->scope.p;
    Sym name = parse_name(p);
    const NameEntry *e = name ? scope_find(&t->scope, name) : NULL;
    const Expr *at;

    if (!name)
        return false;
    if (!e || e->kind != NAME_SLOT)
        return parse_error(p, "%s is not a buffer", name);
    if (!parse_expect(p, "at") || !(at = parse_index(&t->scope)))
        return false;
    tree_ahead(b, e->id, at, parse_accept(p, "far"));
    return true;
}

static bool
parse_statement(KernelText *t, Block *b)
{
    Parse *p = t->scope.p;
    uint32_t id;
    if (parse_accept(p, "serial"))
        return parse_loop(t, b, LOOP_SERIAL);
    if (parse_accept(p, "parallel"))
        return parse_loop(t, b, LOOP_PARALLEL);
    if (parse_accept(p, "unrolled"))
        return parse_loop(t, b, LOOP_UNROLLED);
    if (parse_accept(p, "let"))
        return parse_let(t, b);
    if (parse_accept(p, "if"))
        return parse_if(t, b);
    if (parse_peek(p, "register") || parse_peek(p, "scratch")) {
        Space space = parse_accept(p, "register") ? SPACE_REGISTER
                                                  : (parse_accept(p, "scratch"), SPACE_SCRATCH);
        if (!parse_buffer(t, space, &id))
            return false;
        tree_buffer(b, id);
        return true;
    }
    if (parse_accept(p, "ahead"))
        return parse_ahead(t, b);
    if (parse_accept(p, "list"))
        return parse_list(t, b);
    return parse_store(t, b);
}

static bool
parse_block(KernelText *t, Block *b)
{
    Scope *s = &t->scope;
    uint32_t mark = s->entry.n;
    if (!scope_enter(s) || !parse_expect(s->p, "{"))
        return false;
    while (!parse_accept(s->p, "}"))
        if (!parse_statement(t, b))
            return false;
    scope_leave(s, mark, true);
    s->depth--;
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Steps in braces, as lines without indentation: schedule parses them. */
static bool
parse_schedule(Parse *p, Arena *a, Kernel *k)
{
    Text t = { .arena = a };
    WrittenSteps *written = NEW(a, WrittenSteps);

    if (!parse_expect(p, "{"))
        return false;
    written->at = *p;
    for (parse_skip(p); p->s < p->end && *p->s != '}'; parse_skip(p)) {
        const char *from = p->s;
        while (p->s < p->end && *p->s != '\n' && *p->s != '}' && *p->s != ';')
            p->s++;
        const char *to = p->s;
        while (to > from && (to[-1] == ' ' || to[-1] == '\t' || to[-1] == '\r'))
            to--;
        text_bytes(&t, from, (size_t)(to - from));
        text_add(&t, "\n");
    }
    written->at.end = p->s;
    k->schedule = written->steps = text_str(&t);
    k->written = written;
    return parse_expect(p, "}");
}

/* A line of the parts form or of the head; false with *more false when the tree begins. */
static bool
parse_fact(KernelText *t, bool *more)
{
    Parse *p = t->scope.p;
    Kernel *k = t->k;
    uint32_t id;
    *more = true;
    if (parse_accept(p, "origin"))
        return parse_string(p, &k->origin);
    if (parse_accept(p, "schedule"))
        return parse_schedule(p, t->arena, k);
    if (parse_accept(p, "trips"))
        return (k->trips = parse_index(&t->scope)) != NULL;
    if (parse_accept(p, "grain"))
        return (k->grain = parse_index(&t->scope)) != NULL;
    if (parse_accept(p, "local"))
        return parse_buffer(t, SPACE_LOCAL, &id);
    if (parse_accept(p, "part"))
        return parse_part(t);
    if (parse_accept(p, "shared")) {
        int64_t n;
        if (!parse_int(p, &n))
            return false;
        if (n < 0 || n > NEST_MAX_AXES)
            return parse_error(p, "%lld shared axes, at most %d", (long long)n, NEST_MAX_AXES);
        k->shared = (uint32_t)n;
        return true;
    }
    *more = false;
    return true;
}

/* The kernel's own symbols and buffers, named again in a variant's tree. */
static bool
declare_again(KernelText *t, const Scope *around)
{
    Scope *s = &t->scope;
    for (uint32_t i = 1; i < around->entry.n; i++)
        if (around->entry.at[i].kind == NAME_SYMBOL && !scope_declare(s, around->entry.at[i]))
            return false;
    for (uint32_t i = 0; i < t->k->buffer.n; i++) {
        const Buffer *b = &t->k->buffer.at[i];
        if (!scope_declare(s, (NameEntry){ .name = b->name, .kind = NAME_SLOT, .id = i }))
            return false;
        VEC_PUSH(s->scratch, &s->slot_type, buffer_type(s->p->ctx, b));
        VEC_PUSH(s->scratch, &s->slot_lanes, (uint8_t)(b->lanes ? b->lanes : 1));
    }
    return true;
}

static bool
parse_variant(KernelText *t, Kernel **out)
{
    Parse *p = t->scope.p;
    SizeGuard guard;
    if (!guard_parse(p, t->arena, &guard) || !parse_expect(p, "{"))
        return false;
    Kernel *v = *out = kernel_variant(p->ctx, t->arena, t->k, guard);
    KernelText own = {
        .scope = { .p = p, .scratch = t->scope.scratch, .find = { .arena = t->scope.scratch } },
        .k = v,
        .arena = t->arena
    };
    bool more = true;
    if (!declare_again(&own, &t->scope))
        return false;
    while (more && !parse_peek(p, "}")) {
        more = parse_peek(p, "schedule") || parse_peek(p, "trips") || parse_peek(p, "grain");
        if (more && !parse_fact(&own, &more))
            return false;
    }
    while (!parse_accept(p, "}"))
        if (!parse_statement(&own, &v->tree))
            return false;
    return true;
}

static bool
parse_variants(KernelText *t)
{
    VEC(Kernel *) variant = { 0 };
    while (parse_accept(t->scope.p, "variant")) {
        Kernel *v;
        if (!parse_variant(t, &v))
            return false;
        VEC_PUSH(t->arena, &variant, v);
    }
    t->k->variant = variant.at;
    t->k->nvariant = variant.n;
    return true;
}

static bool
parse_whole(KernelText *t)
{
    Parse *p = t->scope.p;
    Kernel *k = t->k;
    bool more = true;
    parse_skip(p);
    Loc loc = { .file = p->file, .line = p->line, .col = (uint32_t)(p->s - p->line_start) + 1 };
    if (!parse_expect(p, "kernel") || !(k->name = parse_name(p)) || !parse_symbols(&t->scope) ||
        !parse_arguments(t, SPACE_IN, &k->nin) || !parse_expect(p, "->") ||
        !parse_arguments(t, SPACE_OUT, &k->nout) || !parse_expect(p, "{"))
        return false;
    while (more && !parse_peek(p, "}"))
        if (!parse_fact(t, &more))
            return false;
    while (!parse_peek(p, "}") && !parse_peek(p, "variant"))
        if (!parse_statement(t, &k->tree))
            return false;
    k->npart = t->part.n;
    k->part = t->part.at;
    if (!parse_variants(t) || !parse_expect(p, "}"))
        return false;
    if (!k->trips)
        k->trips = expr_int(p->ctx, 1);
    if (!k->grain)
        k->grain = expr_int(p->ctx, 1);
    kernel_take_names(p->ctx, t->arena, k);
    return kernel_check(p->ctx, k, DIAG_MODEL, loc);
}

Kernel *
kernel_parse(Parse *p, Arena *a)
{
    Arena *scratch = arena_child(p->ctx->arena);
    KernelText t = { .scope = { .p = p, .scratch = scratch, .find = { .arena = scratch } },
                     .k = NEW(a, Kernel),
                     .arena = a };
    t.k->tree.arena = a;
    bool ok = parse_whole(&t);
    arena_free(scratch);
    return ok ? t.k : NULL;
}
