/* c: a loop tree as a C function.
 *
 * The tree is printed node by node. Unrolled loops are written out with constants in place, so that
 * register buffers become variables (`r4_3_1`): arrays of vectors spill under Clang. Names are
 * numbers (b0 buffers, n0 dimension symbols, i0 loops and lets, r0_1 registers, t0 temporaries, s0
 * inputs of one element, z0 values that follow from symbols alone, y0 quotients), so the text
 * depends on the tree alone.
 *
 * Pointers are not `restrict`: an output may take over an input's memory. A C compiler must then
 * assume that every store changes every input, so an input of one number is read once at the
 * beginning, and what follows from it is computed outside of the loops.
 */
#include "emit/internal.h"

#include <stdio.h>
#include <ctype.h>
#include <string.h>

bool
emit_fail(Emit *e, const char *format, ...)
{
    if (e->failed)
        return false;
    va_list ap;
    va_start(ap, format);
    char text[512];
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    e->failed = true;
    return diag_error(&e->c->diags, DIAG_INTERNAL, (Loc){ .node = e->k->origin },
                      "emit: kernel %s: %s", e->k->name, text);
}

void
emit_line(Emit *e, const char *format, ...)
{
    va_list ap, again;
    va_start(ap, format);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, format, ap);
    char *line = arena_alloc(e->a, (size_t)n + 1);
    vsnprintf(line, (size_t)n + 1, format, again);
    va_end(ap);
    va_end(again);
    text_printf(e->t, "%*s%s\n", 4 * e->depth, "", line);
}

static void block(Emit *e, const Block *b);

/* ---- stores ---------------------------------------------------------------------------------- */

/* A value as its bits in memory. */
static const char *
to_memory(Emit *e, DType t, uint32_t lanes, CValue v)
{
    if (t == DT_BOOL)
        return lanes == 1 ? arena_printf(e->a, "(uint8_t)%s", v.s)
                          : arena_printf(e->a, "(%s)(%s & 1)", emit_ctype(e, DT_U8, lanes, 0),
                                         emit_mask(e, v, lanes, 1));
    if (!dtype_is_short(t))
        return v.s;
    if (dtype_info[t].bytes == 2)
        return arena_printf(e->a, "tn_short_%s_%s(%s)", dtype_info[t].name, emit_shape(e, t, lanes),
                            v.s);
    const char *bits = emit_narrow(e, t, lanes, v.s);
    return lanes == 1 ? arena_printf(e->a, "(uint8_t)%s", bits)
                      : arena_printf(e->a, "__builtin_convertvector(%s, %s)", bits,
                                     emit_ctype(e, DT_U8, lanes, 0));
}

static void
store_register(Emit *e, const Tree *n, const Scalar *value, CValue v)
{
    const char *name = emit_register(e, n->u.store.buffer, n->u.store.rank, n->u.store.at);
    const char *text =
        emit_without_parens(e, value->dtype == DT_BOOL ? emit_mask(e, v, value->lanes, 4) : v.s);
    if (!n->u.store.valid) {
        emit_line(e, "%s = %s;", name, text);
        return;
    }
    const char *mask =
        emit_ctype(e, DT_BOOL, value->lanes, emit_value_bytes(value->dtype)) + strlen("tn_");
    emit_line(e, "%s = tn_sel_%s(tn_first_%s(%s), %s, %s);", name,
              emit_shape(e, value->dtype, value->lanes), mask, emit_index(e, n->u.store.valid),
              text, name);
}

