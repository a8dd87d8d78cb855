/* text: expressions for people, for the parser, and for C.
 *
 * Printing sorts by names instead of creation order, so a text does not depend on what was built
 * before: high powers first, symbols before axes before loops, the constant last, a positive term
 * in front if there is one: `15 - n`, `n - i - 1`, `2*y + r - 1`.
 */
#include "expr/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int compare_text(const Expr *a, const Expr *b);

static int
compare_var(Var a, Var b)
{
    if (a.kind != b.kind)
        return a.kind < b.kind ? -1 : 1;
    if (a.kind == VAR_SYMBOL)
        return strcmp((const char *)(uintptr_t)a.id, (const char *)(uintptr_t)b.id);
    return a.id < b.id ? -1 : a.id > b.id;
}

static int
compare_atom(const Atom *a, const Atom *b)
{
    if (a == b)
        return 0;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->kind == ATOM_VAR)
        return a->var.kind == VAR_COMPUTED && b->var.kind == VAR_COMPUTED
                   ? (a->order < b->order ? -1 : 1)
                   : compare_var(a->var, b->var);
    for (uint32_t i = 0; i < a->narg && i < b->narg; i++) {
        int order = compare_text(a->arg[i], b->arg[i]);
        if (order)
            return order;
    }
    return a->narg < b->narg ? -1 : a->narg > b->narg;
}

static int
compare_factor(const void *x, const void *y)
{
    return compare_atom(((const Factor *)x)->atom, ((const Factor *)y)->atom);
}

static int
compare_term(const void *x, const void *y)
{
    const Term *a = x, *b = y;
    uint32_t da = term_degree(a), db = term_degree(b);

    if (da != db)
        return da > db ? -1 : 1;
    for (uint32_t i = 0; i < a->nfactor && i < b->nfactor; i++) {
        int order = compare_atom(a->factor[i].atom, b->factor[i].atom);
        if (order)
            return order;
        if (a->factor[i].power != b->factor[i].power)
            return a->factor[i].power > b->factor[i].power ? -1 : 1;
    }
    return 0;
}

/* The terms of e in reading order, into term[e->nterm] and factor[], which own them. */
static void
in_reading_order(const Expr *e, Term *term, Factor *factor)
{
    for (uint32_t i = 0; i < e->nterm; i++) {
        term[i] = e->term[i];
        if (!term[i].nfactor)
            continue;
        memcpy(factor, e->term[i].factor, term[i].nfactor * sizeof *factor);
        qsort(factor, term[i].nfactor, sizeof *factor, compare_factor);
        term[i].factor = factor;
        factor += term[i].nfactor;
    }
    qsort(term, e->nterm, sizeof *term, compare_term);
    for (uint32_t i = 1; i < e->nterm && term[0].coef < 0; i++)
        if (term[i].coef > 0) {
            Term front = term[i];
            memmove(term + 1, term, i * sizeof *term);
            term[0] = front;
        }
}

