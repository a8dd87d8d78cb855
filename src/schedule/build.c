/* build: carries a program out on a kernel. */
#include "algebra/algebra.h"
#include "schedule/point.h"

/* Applies formats first: the parts read their inputs in their layouts, and all later steps see
 * plain access maps. NULL, with the reason, if a part cannot. */
static const Part *
parts_as_they_lie(Ctx *c, Arena *a, Kernel *k, const Program *program, const char **why)
{
    for (uint32_t i = 0; i < program->step.n; i++) {
        const Step *s = &program->step.at[i];
        if (s->verb != VERB_lay)
            continue;
        for (uint32_t b = 0; b < k->nin; b++) {
            if (k->buffer.at[b].name != s->subject)
                continue;
            k->buffer.at[b].format = s->format;
            if (!format_is_complete(s->format, k->buffer.at[b].type)) {
                *why = arena_printf(a,
                                    "this is no format of %s, which has rank %u: each element "
                                    "needs a place of its own",
                                    s->subject, k->buffer.at[b].type->rank);
                return NULL;
            }
        }
    }
    Part *part = arena_copy(a, k->part, k->npart * sizeof *part);
    for (uint32_t i = 0; i < k->npart; i++)
        for (uint32_t slot = 0; slot < part[i].nest->nin; slot++) {
            const Buffer *b = &k->buffer.at[part[i].buffer[slot]];
            if (!b->format)
                continue;
            part[i].nest = nest_reindex(c, part[i].nest, slot, b->format);
            if (!part[i].nest) {
                *why = arena_printf(
                    a, "%s may be read outside of its bounds, where its format has padding",
                    b->name);
                return NULL;
            }
        }
    return part;
}

static bool
take_steps(Points *p, Arena *a, const Program *program, uint32_t first, uint32_t end,
           const char **why)
{
    Text t = { .arena = a };

    for (uint32_t i = first; i < end; i++)
        if (!points_step(p, &program->step.at[i])) {
            text_printf(&t, "step %u, `", i + 1);
            step_print(&t, &program->step.at[i]);
            text_printf(&t, "`: %s", p->why);
            *why = text_str(&t);
            if (program->fault)
                *program->fault = program->step.at[i].loc;
            return false;
        }
    return true;
}

static bool
carry_out(Points *p, Arena *a, const Program *program, uint32_t first, uint32_t end,
          const char **why)
{
    if (!take_steps(p, a, program, first, end, why))
        return false;
    if (points_lower(p))
        return true;
    *why = p->why;
    return false;
}

/* ---- separate parts -------------------------------------------------------------------------- */

uint32_t
schedule_pieces(const Kernel *k, const Program *program)
{
    return kernel_has_independent_parts(k) && program->step.n &&
                   program->step.at[0].verb == VERB_alone
               ? k->npart
               : 1;
}

/* The steps of part i: those after the i-th `alone`, which names it. */
static bool
steps_of_part(Arena *a, const Kernel *k, const Program *program, uint32_t i, uint32_t *first,
              uint32_t *end, const char **why)
{
    Sym name = k->buffer.at[k->part[i].buffer[k->part[i].nest->write[0].out]].name;
    uint32_t at = 0, seen = 0;

    while (at < program->step.n && (program->step.at[at].verb != VERB_alone || seen++ < i))
        at++;
    if (at == program->step.n || program->step.at[at].subject != name) {
        *why =
            at == program->step.n
                ? arena_printf(
                      a, "there are steps for %u of %u parts; `alone %s` begins those of the next",
                      i, k->npart, name)
                : arena_printf(
                      a, "step %u, `alone %s`: the next part is %s; parts stand in their order",
                      at + 1, program->step.at[at].subject, name);
        return false;
    }
    for (*first = *end = at + 1;
         *end < program->step.n && program->step.at[*end].verb != VERB_alone; ++*end)
        ;
    return true;
}

/* Gives k the tree of part i alone. */
static bool
build_part(Ctx *c, Arena *a, Kernel *k, const Machine *m, const Program *program, uint32_t i,
           const char **why)
{
    const Part *part = k->part;
    uint32_t npart = k->npart, first, end;

    if (!steps_of_part(a, k, program, i, &first, &end, why))
        return false;
    k->part = &part[i];
    k->npart = 1;
    bool ok = carry_out(points_of(c, a, k, m), a, program, first, end, why);
    k->part = part;
    k->npart = npart;
    return ok;
}

static const Tree *
parallel_loop(const Block *tree)
{
    for (uint32_t i = 0; i < tree->list.n; i++)
        if (tree->list.at[i]->kind == TREE_LOOP && tree->list.at[i]->u.loop.kind == LOOP_PARALLEL)
            return tree->list.at[i];
    return NULL;
}

/* The loop body of one part, for task `mine` of it. */
static void
add_tasks(Ctx *c, Block *b, const Block *tree, const Expr *mine)
{
    const Tree *loop = parallel_loop(tree);

    for (uint32_t i = 0; i < tree->list.n; i++) {
        Tree *t = tree->list.at[i];
        if (t != loop) {
            VEC_PUSH(b->arena, &b->list, t);
            continue;
        }
        if (mine != expr_loop(c, t->u.loop.var)) {
            Tree *let = NEW(b->arena, Tree);
            *let = (Tree){ .kind = TREE_LET };
            let->u.let.var = t->u.loop.var;
            let->u.let.name = t->u.loop.name;
            let->u.let.value = mine;
            VEC_PUSH(b->arena, &b->list, let);
        }
        for (uint32_t j = 0; j < t->body.list.n; j++)
            VEC_PUSH(b->arena, &b->list, t->body.list.at[j]);
    }
}