static void
store_memory(Emit *e, const Tree *n, const Scalar *value, CValue v)
{
    uint32_t b = n->u.store.buffer, lanes = value->lanes;
    const char *at = emit_place(e, b, n->u.store.rank, n->u.store.at);
    const char *bits = emit_without_parens(e, to_memory(e, value->dtype, lanes, v));
    const char *exists = emit_exists(e, n->u.store.rank, n->u.store.at);
    exists = exists ? arena_printf(e->a, "if (%s) ", exists) : "";
    if (lanes == 1) {
        emit_line(e, "%sb%u[%s] = %s;", exists, b, at, bits);
        return;
    }
    const char *shape = emit_memory_shape(e, value->dtype, lanes);
    const char *valid = n->u.store.valid ? emit_index(e, n->u.store.valid) : NULL;
    const Expr *stride = emit_subst_expr(e, n->u.store.lane_stride);
    if (!expr_is(stride, 1))
        emit_line(e, "%stn_store_apart_%s(b%u + %s, %s, %s, %s);", exists, shape, b, at, bits,
                  emit_index(e, stride), valid ? valid : arena_printf(e->a, "%u", lanes));
    else if (valid)
        emit_line(e, "%stn_store_first_%s(b%u + %s, %s, %s);", exists, shape, b, at, bits, valid);
    else
        emit_line(e, "%stn_%s_%s(b%u + %s, %s);", exists, n->u.store.stream ? "stream" : "store",
                  shape, b, at, bits);
}

/* A two-byte store rounds: such a value needs no rounding before. */
static const Scalar *
unrounded(const Scalar *value)
{
    bool twice =
        value->op == S_CAST && dtype_is_short(value->dtype) && dtype_info[value->dtype].bytes == 2;

    return twice && value->arg[0]->dtype == DT_F32 ? value->arg[0] : value;
}

static void
store(Emit *e, const Tree *n)
{
    const Scalar *value = emit_subst(e, n->u.store.value);
    bool to_register = e->k->buffer.at[n->u.store.buffer].space == SPACE_REGISTER;
    const Scalar *made = to_register ? value : unrounded(value);
    Text *outer = e->t, body = { .arena = e->a };
    uint32_t first = e->ntemp;
    emit_statement(e, made);
    e->t = &body;
    e->depth++;
    CValue v = emit_value(e, made);
    if (v.s && to_register)
        store_register(e, n, value, v);
    else if (v.s)
        store_memory(e, n, value, v);
    e->depth--;
    e->t = outer;
    if (!v.s) /* refused, and reported */
        return;
    if (e->ntemp == first) { /* no temporaries: one line, one level less indented */
        const char *line = text_str(&body);
        text_printf(e->t, "%*s%s", 4 * e->depth, "", line + strspn(line, " "));
    } else {
        emit_line(e, "{");
        text_add(e->t, text_str(&body));
        emit_line(e, "}");
    }
}

/* ---- buffers --------------------------------------------------------------------------------- */

static void
declare_registers(Emit *e, uint32_t buffer)
{
    const Buffer *b = &e->k->buffer.at[buffer];
    int64_t extent[TN_MAX_RANK], at[TN_MAX_RANK] = { 0 }, count = 1;
    for (uint32_t d = 0; d < b->type->rank; d++) {
        if (!expr_const(b->type->dim[d], &extent[d]) || extent[d] < 0 || extent[d] > 4096 ||
            count > 4096) {
            emit_fail(e, "register buffer %u has extent %s", buffer,
                      expr_str(e->c, b->type->dim[d]));
            return;
        }
        count *= extent[d];
    }
    if (count == 0)
        return;
    Text t = { .arena = e->a };
    for (int64_t i = 0; i < count; i++) {
        text_printf(&t, "%sr%u", i ? ", " : "", buffer);
        for (uint32_t d = 0; d < b->type->rank; d++)
            text_printf(&t, "_%lld", (long long)at[d]);
        for (uint32_t d = b->type->rank; d-- > 0 && ++at[d] == extent[d];)
            at[d] = 0;
    }
    emit_line(e, "%s %s;", emit_ctype(e, b->type->dtype, b->lanes ? b->lanes : 1, 4), text_str(&t));
}

