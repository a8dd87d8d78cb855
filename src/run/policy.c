/* policy: the order in which nodes of many requests run, from its name or from the text of a table.
 *
 *     tenon policy 1
 *     blocks 5 of 8c1f03a29e7715d2
 *     2 0 3: 0
 *     2: 2
 *
 * A line is a state, the ready types by decreasing number of nodes, and the type that runs next.
 * Types are the numbers of blocks, and the number after the last is lists; so a table holds only
 * for the model that it was learnt of, which the second line identifies by a hash of its blocks'
 * names.
 */
#include <stdlib.h>
#include <string.h>

#include "run/internal.h"

static const char head[] = "tenon policy 1\n";

typedef struct {
    Arena *a;
    Diags *d;
    const char *file, *at, *end;
    uint32_t line;
    int32_t ntype;
    VEC(TnBatchState) state;
} PolicyReader;

uint64_t
policy_blocks(const TnBlockInfo *block, int32_t n)
{
    uint64_t hash = (uint64_t)n;

    for (int32_t i = 0; i < n; i++) {
        int32_t numbers[2] = { block[i].nodes, block[i].host };
        hash = hash_bytes(block[i].name, strlen(block[i].name) + 1, hash);
        hash = hash_bytes(numbers, sizeof numbers, hash);
    }
    return hash;
}

static bool
wrong(const PolicyReader *r, const char *why)
{
    return diag_error(r->d, DIAG_USAGE, (Loc){ .file = r->file, .line = r->line }, "%s", why);
}

/* A type after blanks; false: none. */
static bool
read_type(PolicyReader *r, int32_t *type)
{
    int64_t n = 0;

    while (r->at < r->end && *r->at == ' ')
        r->at++;
    if (r->at == r->end || *r->at < '0' || *r->at > '9')
        return false;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9' && n < r->ntype; r->at++)
        n = 10 * n + *r->at - '0';
    *type = (int32_t)n;
    return n < r->ntype;
}

static bool
read_char(PolicyReader *r, char c)
{
    return r->at < r->end && *r->at++ == c;
}

/* The child of `of`, -1 being the root, for a type. */
static int32_t
child(PolicyReader *r, int32_t of, int32_t type)
{
    int32_t at = of >= 0 ? r->state.at[of].child : r->state.n ? 0 : -1, last = -1;

    for (; at >= 0; at = r->state.at[at].next) {
        if (r->state.at[at].type == type)
            return at;
        last = at;
    }
    at = (int32_t)r->state.n;
    VEC_PUSH(r->a, &r->state, ((TnBatchState){ type, -1, -1, -1 }));
    if (last >= 0)
        r->state.at[last].next = at;
    else if (of >= 0)
        r->state.at[of].child = at;
    return at;
}

static bool
read_state(PolicyReader *r)
{
    int32_t at = -1, type;

    while (read_type(r, &type))
        at = child(r, at, type);
    if (at < 0 || !read_char(r, ':') || !read_type(r, &type) || !read_char(r, '\n'))
        return wrong(r, arena_printf(r->a,
                                     "a state is wanted, types from 0 to %d as in "
                                     "\"2 0: 0\", one a line",
                                     r->ntype - 1));
    r->state.at[at].action = type;
    return true;
}

bool
policy_is_table(const char *text)
{
    return !strncmp(text, head, sizeof head - 1);
}

static bool
read_table(PolicyReader *r, const TnBlockInfo *block, int32_t nblock, TnBatchPolicy *out)
{
    const char *blocks = arena_printf(r->a, "%sblocks %d of %016llx\n", head, nblock,
                                      (unsigned long long)policy_blocks(block, nblock));
    size_t n = strlen(blocks), bytes = (size_t)(r->end - r->at);

    if (bytes < sizeof head - 1 || memcmp(r->at, head, sizeof head - 1))
        return wrong(r, "not a table of a policy, which begins with \"tenon policy 1\"; "
                        "make one with session.learn");
    if (bytes < n || memcmp(r->at, blocks, n))
        return wrong(r, "the table was learnt of another model, or with other options: "
                        "its blocks are not those of this one");
    r->at += n;
    for (r->line = 3; r->at < r->end; r->line++)
        if (!read_state(r))
            return false;
    out->state = r->state.at;
    out->nstate = (int32_t)r->state.n;
    return true;
}

bool
policy_read(Arena *a, Diags *d, const char *file, Bytes text, const TnBlockInfo *block,
            int32_t nblock, TnBatchPolicy *out)
{
    const char *at = (const char *)text.data;
    PolicyReader r = { a, d, file, at, at + text.bytes, .line = 1, .ntype = nblock + 1 };

    *out = (TnBatchPolicy){ .size = sizeof *out, .kind = TN_POLICY_FSM };
    return read_table(&r, block, nblock, out);
}

bool
policy_named(Diags *d, const char *name, TnBatchPolicy *out)
{
    static const char *const names[] = { "depth", "agenda", "greedy" };

    *out = (TnBatchPolicy){ .size = sizeof *out };
    for (int32_t i = 0; i < (int32_t)(sizeof names / sizeof *names); i++)
        if (!strcmp(name, names[i])) {
            out->kind = TN_POLICY_DEPTH + i;
            return true;
        }
    if (!strncmp(name, "random:", 7) && name[7]) {
        char *end;
        out->kind = TN_POLICY_RANDOM;
        out->seed = strtoull(name + 7, &end, 10);
        if (!*end)
            return true;
    }
    return diag_usage(
        d, "no policy \"%.40s\": depth, agenda, greedy, fsm:FILE or random:SEED can be", name);
}
