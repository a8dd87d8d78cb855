/* token_tables: the tables of token_tables.h, of a mask or of offsets. */
#include "normalise/token_tables.h"

/* ---- nests of text --------------------------------------------------------------------------- */

/* A table "o" from up to two others by its nest's text, in which n, s and t are the numbers of
 * sequences, columns and tokens; `last` is t if offsets were checked before. 0: it, or one of the
 * others, was refused. */
static ValueId
table(TokenTables *t, const char *name, const Type *type, uint32_t nin, const ValueId *in,
      const char *const *in_name, const char *body)
{
    Ctx *c = t->c;
    const NestName names[] = {
        { "n", t->batch },
        { "s", t->length },
        { "t", t->tokens },
        { "last", t->last },
    };
    NestParam param[3];

    for (uint32_t i = 0; i < nin; i++) {
        if (!in[i])
            return 0;
        param[i] = (NestParam){ sym(c, in_name[i]), t->to->value.at[in[i]].type };
    }
    param[nin] = (NestParam){ sym(c, "o"), type };
    const Nest *n = nest_of_text(c, &(NestSource){ .name = name,
                                                   .body = body,
                                                   .nin = nin,
                                                   .nout = 1,
                                                   .param = param,
                                                   .nnames = t->last     ? 4
                                                             : t->tokens ? 3
                                                                         : 2,
                                                   .names = names });
    return graph_nest_value(t->to, n, name, (Loc){ 0 }, NULL, in);
}

static const Type *
list_type(const TokenTables *t, DType dtype, const Expr *length)
{
    return type_new(t->c, dtype, 1, &length);
}

static const Type *
place_type(const TokenTables *t)
{
    return type_new(t->c, DT_I32, 2, (const Expr *[]){ t->batch, t->length });
}

/* A symbol with a size hint. */
static int64_t
supposed(Ctx *c, const Expr *e, int64_t otherwise)
{
    Var v;

    return expr_is_var(e, &v) ? expr_symbol_supposed(c, v) : expr_or(e, otherwise);
}

/* The number of tokens is a share of the batch, if no size has a hint. */
static void
count_tokens(TokenTables *t, double density)
{
    int64_t all = supposed(t->c, t->batch, 1) * supposed(t->c, t->length, EXPR_SUPPOSED);
    int64_t tokens = (int64_t)((double)all * density);
    Var v;

    if (expr_is_var(t->tokens, &v) && !expr_symbol_hints(t->c, v).n)
        expr_symbol_info(t->c, v)->size = tokens > 0 ? tokens : 1;
}

/* ---- of a mask ------------------------------------------------------------------------------- */

/* The only element of a table as a symbol; NULL: refused. */
static const Expr *
symbol_of(TokenTables *t, ValueId v, const Expr *most)
{
    ValueId match = v ? graph_match(t->to, v, t->to->value.at[v].name, &most, (Loc){ 0 }, NULL) : 0;

    return match ? t->to->value.at[match].known.at[0] : NULL;
}

/* A text with the condition that an element is a token. */
static const char *
of_mask(TokenTables *t, bool logical, const char *format, const char *at)
{
    const char *is = arena_printf(t->to->arena, logical ? "mask[%s]" : "(mask[%s] != 0)", at);

    return arena_printf(t->to->arena, format, is);
}

/* The sequence of each token, or its column: i32[tokens]. Padding is scattered to one more element,
 * which is cut off. */
static ValueId
place_in_batch(TokenTables *t, const ValueId *in, bool logical, const char *name, const char *axis)
{
    static const char *const names[] = { "mask", "upto" }, *const x = "x";
    const Type *wide = list_type(t, DT_I32, expr_offset(t->c, t->tokens, 1));
    const char *to = "for b<n>, j<s>: o[at(%s ? upto[s*b + j] - 1 : t, t + 1)] last= i32(";
    const char *body = of_mask(t, logical, arena_printf(t->to->arena, "%s%s)", to, axis), "b, j");
    ValueId all = table(t, name, wide, 2, in, names, body);

    return table(t, name, list_type(t, DT_I32, t->tokens), 1, &all, &x, "o[i] = x[i]");
}