static void
declare_scratch(Emit *e, uint32_t buffer)
{
    const Buffer *b = &e->k->buffer.at[buffer];
    if (!e->scratch_at[buffer]) {
        e->scratch_at[buffer] = e->scratch_end;
        const Expr *bytes = type_bytes(e->c, buffer_type(e->c, b));
        const Expr *lines = expr_ceil_div(e->c, bytes, expr_int(e->c, 64));
        e->scratch_end = expr_add(e->c, e->scratch_end, expr_scale(e->c, lines, 64));
    }
    const char *type = dtype_info[b->type->dtype].ctype;
    emit_line(e, "%s *const b%u = (%s *)((char *)scratch + %s);", type, buffer, type,
              emit_index(e, e->scratch_at[buffer]));
}

static void
declare_buffer(Emit *e, uint32_t buffer)
{
    switch (e->k->buffer.at[buffer].space) {
    case SPACE_REGISTER: declare_registers(e, buffer); break;
    case SPACE_SCRATCH: declare_scratch(e, buffer); break;
    case SPACE_IN:
    case SPACE_OUT:
    case SPACE_LOCAL:
        emit_fail(e, "buffer %u is declared in the tree but is no register or scratch buffer",
                  buffer);
        break;
    }
}

/* ---- loops, lets, tests ---------------------------------------------------------------------- */

/* Does the block declare names that its next copy declares again? A loop does: its end. */
static bool
needs_scope(const Block *b)
{
    for (uint32_t i = 0; i < b->list.n; i++) {
        const Tree *n = b->list.at[i];
        if (n->kind == TREE_LET || n->kind == TREE_BUFFER ||
            (n->kind == TREE_LOOP && n->u.loop.kind != LOOP_UNROLLED))
            return true;
    }
    return false;
}

/* A block within braces, one level deeper. */
static void
braced(Emit *e, const char *before, const Block *b)
{
    emit_line(e, "%s{", before);
    e->depth++;
    block(e, b);
    e->depth--;
    emit_line(e, "}");
}

/* A block that is always run: in braces if it needs them. */
static void
plain_block(Emit *e, const Block *b)
{
    if (needs_scope(b))
        braced(e, "", b);
    else
        block(e, b);
}

static void
unrolled(Emit *e, const Tree *n)
{
    int64_t begin, end;
    if (!expr_const(emit_subst_expr(e, n->u.loop.begin), &begin) ||
        !expr_const(emit_subst_expr(e, n->u.loop.end), &end) || n->u.loop.step <= 0) {
        emit_fail(e, "unrolled loop %u has no constant bounds", n->u.loop.var);
        return;
    }
    for (int64_t i = begin; i < end && !e->failed; i += n->u.loop.step) {
        Binding is = { { VAR_LOOP, n->u.loop.var }, expr_int(e->c, i) };
        VEC_PUSH(e->a, &e->env, is);
        VEC_PUSH(e->a, &e->lets, is);
        plain_block(e, &n->body);
        e->env.n--;
        e->lets.n--;
    }
}

static void loop(Emit *e, const Tree *n);

/* An unrolled loop: copies of its body or, if that is shorter and as fast, a loop after all. */
static void
written_out(Emit *e, const Tree *n)
{
    const char *sums = e->as_loop ? NULL : emit_begin_rerolled(e, n);

    if (!sums) {
        unrolled(e, n);
        return;
    }
    emit_line(e, "{");
    text_add(e->t, sums);
    e->depth++;
    loop(e, n);
    e->depth--;
    e->as_loop = NULL;
    emit_line(e, "}");
}

/* The parallel loop runs over iterations; the loop variable follows from them. */
static void
parallel(Emit *e, const Tree *n, const char *begin)
{
    uint32_t v = n->u.loop.var;
    if (n->u.loop.step == 1 && strcmp(begin, "0") == 0) {
        emit_line(e, "for (%s i%u = begin; i%u < end; i%u++) {", emit_index_type(e), v, v, v);
        e->depth++;
    } else {
        emit_line(e, "for (%s trip = begin; trip < end; trip++) {", emit_index_type(e));
        e->depth++;
        emit_line(e, "const %s i%u = %s + %lld * trip;", emit_index_type(e), v, begin,
                  (long long)n->u.loop.step);
    }
    block(e, &n->body);
    e->depth--;
    emit_line(e, "}");
}