static int
compare_text(const Expr *a, const Expr *b)
{
    if (a == b)
        return 0;
    Term ta[a->nterm + 1], tb[b->nterm + 1];
    Factor fa[expr_count_factors(a) + 1], fb[expr_count_factors(b) + 1];
    in_reading_order(a, ta, fa);
    in_reading_order(b, tb, fb);
    for (uint32_t i = 0; i < a->nterm && i < b->nterm; i++) {
        int order = compare_term(&ta[i], &tb[i]);
        if (order)
            return order;
        if (ta[i].coef != tb[i].coef)
            return ta[i].coef < tb[i].coef ? -1 : 1;
    }
    return a->nterm < b->nterm ? -1 : a->nterm > b->nterm;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void
print_int(Text *t, int64_t v, bool c_syntax)
{
    if (v == INT64_MIN && c_syntax) /* C has no literal for it */
        text_add(t, "(-9223372036854775807 - 1)");
    else
        text_printf(t, "%" PRId64, v);
}

static void
print_var(Text *t, Var v, const ExprStyle *style)
{
    if (style->name) {
        style->name(style->user, t, v);
        return;
    }
    switch (v.kind) {
    case VAR_SYMBOL: text_add(t, (const char *)(uintptr_t)v.id); break;
    case VAR_AXIS: text_printf(t, "$%" PRIu64, v.id); break;
    case VAR_LOOP: text_printf(t, "@%" PRIu64, v.id); break;
    case VAR_COMPUTED: text_add(t, "@computed"); break;
    }
}

/* An operand of // and %: bare if it is one variable or number. */
static void
print_operand(Text *t, const Expr *e, const ExprStyle *style)
{
    int64_t v;
    bool bare = expr_is_var(e, NULL) || expr_single(e, ATOM_MIN, NULL) ||
                expr_single(e, ATOM_MAX, NULL) || expr_single(e, ATOM_BROADCAST, NULL) ||
                (expr_const(e, &v) && v >= 0);

    text_add(t, bare ? "" : "(");
    expr_print(t, e, style);
    text_add(t, bare ? "" : ")");
}

static int
compare_arg(const void *x, const void *y)
{
    return compare_text(*(const Expr *const *)x, *(const Expr *const *)y);
}

static void
print_call(Text *t, const Atom *a, const ExprStyle *style)
{
    static const char *const name[] = {
        "", "tn_div", "tn_mod", "tn_min", "tn_max", "tn_broadcast"
    };
    const Expr *arg[a->narg];
    bool divides = a->kind == ATOM_DIV || a->kind == ATOM_MOD;
    int64_t by;

    if (divides && style->natural && expr_const(a->arg[1], &by) && by > 0 &&
        style->natural(style->user, a->arg[0])) {
        text_add(t, a->kind == ATOM_DIV ? "tn_quo(" : "tn_rem(");
        expr_print(t, a->arg[0], style);
        text_printf(t, ", %" PRId64 ")", by);
        return;
    }

    memcpy(arg, a->arg, sizeof arg);
    if (!divides)
        qsort(arg, a->narg, sizeof *arg, compare_arg);
    for (uint32_t i = 0; i < a->narg; i++) {
        if (i)
            text_add(t, ", ");
        /* C's functions take two arguments and nest */
        if (i == 0 || (style->c_syntax && i + 1 < a->narg))
            text_printf(t, "%s(", name[a->kind] + (style->c_syntax ? 0 : 3));
        expr_print(t, arg[i], style);
    }
    for (uint32_t i = 0; i < (style->c_syntax ? a->narg - 1 : 1); i++)
        text_add(t, ")");
}

static void
print_atom(Text *t, const Atom *a, const ExprStyle *style, bool alone)
{
    if (a->kind == ATOM_VAR) {
        print_var(t, a->var, style);
        return;
    }
    if (style->named && style->named(style->user, t, a))
        return;
    if (style->c_syntax || (a->kind != ATOM_DIV && a->kind != ATOM_MOD)) {
        print_call(t, a, style);
        return;
    }
    text_add(t, alone ? "" : "(");
    print_operand(t, a->arg[0], style);
    text_add(t, a->kind == ATOM_DIV ? " // " : " % ");
    print_operand(t, a->arg[1], style);
    text_add(t, alone ? "" : ")");
}

/* One term; the sign of all but the first is the operator before it. */
static void
print_term(Text *t, const Term *term, const ExprStyle *style, bool first)
{
    int64_t coef = term->coef;
    bool negative = coef < 0 && coef != INT64_MIN, alone;

    if (!first)
        text_add(t, negative ? " - " : " + ");
    else if (negative && term->nfactor)
        text_add(t, "-");
    if (negative && (!first || term->nfactor))
        coef = -coef;
    if (term->nfactor == 0 || coef != 1)
        print_int(t, coef, style->c_syntax);
    if (coef != 1 && term->nfactor)
        text_add(t, "*");
    alone = coef == 1 && term->nfactor == 1 && term->factor->power == 1 && !(first && negative);
    for (uint32_t i = 0; i < term->nfactor; i++)
        for (uint32_t k = 0; k < term->factor[i].power; k++) {
            text_add(t, i || k ? "*" : "");
            print_atom(t, term->factor[i].atom, style, alone);
        }
}

void
expr_print(Text *t, const Expr *e, const ExprStyle *style)
{
    static const ExprStyle plain = { 0 };
    Term term[e->nterm + 1];
    Factor factor[expr_count_factors(e) + 1];

    if (!style)
        style = &plain;
    if (e->bad) {
        text_add(t, "overflow");
        return;
    }
    if (e->nterm == 0)
        text_add(t, "0");
    in_reading_order(e, term, factor);
    for (uint32_t i = 0; i < e->nterm; i++)
        print_term(t, &term[i], style, i == 0);
}

const char *
expr_str(Ctx *c, const Expr *e)
{
    Text t = { .arena = c->arena };

    expr_print(&t, e, NULL);
    return text_str(&t);
}
