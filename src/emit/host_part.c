/* host_part: statements in functions of bounded length.
 *
 * C compilers take more than linear time over a long function, and a model's program may be as long
 * as the model. So a function of many statements is closed and another one goes on; statements keep
 * nothing in local variables from one to the next.
 */
#include "emit/host.h"

#define PART_STATEMENTS 256 /* of one function */
#define PART_SIZES 256      /* that one function computes: its stack stays small */

static void
close_part(Parts *p)
{
    Text *t = p->t;

    if (!p->statements)
        return;
    text_printf(t, "static int\n%s_%u(%s)\n{\n%s", p->name, p->count++, p->parameters, p->begin);
    if (p->size.n) {
        text_add(t, "    const int64_t n[] = {\n");
        for (uint32_t i = 0; i < p->size.n; i++)
            text_printf(t, "        %s,\n", host_plain(p->h, p->size.at[i]));
        text_add(t, "    };\n");
    } else if (p->numbers) {
        text_add(t, "    const int64_t *const n = 0;\n    (void)n;\n");
    }
    text_add(t, text_str(&p->body));
    text_add(t, "    return 0;\n}\n\n");
    p->body.n = p->statements = p->size.n = 0;
    p->size_at = (Map){ .arena = p->h->a };
}

void
part_break(Parts *p)
{
    close_part(p);
}

bool
part_is_full(const Parts *p)
{
    return p->statements >= PART_STATEMENTS || p->size.n >= PART_SIZES;
}

void
part_statement(Parts *p)
{
    if (part_is_full(p))
        close_part(p);
    p->body.arena = p->size_at.arena = p->h->a;
    p->statements++;
}

void
part_number(Parts *p, Text *t, const Expr *x)
{
    int64_t number;
    uint64_t at;

    if (expr_const(x, &number)) {
        text_printf(t, "%lld", (long long)(number > 0 ? number : 0));
        return;
    }
    if (!map_get(&p->size_at, MAP_PTR(x), &at)) {
        at = p->size.n;
        map_put(&p->size_at, MAP_PTR(x), at);
        VEC_PUSH(p->h->a, &p->size, x);
    }
    text_printf(t, "TN_N(%u)", (unsigned)at);
}

void
parts_end(Parts *p)
{
    Text *t = p->t;

    close_part(p);
    text_printf(t, "static int\n%s(%s)\n{\n    int code = 0;\n", p->name, p->parameters);
    for (uint32_t i = 0; i < p->count; i++)
        text_printf(t, "    if (!code)\n        code = %s_%u(%s);\n", p->name, i, p->arguments);
    text_add(t, "    return code;\n}\n\n");
}