/* Without branches: which blocks a mask shows is hard to predict. */
static void
list(Emit *e, const Tree *n)
{
    uint32_t v = n->u.list.var, b = n->u.list.buffer;
    Range range = { { VAR_LOOP, v }, expr_int(e->c, 0), emit_subst_expr(e, n->u.list.end) };

    emit_statement(e, NULL);
    const char *end = emit_index(e, n->u.list.end);
    emit_line(e, "{");
    e->depth++;
    emit_line(e, "int64_t count = 0;");
    emit_line(e, "for (int64_t i%u = 0; i%u < %s; i%u++) {", v, v, end, v);
    VEC_PUSH(e->a, &e->ranges, range);
    e->level[v] = e->loops.n + 1;
    e->depth++;
    const Scalar *cond = emit_subst(e, n->u.list.cond);
    emit_statement(e, cond);
    CValue is = emit_value(e, cond);
    emit_line(e, "b%u[1 + count] = (int32_t)i%u;", b, v);
    emit_line(e, "count += %s;", is.s ? is.s : "0");
    e->depth--;
    e->ranges.n--;
    emit_line(e, "}");
    emit_line(e, "b%u[0] = (int32_t)count;", b);
    emit_line(e, "b%u[1 + count] = count ? b%u[1] : 0;", b, b);
    e->depth--;
    emit_line(e, "}");
}

/* A loop over what a list holds. */
static void
listed(Emit *e, const Tree *n)
{
    uint32_t v = n->u.loop.var, b = n->u.loop.list;

    emit_line(e, "const int64_t end%u = b%u[0];", v, b);
    emit_line(e, "for (int64_t at%u = 1; at%u <= end%u; at%u++) {", v, v, v, v);
    e->depth++;
    emit_line(e, "const int64_t i%u = b%u[at%u];", v, b, v);
    if (n->u.loop.next_name) {
        uint32_t next = n->u.loop.next;
        Range range = { { VAR_LOOP, next }, expr_int(e->c, 0), n->u.loop.end };
        emit_line(e, "const int64_t i%u = b%u[at%u + 1];", next, b, v);
        e->level[next] = e->level[v];
        VEC_PUSH(e->a, &e->ranges, range);
    }
    block(e, &n->body);
    e->ranges.n -= n->u.loop.next_name != NULL;
    e->depth--;
    emit_line(e, "}");
}

static void
serial(Emit *e, const Tree *n, const char *begin)
{
    uint32_t v = n->u.loop.var;
    const Expr *last = emit_subst_expr(e, n->u.loop.end);
    const char *end = emit_index(e, last);
    if (!expr_const(last, NULL) && !expr_is_var(last, NULL)) {
        emit_line(e, "const %s end%u = %s;", emit_index_type(e), v, end);
        end = arena_printf(e->a, "end%u", v);
    }
    const char *step = "++";
    if (n->u.loop.step != 1)
        step = arena_printf(e->a, " += %lld", (long long)n->u.loop.step);
    braced(e,
           arena_printf(e->a, "for (%s i%u = %s; i%u < %s; i%u%s) ", emit_index_type(e), v, begin,
                        v, end, v, step),
           &n->body);
}

/* The text of a loop, after the values named in front of it. */
static void
open_loop(Emit *e, const Tree *n, Text *text, Text **outer)
{
    OpenLoop open = { .before = { .arena = e->a }, .depth = e->depth };

    *outer = e->t;
    *text = (Text){ .arena = e->a };
    VEC_PUSH(e->a, &e->loops, open);
    e->level[n->u.loop.var] = e->loops.n;
    e->t = text;
}