/* The largest number that divides all coefficients. */
static int64_t
content_of(const Expr *e)
{
    int64_t all = 0;

    for (uint32_t i = 0; i < e->nterm; i++)
        all = gcd64(all, e->term[i].coef);
    return all > 0 ? all : 1;
}

/* The numbers of tasks of each part, own [n], in a round, if all parts take the same number of such
 * rounds. False: there is no common number of rounds. */
static bool
takes_turns(Ctx *c, const Expr *const *trips, uint32_t n, int64_t *own)
{
    const Expr *alike = expr_exact_div(c, trips[0], expr_int(c, content_of(trips[0])));
    int64_t common = 0;

    for (uint32_t i = 0; i < n; i++) {
        own[i] = content_of(trips[i]);
        common = gcd64(common, own[i]);
        if (expr_is(trips[i], 0) || expr_exact_div(c, trips[i], expr_int(c, own[i])) != alike)
            return false;
    }
    for (uint32_t i = 0; i < n; i++)
        own[i] /= common;
    return common > 1 || !expr_is(alike, 1);
}

/* One loop over the tasks of all parts, in rounds, so that each thread has its share of every part,
 * and of the same columns of all of them. */
static bool
build_independent_parts(Ctx *c, Arena *a, Kernel *k, const Machine *m, const Program *program,
                        const char **why)
{
    Block *tree = NEW_ARRAY(a, Block, k->npart), *b;
    const Expr **trips = NEW_ARRAY(a, const Expr *, k->npart), *grain = expr_int(c, 1),
               *all = expr_int(c, 0);
    uint32_t var;

    for (uint32_t i = 0; i < k->npart; i++) {
        if (!build_part(c, a, k, m, program, i, why))
            return false;
        tree[i] = k->tree;
        trips[i] = k->trips;
        grain = expr_max(c, grain, k->grain);
        all = expr_add(c, all, k->trips);
    }
    k->tree = (Block){ .arena = a };
    k->trips = all;
    k->grain = grain;
    int64_t *own = NEW_ARRAY(a, int64_t, k->npart), each = 0;
    bool turns = takes_turns(c, trips, k->npart, own);
    const Expr *begin = expr_int(c, 0), *turn = begin;
    for (uint32_t i = 0; i < k->npart; i++)
        each += own[i];
    b = tree_loop(k, &k->tree, LOOP_PARALLEL, sym(c, "task_"), begin, all, 1, &var);
    const Tree *first = parallel_loop(&tree[0]);
    if (!turns && first) /* reuse the first part's variable */
        k->tree.list.at[0]->u.loop.var = var = first->u.loop.var;
    const Expr *here = expr_loop(c, var);
    if (turns) {
        turn = tree_let(c, k, b, "turn", expr_div(c, here, expr_int(c, each)));
        here = tree_let(c, k, b, "here", expr_mod(c, here, expr_int(c, each)));
    }
    for (uint32_t i = 0; i < k->npart; i++) {
        const Expr *mine = expr_add(c, expr_scale(c, turn, own[i]), expr_sub(c, here, begin));
        begin = expr_add(c, begin, turns ? expr_int(c, own[i]) : trips[i]);
        Tree *test =
            i + 1 < k->npart
                ? tree_if(b, scalar_2(c, S_LT, scalar_index(c, here), scalar_index(c, begin)))
                : NULL;
        add_tasks(c, test ? &test->body : b, &tree[i], mine);
        b = test ? &test->other : b;
    }
    return true;
}

bool
schedule_build_part(Ctx *c, Arena *a, Kernel *k, const Machine *m, const Program *program,
                    uint32_t i, const char **why)
{
    const Part *part = parts_as_they_lie(c, a, k, program, why);

    if (!part)
        return false;
    k->part = part;
    k->nloop = 0;
    if (!build_part(c, a, k, m, program, i, why))
        return false;
    k->part = &part[i];
    k->npart = 1;
    return true;
}

/* ---- any kernel ------------------------------------------------------------------------------ */

bool
schedule_build(Ctx *c, Arena *a, Kernel *k, const Machine *m, const Program *program,
               const char **why)
{
    const Part *meaning = k->part;
    Text t = { .arena = a };

    const Part *part = parts_as_they_lie(c, a, k, program, why);
    if (!part)
        return false;
    k->part = part;
    k->nloop = 0;
    bool ok = schedule_pieces(k, program) > 1
                  ? build_independent_parts(c, a, k, m, program, why)
                  : carry_out(points_of(c, a, k, m), a, program, 0, program->step.n, why);
    k->part = meaning;
    program_print(&t, program, 0);
    k->schedule = text_str(&t);
    return ok;
}

bool
schedule_sums(Ctx *c, Arena *a, Kernel *k, const Machine *m, const Program *program, Text *t)
{
    const Part *meaning = k->part, *part;
    uint32_t npart = k->npart, n = schedule_pieces(k, program), first = 0, end = program->step.n;
    const char *why;
    bool ok = (part = parts_as_they_lie(c, a, k, program, &why)) != NULL;

    for (uint32_t i = 0; ok && i < n; i++) {
        if (n > 1 && !(ok = steps_of_part(a, k, program, i, &first, &end, &why)))
            break;
        k->part = part + i;
        k->npart = n > 1 ? 1 : npart;
        Points *p = points_of(c, a, k, m);
        ok = take_steps(p, a, program, first, end, &why);
        points_summation_order(p, p->root, t);
        k->part = meaning;
        k->npart = npart;
    }
    return ok;
}
