/* host_text: names, messages and sizes of the model as C. */
#include "emit/host.h"

#define LONG_SUM 12 /* terms; C compilers take long over the tests of more */

void
host_string(Text *t, const char *s)
{
    unsigned char before = 0;

    text_add(t, "\"");
    for (; s && *s; before = (unsigned char)*s++) {
        unsigned char ch = (unsigned char)*s;
        /* ?? begins a trigraph */
        if (ch == '"' || ch == '\\' || (ch == '?' && before == '?'))
            text_printf(t, "\\%c", ch);
        else if (ch < ' ' || ch > '~')
            text_printf(t, "\\%03o", ch);
        else
            text_bytes(t, s, 1);
    }
    text_add(t, "\"");
}

void
host_try(Text *t, const char *indent, const char *format, ...)
{
    va_list args;

    text_printf(t, "%sif ((code = ", indent);
    va_start(args, format);
    text_vprintf(t, format, args);
    va_end(args);
    text_printf(t, "))\n%s    return code;\n", indent);
}

uint32_t
host_symbol(Host *h, Sym s)
{
    uint64_t at = 0;

    if (!map_get(&h->symbol_at, MAP_PTR(s), &at))
        h->failed = !diag_error(&h->c->diags, DIAG_INTERNAL, (Loc){ 0 },
                                "emit: dimension symbol %s has no position", s);
    return (uint32_t)at;
}

bool
host_threads(Host *h, uint32_t *at)
{
    uint64_t found;
    bool any = map_get(&h->symbol_at, MAP_PTR(sym(h->c, THREADS_SYMBOL)), &found);

    *at = any ? (uint32_t)found : 0;
    return any;
}

static void
print_symbol(void *user, Text *t, Var v)
{
    Host *h = user;
    if (v.kind == VAR_SYMBOL)
        text_printf(t, "sym[%u]", host_symbol(h, var_symbol(v)));
    else
        h->failed =
            !diag_error(&h->c->diags, DIAG_INTERNAL, (Loc){ 0 }, "emit: a size depends on a loop");
}

const char *
host_plain(Host *h, const Expr *x)
{
    Text t = { .arena = h->a };
    expr_print(&t, x, &(ExprStyle){ print_symbol, h, true });
    return text_str(&t);
}

static const char *
checked_atom(Host *h, const Atom *atom)
{
    static const char *const function[] = {
        [ATOM_DIV] = "tn_size_div",
        [ATOM_MOD] = "tn_size_mod",
        [ATOM_MIN] = "tn_size_min",
        [ATOM_MAX] = "tn_size_max",
        [ATOM_BROADCAST] = "tn_size_broadcast",
    };
    if (atom->kind == ATOM_VAR) {
        Text t = { .arena = h->a };
        print_symbol(h, &t, atom->var);
        return text_str(&t);
    }
    const char *s = host_checked(h, atom->arg[0]);
    for (uint32_t i = 1; i < atom->narg; i++)
        s = arena_printf(h->a, "%s(%s, %s)", function[atom->kind], s,
                         host_checked(h, atom->arg[i]));
    return s;
}

static const char *
checked_term(Host *h, const Term *term)
{
    const char *product = term->coef == 1 && term->nfactor > 0
                              ? NULL
                              : arena_printf(h->a, "INT64_C(%lld)", (long long)term->coef);

    for (uint32_t f = 0; f < term->nfactor; f++)
        for (uint32_t n = 0; n < term->factor[f].power; n++) {
            const char *factor = checked_atom(h, term->factor[f].atom);
            product = product ? arena_printf(h->a, "tn_size_mul(%s, %s)", product, factor) : factor;
        }
    return product;
}

/* Halves added, so that calls nest no deeper than the logarithm of the number of terms. */
static const char *
checked_sum(Host *h, const Term *term, uint32_t n)
{
    if (n == 1)
        return checked_term(h, term);
    const char *left = checked_sum(h, term, n / 2);
    return arena_printf(h->a, "tn_size_add(%s, %s)", left, checked_sum(h, term + n / 2, n - n / 2));
}

static bool
is_symbol_term(const Term *t)
{
    return t->nfactor == 1 && t->factor->power == 1 && t->factor->atom->kind == ATOM_VAR &&
           t->factor->atom->var.kind == VAR_SYMBOL;
}

/* A long sum: its symbols by one call, and the rest. */
static const char *
checked_long(Host *h, const Expr *x)
{
    Term rest[x->nterm];
    uint32_t nrest = 0, n = 0;
    Text pairs = { .arena = h->a };

    for (uint32_t i = 0; i < x->nterm; i++) {
        const Term *t = &x->term[i];
        if (!is_symbol_term(t)) {
            rest[nrest++] = *t;
            continue;
        }
        text_printf(&pairs, ", INT64_C(%lld), %u", (long long)t->coef,
                    host_symbol(h, var_symbol(t->factor->atom->var)));
        n++;
    }
    const char *sum = arena_printf(h->a, "tn_size_dot(sym, %u%s)", n, text_str(&pairs));
    return nrest ? arena_printf(h->a, "tn_size_add(%s, %s)", sum, checked_sum(h, rest, nrest))
                 : sum;
}

const char *
host_checked(Host *h, const Expr *x)
{
    if (x->bad || !x->nterm)
        return x->bad ? "TN_BAD_SIZE" : "0";
    return x->nterm > LONG_SUM ? checked_long(h, x) : checked_sum(h, x->term, x->nterm);
}