static void
close_loop(Emit *e, Text *text, Text *outer)
{
    text_add(outer, text_str(&e->loops.at[e->loops.n - 1].before));
    text_add(outer, text_str(text));
    e->t = outer;
    e->loops.n--;
}

static void
loop(Emit *e, const Tree *n)
{
    if (n->u.loop.kind == LOOP_UNROLLED && n != e->as_loop) {
        written_out(e, n);
        return;
    }
    emit_statement(e, NULL);
    const char *begin = emit_index(e, n->u.loop.begin);
    const Expr *first = emit_subst_expr(e, n->u.loop.begin),
               *end = emit_subst_expr(e, n->u.loop.end);
    Range range = { { VAR_LOOP, n->u.loop.var }, first, expr_sub(e->c, end, first) };
    Text text, *outer;
    VEC_PUSH(e->a, &e->ranges, range);
    open_loop(e, n, &text, &outer);
    if (n->u.loop.kind == LOOP_PARALLEL)
        parallel(e, n, begin);
    else if (n->u.loop.list)
        listed(e, n);
    else
        serial(e, n, begin);
    close_loop(e, &text, outer);
    e->ranges.n--;
}

static void
let(Emit *e, const Tree *n)
{
    const Expr *value = emit_subst_expr(e, n->u.let.value);
    Binding is = { { VAR_LOOP, n->u.let.var }, value };
    VEC_PUSH(e->a, &e->lets, is);
    e->level[n->u.let.var] = e->loops.n;
    if (expr_const(value, NULL) || expr_is_var(value, NULL)) {
        Var v;
        if (!expr_is_var(value, &v) || v.kind != VAR_COMPUTED) {
            VEC_PUSH(e->a, &e->env, is);
            return;
        }
    }
    emit_statement(e, NULL);
    const char *text = emit_index(e, value);
    emit_line(e, "const %s i%u = %s;", emit_index_type(e), n->u.let.var, text);
}

static void
test(Emit *e, const Tree *n)
{
    const Scalar *cond = emit_subst(e, n->u.test.cond);
    if (cond->op == S_CONST) { /* decided by the unrolled variables */
        plain_block(e, cond->u.bits ? &n->body : &n->other);
        return;
    }
    emit_statement(e, cond);
    CValue v = emit_value(e, cond);
    if (!v.s)
        return;
    emit_line(e, "if (%s) {", emit_without_parens(e, v.s));
    e->depth++;
    block(e, &n->body);
    e->depth--;
    if (n->other.list.n > 0)
        braced(e, "} else ", &n->other);
    else
        emit_line(e, "}");
}

static void
block(Emit *e, const Block *b)
{
    uint32_t env = e->env.n, lets = e->lets.n;
    for (uint32_t i = 0; i < b->list.n && !e->failed; i++) {
        const Tree *n = b->list.at[i];
        switch (n->kind) {
        case TREE_LOOP: loop(e, n); break;
        case TREE_LET: let(e, n); break;
        case TREE_IF: test(e, n); break;
        case TREE_LIST: list(e, n); break;
        case TREE_BUFFER: declare_buffer(e, n->u.buffer); break;
        case TREE_STORE: store(e, n); break;
        case TREE_AHEAD:
            emit_statement(e, NULL);
            emit_line(e, "%s(b%u + %s);", n->u.ahead.far ? "TN_FAR" : "TN_AHEAD", n->u.ahead.buffer,
                      emit_index(e, emit_subst_expr(e, n->u.ahead.at)));
            break;
        }
    }
    e->env.n = env;
    e->lets.n = lets;
}

/* ---- the function ---------------------------------------------------------------------------- */

static bool
has_parallel_loop(const Kernel *k)
{
    for (uint32_t i = 0; i < k->tree.list.n; i++)
        if (k->tree.list.at[i]->kind == TREE_LOOP &&
            k->tree.list.at[i]->u.loop.kind == LOOP_PARALLEL)
            return true;
    return false;
}