bool
tables_of_mask(TokenTables *t, ValueId mask, double density)
{
    static const char *const names[] = { "mask", "upto" };
    Ctx *c = t->c;
    const Expr *all = expr_mul(c, t->batch, t->length);
    const Type *one = list_type(t, DT_I64, expr_int(c, 1));
    bool logical = t->to->value.at[mask].type->dtype == DT_BOOL;

    t->tokens = NULL;
    t->tokens =
        symbol_of(t,
                  table(t, "token_count", one, 1, &mask, names,
                        of_mask(t, logical, "o[i] = sum b<n>, j<s>: %s ? i64(1) : 0", "b, j")),
                  all);
    if (!t->tokens)
        return false;
    count_tokens(t, density);
    if (!logical) {
        ValueId neither = table(t, "neither", one, 1, &mask, names,
                                "o[i] = sum b<n>, j<s>: and(mask[b, j] != 0, mask[b, j] != 1) ? "
                                "i64(1) : 0");
        const Expr *odd = symbol_of(t, neither, NULL);
        if (!odd)
            return false;
        const char *why = arena_printf(t->to->arena,
                                       "input %s: with --ragged each element is 1 of a token or 0 "
                                       "of padding, and {got} are another number",
                                       t->name);
        VEC_PUSH(t->to->arena, &t->to->constraints,
                 ((Constraint){ .a = odd, .b = expr_int(c, 0), .why = why, .said = "" }));
    }
    ValueId in[2] = { mask, 0 };
    in[1] = table(
        t, "upto", list_type(t, DT_I64, all), 1, in, names,
        of_mask(t, logical, "o[x] = scan x: o[x - 1 | 0] + (%s ? i64(1) : 0)", "x // s, x % s"));
    t->row = place_in_batch(t, in, logical, "row", "b");
    t->column = place_in_batch(t, in, logical, "column", "j");
    t->place = table(t, "place", place_type(t), 2, in, names,
                     of_mask(t, logical, "o[b, j] = i32(%s ? upto[s*b + j] - 1 : -1)", "b, j"));
    return t->row && t->column && t->place;
}

/* ---- of offsets ------------------------------------------------------------------------------ */

/* What is checked of offsets, as symbols, which are never negative. */
enum { BAD, FIRST, BELOW, BEGIN, DROP, LAST, LONGEST, WHERE, SIZES };

/* The symbols of this enumeration, followed by the late ones. NULL: refused. */
static const Expr *const *
sizes_of(TokenTables *t, ValueId offsets, uint32_t nlate, const LateSize *late, Interval possible)
{
    static const char *const names[] = { "offsets", "found" };
    static const char *const body[SIZES] = {
        [BAD] = "found[0]",
        [FIRST] = "max(offsets[0], 0)",
        [BELOW] = "max(-offsets[0], 0)",
        [BEGIN] = "max((sum b<n>: b == found[0] ? offsets[b] : 0), 0)",
        [DROP] = "(sum b<n>: b == found[0] ? offsets[b] - offsets[b + 1] : 0)",
        [LAST] = "max(offsets[n], 0)",
        [LONGEST] = "found[1]",
        [WHERE] = "min((min b<n>: offsets[b + 1] - offsets[b] == found[1] ? b : n), n)",
    };
    Ctx *c = t->c;
    Arena *a = t->to->arena;
    Text text = { .arena = a };
    ValueId in[2] = { offsets, 0 };

    in[1] = table(t, "found", list_type(t, DT_I64, expr_int(c, 2)), 1, in, names,
                  "o[i] = i == 0 ? min((min b<n>: offsets[b + 1] < offsets[b] ? b : n), n)"
                  " : max((max b<n>: offsets[b + 1] - offsets[b]), 0)");
    text_add(&text, "o[i] = ");
    for (uint32_t i = 0; i < SIZES; i++)
        text_printf(&text, "i == %u ? %s : ", i, body[i]);
    for (uint32_t i = 0; i < nlate; i++) {
        text_printf(&text, i + 1 < nlate ? "i == %u ? " : "", SIZES + i);
        if (late[i].is_batch)
            text_add(&text, "n");
        else
            text_printf(&text, "max(min(found[1], %lld), %lld)", (long long)possible.hi,
                        (long long)possible.lo);
        text_add(&text, i + 1 < nlate ? " : " : "");
    }
    text_add(&text, nlate ? "" : "0");
    ValueId v = table(t, "sizes", list_type(t, DT_I64, expr_int(c, SIZES + nlate)), 2, in, names,
                      text_str(&text));
    ValueId match = v ? graph_match(t->to, v, "size", NULL, (Loc){ 0 }, NULL) : 0;
    if (!match)
        return NULL;
    Node *n = &t->to->node.at[t->to->value.at[match].def];
    for (uint32_t i = 0; i < nlate; i++) {
        n->fresh[SIZES + i].name = (Sym)(uintptr_t)late[i].symbol.id;
        expr_symbol_late(c, late[i].symbol);
    }
    return t->to->value.at[match].known.at;
}

