/* query: a query about a kernel, as one text, and its answer.
 *
 * A kernel's programs depend on its text, on which inputs are constants and how they are packed, on
 * what is known about its symbols, and on the machine:
 *
 *   symbol seq from 1 to 2048 usually 1, 128
 *   require keys == seq
 *   kernel k(x: f32[seq, 768], y: f32[768, 768]) -> (o: f32[seq, 768]) {
 *     …
 *   }
 *   vf
 *
 * `exact` in front: masked terms must not be skipped (kernel/support.h). The last line has a letter
 * for each input: v: an intermediate tensor, c: a constant; read from memory in every call, f: a
 * constant, k: a state. With a program of the kernel appended, the query is for its variants
 * (variants.c).
 *
 * The text is complete: another thread can answer it in its own context (query_threads.c), and a
 * later compilation finds the answer in a file (choice_cache.c). The answer is the number of
 * programs, and the cheapest ones with their prices:
 *
 *   35 programs
 *   0.0075910799999999998 0.0075610900000000003
 *   split j by 16 -> jp jv pad
 *   …
 *   }
 */
#include "driver/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- asking ---------------------------------------------------------------------------------- */

typedef struct {
    Ctx *c;
    Text *symbols, *learnt;
    SymbolSet seen;
} SymbolFacts;

static void
print_known(SymbolFacts *f, Sym symbol)
{
    Var v = symbol_var(symbol);

    if (!symbols_add(&f->seen, symbol))
        return;
    const Expr *e = expr_var(f->c, v), *value = expr_simplify(f->c, NULL, e);
    if (symbol_print(f->c, f->symbols, v))
        text_add(f->symbols, "\n");
    if (value == e || expr_const(value, NULL)) /* one number: its range gives it */
        return;
    text_add(f->learnt, "require ");
    expr_print(f->learnt, e, NULL);
    text_add(f->learnt, " == ");
    expr_print(f->learnt, value, NULL);
    text_add(f->learnt, "\n");
    FOR_EACH_VARIABLE (other, value)
        if (other.kind == VAR_SYMBOL)
            print_known(f, var_symbol(other));
}

/* Known facts about the symbols of a kernel, and about those in their definitions. */
static void
print_facts(Ctx *c, Arena *scratch, Text *t, const Kernel *k)
{
    Text learnt = { .arena = scratch };
    SymbolFacts f = { c, t, &learnt, { .seen.arena = scratch } };
    SymbolSet s = { .seen.arena = scratch };

    kernel_symbols(&s, k);
    for (uint32_t i = 0; i < s.n; i++)
        print_known(&f, s.at[i]);
    text_add(t, text_str(&learnt));
}

Sym
query_programs(Job *j, const Kernel *k, const bool *constant, bool far)
{
    Arena *scratch = arena_child(j->arena);
    Text t = { .arena = scratch };

    text_add(&t, j->ctx->exact ? "exact\n" : "");
    print_facts(j->ctx, scratch, &t, k);
    kernel_print_meaning(j->ctx, &t, k);
    for (uint32_t i = 0; i < k->nin; i++)
        text_add(&t, constant[i] ? far ? "f" : "c" : far && k->buffer.at[i].kept ? "k" : "v");
    Sym query = sym(j->ctx, text_str(&t));
    arena_free(scratch);
    return query;
}

Sym
query_variants(Job *j, Sym programs, const char *own)
{
    Arena *scratch = arena_child(j->arena);
    Sym query = sym(j->ctx, arena_printf(scratch, "%s\n%s", programs, own));

    arena_free(scratch);
    return query;
}

/* ---- answering ------------------------------------------------------------------------------- */

static bool
read_facts(Parse *p)
{
    const Expr *e, *value;
    Var v;

    p->ctx->exact = parse_accept(p, "exact");
    while (parse_accept(p, "symbol"))
        if (!parse_symbol(p))
            return false;
    while (parse_accept(p, "require")) {
        if (!(e = parse_expr(p)) || !parse_expect(p, "==") || !(value = parse_expr(p)) ||
            !expr_is_var(e, &v))
            return false;
        /* so that it is expressed by the others, not one of them by it */
        expr_symbol_late(p->ctx, v);
        expr_assume_eq(p->ctx, e, value);
    }
    return true;
}

const char *
query_answer(Arena *a, const Machine *m, Sym query, uint32_t most)
{
    Ctx *c = NEW(a, Ctx);

    ctx_init(c, a);
    Parse p = parse_begin(c, "a query", (Bytes){ (const uint8_t *)query, strlen(query) });
    if (!read_facts(&p))
        return NULL;
    const Kernel *k = kernel_parse(&p, a);
    if (!k)
        return NULL;
    const char *inputs = p.s + strspn(p.s, " \n"), *own = inputs + k->nin;
    bool *constant = NEW_ARRAY(a, bool, k->nin + 1), far = false;
    for (uint32_t i = 0; i < k->nin; i++) {
        constant[i] = inputs[i] == 'c' || inputs[i] == 'f';
        far |= inputs[i] == 'f' || inputs[i] == 'k';
    }
    if (*own)
        return variants_answer(c, a, k, m, constant, far, own + 1);
    Choices choices = schedule_choices(c, a, k, m, constant, far, NULL);
    return choices.n ? choices_text(a, &choices, most) : NULL;
}

/* ---- programs as text ------------------------------------------------------------------------ */

const char *
choices_text(Arena *a, const Choices *choices, uint32_t most)
{
    Text t = { .arena = a };

    text_printf(&t, "%u programs\n", choices->n);
    for (uint32_t i = 0; i < choices->n && i < most; i++)
        text_printf(&t, "%.17g %.17g\n%s}\n", choices->at[i].seconds, choices->at[i].alone,
                    choices->at[i].program);
    return text_str(&t);
}

bool
choices_parse(Arena *a, const char *s, uint32_t most, Choices *out)
{
    char *end;

    *out = (Choices){ .n = (uint32_t)strtoul(s, &end, 10), .at = NEW_ARRAY(a, Choice, most) };
    if (end == s || !(s = strchr(end, '\n')))
        return false;
    for (uint32_t i = 0; i < out->n && i < most; i++) {
        out->at[i] = (Choice){ .seconds = strtod(s, &end), .number = i };
        out->at[i].alone = strtod(end, &end);
        const char *last = *end == '\n' ? strstr(end, "\n}\n") : NULL;
        if (!last)
            return false;
        out->at[i].program = arena_printf(a, "%.*s", (int)(last - end), end + 1);
        s = last + 2;
    }
    return out->n > 0;
}