static void
comment(Ctx *c, Text *t, const Kernel *k)
{
    text_add(t, "/* ");
    text_comment(t, k->origin ? k->origin : k->name);
    if (k->schedule) {
        text_add(t, "\n * schedule: ");
        text_comment(t, k->schedule);
    }
    for (uint32_t i = 0; i < k->buffer.n; i++) {
        const Buffer *b = &k->buffer.at[i];
        text_printf(t, "\n * %c%u: ", b->space == SPACE_REGISTER ? 'r' : 'b', i);
        text_comment(t, b->name);
        text_add(t, " ");
        text_comment(t, type_str(c, b->type));
        if (b->format) {
            text_add(t, " as ");
            format_print(t, b->format);
        }
    }
    text_add(t, "\n */\n");
}

/* Has a text vectors of elements other than f32 and i32, products of pairs, or conversions? */
static bool
needs_others(const char *text)
{
    static const char *const sign[] = { "f64x", "i8x",  "i16x", "i64x",   "u8x",
                                        "u16x", "u32x", "u64x", "tn_dot", "_from_" };

    for (size_t i = 0; i < sizeof sign / sizeof *sign; i++)
        if (strstr(text, sign[i]))
            return true;
    return false;
}

/* The vectors of N lanes, and functions over them, once in a source. */
static void
ask_for(Text *t, const char *what, const char *vectors, uint32_t lanes)
{
    text_printf(t, "#ifndef %s%u\n#define %s%u\n%s(%u)\n#endif\n", what, lanes, what, lanes,
                vectors, lanes);
}

static void
ask_for_vectors(Text *t, uint64_t used, bool others)
{
    for (uint32_t lanes = 2; lanes <= 64; lanes *= 2) {
        if (!(used >> (lanes & 63) & 1))
            continue;
        ask_for(t, "TN_X", "TN_VECTORS_F32", lanes);
        if (others)
            ask_for(t, "TN_OTHER_X", "TN_VECTORS_OTHER", lanes);
    }
}

/* Is there this word in a text? */
static bool
mentions(const char *text, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = text; (at = strstr(at, word)); at += n)
        if ((at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_')) &&
            !(isalnum((unsigned char)at[n]) || at[n] == '_'))
            return true;
    return false;
}

/* The position of a symbol in TnArgs.sym; a new one gets the next. */
static uint32_t
size_at(Emit *e, Sym s)
{
    for (uint32_t i = 0; i < e->sizes->n; i++)
        if (e->sizes->at[i] == s)
            return i;
    VEC_PUSH(e->a, e->sizes, s);
    return e->sizes->n - 1;
}

static void
arguments(Emit *e, Text *t, const char *body)
{
    for (uint32_t i = 0; i < e->k->nin + e->k->nout; i++) {
        const char *constant = i < e->k->nin ? "const " : "",
                   *type = dtype_info[e->k->buffer.at[i].type->dtype].ctype;
        /* C++ wants the cast */
        text_printf(t, "    %s%s *const b%u = (%s%s *)a->buf[%u];\n", constant, type, i, constant,
                    type, i);
        /* of some inputs only the sizes are read */
        if (!mentions(body, arena_printf(t->arena, "b%u", i)) &&
            !mentions(body, arena_printf(t->arena, "s%u", i)))
            text_printf(t, "    (void)b%u;\n", i);
        if (mentions(body, arena_printf(t->arena, "s%u", i)))
            text_printf(t, "    const %s s%u = b%u[0];\n", type, i, i);
    }
    VEC(const char *) sizes = { 0 };
    /* first, since their text may use further symbols */
    for (uint32_t i = 0; i < e->from_sizes.n; i++) {
        const char *name = arena_printf(t->arena, "z%u", i);
        if (mentions(body, name))
            VEC_PUSH(t->arena, &sizes,
                     arena_printf(t->arena, "    const int64_t %s = %s;\n", name,
                                  emit_of_sizes(e, e->from_sizes.at[i])));
    }
    for (uint32_t i = 0; i < e->used.n; i++)
        text_printf(t, "    const int64_t n%u = a->sym[%u];\n", i, size_at(e, e->used.at[i]));
    for (uint32_t i = 0; i < sizes.n; i++)
        text_add(t, sizes.at[i]);
}