static void
require(TokenTables *t, const Expr *got, const Expr *want, const Expr *at, const char *why)
{
    Arena *a = t->to->arena;
    Constraint k = { .a = got,
                     .b = want,
                     .said = "",
                     .at = at,
                     .why = arena_printf(a, "input %s: %s", t->name, why) };

    VEC_PUSH(a, &t->to->constraints, k);
}

bool
tables_of_offsets(TokenTables *t, ValueId offsets, uint32_t nlate, const LateSize *late,
                  const Type *type, double density, ValueId *mask)
{
    static const char *const names[] = { "offsets", "row" }, *const marks = "marks";
    Ctx *c = t->c;
    const Type *list = list_type(t, DT_I32, t->tokens);
    Interval possible = expr_bounds(c, NULL, t->length);
    const Expr *const *size = sizes_of(t, offsets, nlate, late, possible);
    ValueId in[2] = { offsets, 0 };

    if (!size)
        return false;
    count_tokens(t, density);
    require(t, expr_sub(c, size[FIRST], size[BELOW]), expr_int(c, 0), NULL,
            "sequence 0 begins at row {got}; the first row is {want}");
    require(t, expr_sub(c, size[BEGIN], size[DROP]), size[BEGIN], size[BAD],
            "sequence {at} ends at row {got} and begins at row {want}");
    t->last = size[LAST]; /* so that what depends on it follows the checks */
    require(t, size[LAST], t->tokens, NULL,
            "the last sequence ends at row {got}; {want} rows are given");
    if (possible.hi < INT64_MAX)
        require(t, size[LONGEST], expr_min(c, size[LONGEST], expr_int(c, possible.hi)), size[WHERE],
                "sequence {at} has {got} tokens; at most {want} are possible");
    ValueId ends = table(t, "ends", list_type(t, DT_I32, expr_offset(c, t->tokens, 1)), 1, in,
                         names, "for b<n>: o[at(offsets[b + 1] + last - t, t + 1)] sum= i32(1)");
    t->row = table(t, "row", list, 1, &ends, &marks, "o[f] = scan f: o[f - 1 | 0] + marks[f]");
    in[1] = t->row;
    t->column = table(t, "column", list, 2, in, names, "o[f] = i32(f - offsets[at(row[f], n)])");
    t->place = table(t, "place", place_type(t), 1, in, names,
                     "o[b, j] = i32(j < offsets[b + 1] - offsets[b] ? offsets[b] + j : -1)");
    *mask =
        table(t, "mask", type, 1, in, names, "o[b, j] = j < offsets[b + 1] - offsets[b] ? 1 : 0");
    return t->row && t->column && t->place && *mask;
}