static bool
has_floats(const Kernel *k)
{
    for (uint32_t i = 0; i < k->buffer.n; i++)
        if (dtype_is_float(k->buffer.at[i].type->dtype))
            return true;
    return false;
}

bool
emit_c_kernel(Ctx *c, Text *t, const Kernel *k, const char *symbol, SymbolList *sizes, EmitHow how)
{
    Text body = { .arena = t->arena };
    Emit e = { .c = c,
               .a = t->arena,
               .t = &body,
               .depth = 1,
               .k = k,
               .how = how,
               .sizes = sizes,
               .level = NEW_ARRAY(t->arena, uint32_t, k->nloop + 1),
               .scratch_at = NEW_ARRAY(t->arena, const Expr *, k->buffer.n + 1),
               .scratch_end = expr_int(c, 0) };
    if (!has_parallel_loop(k))
        emit_line(&e, "if (begin != 0 || end <= 0)\n        return;");
    block(&e, &k->tree);

    Text head = { .arena = t->arena };
    arguments(&e, &head, text_str(&body));
    if (e.failed)
        return false;
    if (how & EMIT_COMMENTS)
        comment(c, t, k);
    ask_for_vectors(t, e.lanes_used, needs_others(text_str(&body)));
    Text calls = { .arena = t->arena };
    const char *code = text_str(&body);
    if (how & EMIT_SHORT)
        code = emit_calls(&calls, code);
    text_add(t, text_str(&calls));
    bool sums = strstr(text_str(&body), "tn_dot") != NULL;
    text_add(t, sums ? "TN_SUMS\n" : "");
    text_printf(t, "TN_KERNEL %s(const TnArgs *a, %s begin, %s end, void *scratch)\n{\n", symbol,
                emit_index_type(&e), emit_index_type(&e));
    text_add(t, has_floats(k) && !(how & EMIT_KEEP_DENORMALS) ? "    TN_FLUSH_DENORMALS\n" : "");
    text_add(t, text_str(&head));
    if (expr_is(e.scratch_end, 0))
        text_add(t, "    (void)scratch;\n");
    text_add(t, code);
    if (strstr(text_str(&body), "tn_stream_"))
        text_add(t, "    TN_STREAMED\n");
    text_add(t, sums ? "}\nTN_SUMS_END\n" : "}\n");
    return true;
}

const char *
emit_c_prelude(void)
{
    static const char prelude[] =
#include "prelude_sizes_text.h"
#include "prelude_kernel_text.h"
        ;
    return prelude;
}

const char *
emit_c_abi(void)
{
    static const char abi[] =
#include "abi_text.h"
        ;
    return abi;
}

const char *
emit_c_host_prelude(bool after_kernels)
{
    static const char sizes[] =
#include "prelude_sizes_text.h"
#include "prelude_host_text.h"
        , host[] =
#include "prelude_host_text.h"
        ;
    return after_kernels ? host : sizes;
}

/* Exact arithmetic but for contracted multiply-adds; nothing of -ffast-math. Machine flags come
 * from the machine. Buffers are shared by address, so types say nothing about aliasing. GCC's
 * global common subexpression elimination makes it spill column vectors in the innermost loops of
 * GEMMs, which have nothing to eliminate. */
const char *
emit_c_flags(void)
{
    return "-std=gnu17 -O2 -fPIC -fno-math-errno -fno-trapping-math -ffp-contract=fast "
           "-fno-strict-aliasing -fno-gcse -Wno-psabi";
}
