/* choose: a schedule for every kernel.
 *
 * Kernels with the same text and the same constant inputs are one query. A file of choices
 * overrides the answer (pins.c).
 *
 * A dump of this stage shows above each kernel what was chosen, the runners-up and both prices;
 * with --alternatives, the cheapest programs in full, for measuring them:
 *
 *   ; %relu2_out: 12 programs, Conv "conv2" + Relu "relu2"
 *   ;   1.26e-05 s, alone 1.31e-05 s
 *   ;     split j by 16 -> jp jv pad
 *   ;     …
 *   ; %relu3_out: as %relu2_out
 */
#include "driver/internal.h"

#include <string.h>

/* ---- asking once ----------------------------------------------------------------------------- */

static bool *
constant_inputs(const Job *j, const Graph *g, NodeId n)
{
    const Node *node = &g->node.at[n];

    return data_is_known(j->arena, graph_inputs_data(g, j->arena, node), node->in.count);
}

/* Do all constants exceed half of the last-level cache, so that the other kernels of a run evict
 * them between runs? */
static bool
constants_are_far(const Job *j)
{
    GraphList all = graph_all(j->graph, j->arena);
    double sum = 0;
    int64_t bytes;

    for (uint32_t i = 0; i < all.n; i++)
        for (ValueId v = 1; v < all.at[i]->value.n; v++)
            if (all.at[i]->value.at[v].data &&
                type_static_bytes(all.at[i]->value.at[v].type, &bytes))
                sum += (double)bytes;
    return sum > (double)machine_block_bytes(&j->machine, LEVEL_L3);
}

/* ---- remarks --------------------------------------------------------------------------------- */

static bool
has_line(const char *text, const char *line, size_t n)
{
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (strcspn(at, "\n") == n && !memcmp(at, line, n))
            return true;
    return false;
}

/* The steps of the second-best program that the best one does not have. */
static void
print_difference(Text *t, const char *best, const char *other)
{
    bool any = false;

    for (const char *at = other; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        size_t n = strcspn(at, "\n");
        if (has_line(best, at, n))
            continue;
        text_add(t, any ? ", " : ": ");
        text_bytes(t, at, n);
        any = true;
    }
}

/* Every line of a text, as a comment. */
static void
print_quoted(Text *t, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        text_add(t, "\n;     ");
        text_bytes(t, text, n);
        text += n + (text[n] == '\n');
    }
}

static const char *
list_alternatives(Job *j, const Kernel *k, const Choices *choices)
{
    Text t = { .arena = j->arena };

    text_count(&t, choices->n, "program");
    text_printf(&t, ", %s", k->origin ? k->origin : k->name);
    for (uint32_t i = 0; i < choices->n && i < (uint32_t)j->o->alternatives; i++) {
        text_printf(&t, "\n;   %.6g s, alone %.6g s", choices->at[i].seconds, choices->at[i].alone);
        print_quoted(&t, choices->at[i].program);
    }
    return text_str(&t);
}

static const char *
choice_remark(Job *j, const Kernel *k, const Choices *choices)
{
    Text t = { .arena = j->arena };

    if (j->o->alternatives > 0)
        return list_alternatives(j, k, choices);
    text_count(&t, choices->n, "program");
    if (choices->n) {
        text_add(&t, "; ");
        text_seconds(&t, choices->at[0].seconds);
    }
    if (choices->n > 1) {
        text_add(&t, "; the next best ");
        text_seconds(&t, choices->at[1].seconds);
        print_difference(&t, choices->at[0].program, choices->at[1].program);
    }
    return text_str(&t);
}

/* ---- the stage ------------------------------------------------------------------------------- */

typedef struct {
    const char *program, *remark;
    const WrittenSteps *written; /* where the user wrote it; NULL: nobody did */
    double seconds;              /* negative: there is no program */
    const Expr *predicted;
    Sym query;
    /* the value of the first kernel that uses it; NULL: only its price was queried */
    Sym asked;
    bool settled; /* variants have been queried */
    Variants variants;
} Chosen;

/* A price at unknown sizes says nothing about a run. */
static bool
has_numbers(const Kernel *k)
{
    for (uint32_t i = 0; i < k->nin + k->nout; i++)
        if (!type_is_static(k->buffer.at[i].type))
            return false;
    return true;
}

static bool
is_noting(const Prices *p)
{
    return p->rounds > 0;
}

static void
note(Prices *p, Sym query)
{
    for (uint32_t i = 0; i < p->noted.n; i++)
        if (p->noted.at[i] == query)
            return;
    VEC_PUSH(p->j->arena, &p->noted, query);
}

/* Programs of an answer: those that are kept, or more if --alternatives wants more. */
static uint32_t
most_programs(const Job *j)
{
    return j->o->alternatives > QUERY_KEPT ? (uint32_t)j->o->alternatives : QUERY_KEPT;
}

/* An answer from the parallel queries, from the cache, or computed now. While prices are recorded,
 * an unknown query is recorded instead. An answer with more programs than are kept is always
 * computed. NULL: there is none, or none yet. */
static const char *
answer_of(Prices *p, Arena *a, Sym query)
{
    Job *j = p->j;
    bool kept = most_programs(j) == QUERY_KEPT;
    const char *answer;
    uint64_t at;

    if (map_get(&j->ahead, MAP_PTR(query), &at))
        return (const char *)(uintptr_t)at;
    if (kept && choice_cache_get(j, a, query, &answer))
        return answer;
    if (kept && is_noting(p)) {
        note(p, query);
        return NULL;
    }
    answer = query_answer(a, &j->machine, query, most_programs(j));
    if (kept && answer)
        choice_cache_put(j, a, query, answer);
    return answer;
}

/* Saturates at 53 days. */
static int64_t
picoseconds(double seconds)
{
    return seconds < 0x1p62 / 1e12 ? (int64_t)(seconds * 1e12) : (int64_t)1 << 62;
}

/* The choice for a kernel from these programs, without variants. */
static Chosen *
first_of(Job *j, const Kernel *k, Sym query, const Choices *choices)
{
    Chosen *chosen = NEW(j->arena, Chosen);

    *chosen = (Chosen){ .query = query,
                        .seconds = choices->n ? choices->at[0].seconds : -1,
                        .remark = choice_remark(j, k, choices) };
    chosen->program = choices->n ? arena_str(j->arena, choices->at[0].program) : NULL;
    if (choices->n && has_numbers(k))
        chosen->predicted = expr_int(j->ctx, picoseconds(choices->at[0].alone));
    return chosen;
}

/* The choice for a kernel, cached. NULL: the query was recorded instead. */
static Chosen *
chosen_of(Prices *p, const Kernel *k, const bool *constant)
{
    Job *j = p->j;
    Sym query = query_programs(j, k, constant, p->far);
    Choices choices;
    uint64_t at;

    if (map_get(&j->chosen, MAP_PTR(query), &at))
        return (Chosen *)(uintptr_t)at;
    Arena *scratch = arena_child(j->arena);
    const char *answer = answer_of(p, scratch, query);
    Chosen *chosen = NULL;
    if (answer || !is_noting(p)) {
        if (!answer || !choices_parse(scratch, answer, most_programs(j), &choices))
            choices = schedule_choices(j->ctx, scratch, k, &j->machine, constant, p->far, NULL);
        chosen = first_of(j, k, query, &choices);
        map_put(&j->chosen, MAP_PTR(query), MAP_PTR(chosen));
    }
    arena_free(scratch);
    return chosen;
}

/* Queries the variants of a kernel in the graph, once; records the query while prices are
 * recorded. */
static void
find_variants(Prices *p, Chosen *chosen, const Kernel *k)
{
    Job *j = p->j;
    Text remark = { .arena = j->arena };

    if (chosen->settled || !chosen->program || (has_numbers(k) && j->machine.cores == 1) ||
        j->o->variants < 2)
        return;
    Arena *scratch = arena_child(j->arena);
    Sym query = query_variants(j, chosen->query, chosen->program);
    const char *answer = answer_of(p, scratch, query);
    if (answer || !is_noting(p)) {
        chosen->settled = true;
        if (!answer || !variants_parse(j, k, answer, &chosen->variants, &remark))
            chosen->variants.n = 0;
        if (j->o->alternatives == 0)
            chosen->remark = arena_printf(j->arena, "%s%s", chosen->remark, text_str(&remark));
    }
    arena_free(scratch);
}

/* From a file of choices. If the file has only the kernel's variants or only its own program, the
 * other is chosen. */
static Chosen
pinned(Prices *p, const Pins *pins, const Kernel *k, Sym value, const bool *constant)
{
    Job *j = p->j;
    Pin *own = pins_of(pins, value, false);
    Chosen chosen = own ? (Chosen){ .program = own->steps->steps,
                                    .written = own->steps,
                                    .remark = "as the file of choices says",
                                    .seconds = -1 }
                        : *chosen_of(p, k, constant);

    if (own)
        own->used = true;
    chosen.asked = value;
    chosen.variants = pins_variants(j, pins, value, k);
    if (chosen.variants.n)
        chosen.remark =
            arena_printf(j->arena, "%s; variants as the file of choices says", chosen.remark);
    return chosen;
}

/* Kernels with the same choice get separate trees. */
static void
own_variants(Job *j, Kernel *k, const Variants *chosen)
{
    Kernel **own = NEW_ARRAY(j->arena, Kernel *, chosen->n);

    for (uint32_t i = 0; i < chosen->n; i++) {
        own[i] = arena_copy(j->arena, chosen->at[i], sizeof **own);
        own[i]->buffer.at =
            arena_copy(j->arena, own[i]->buffer.at, own[i]->buffer.n * sizeof *own[i]->buffer.at);
        own[i]->buffer.cap = own[i]->buffer.n;
    }
    k->variant = own;
    k->nvariant = chosen->n;
}

double
choose_price(void *user, const Kernel *k, const bool *constant)
{
    const Chosen *chosen = chosen_of(user, k, constant);
    return chosen ? chosen->seconds : 0;
}

void
choose_note(Prices *p)
{
    /* first kernels themselves; then queries that need those answers: the steps of a Winograd
     * domain, variants */
    enum { ROUNDS = 2 };

    p->rounds = query_threads_allowed(p->j) ? ROUNDS : 0;
}

bool
choose_noted(Prices *p)
{
    bool any = p->noted.n > 0;

    if (any)
        query_threads_answer(p->j, &p->noted);
    p->noted.n = 0;
    p->rounds = any && p->rounds ? p->rounds - 1 : 0;
    return any;
}

/* Seconds of kernels whose non-constant arguments of the layout's rank all have that layout; NULL:
 * unchanged. */
static double
seconds_in_order(Prices *p, const Kernel *const *k, const void *const *const *data, uint32_t n,
                 const FormatOrder *order)
{
    Arena *scratch = arena_child(p->j->arena);
    double sum = 0;

    for (uint32_t i = 0; i < n && sum >= 0; i++) {
        const uint8_t **to = NEW_ARRAY(scratch, const uint8_t *, k[i]->nin + k[i]->nout);
        for (uint32_t b = 0; order && b < k[i]->nin + k[i]->nout; b++)
            if (k[i]->buffer.at[b].type->rank == order->rank && !(b < k[i]->nin && data[i][b]))
                to[b] = order->dim;
        const Kernel *transposed = order ? kernel_permute(p->j->ctx, scratch, k[i], to) : k[i];
        double seconds = transposed ? domains_seconds(p, transposed, data[i]) : -1;
        sum = seconds < 0 ? -1 : sum + seconds;
    }
    arena_free(scratch);
    return sum;
}

double
choose_price_in_turn(void *user, const Kernel *const *k, const void *const *const *data, uint32_t n)
{
    Prices *p = user;
    double least = seconds_in_order(p, k, data, n, NULL);
    FormatOrder order[FORMAT_PROPOSALS];
    FormatHow how = FORMAT_NONE;

    formats_how(p->j->o->formats, &how);
    for (uint32_t i = 0; i < n && least >= 0 && how != FORMAT_NONE; i++) {
        uint32_t count = format_proposals(p->j->ctx, k[i],
                                          data_is_known(p->j->arena, data[i], k[i]->nin), order);
        for (uint32_t o = 0; o < count; o++) {
            double seconds = seconds_in_order(p, k, data, n, &order[o]);
            least = seconds >= 0 && seconds < least ? seconds : least;
        }
    }
    return least;
}

double
choose_seconds(Prices *p, const Graph *g, NodeId n, const Kernel *k)
{
    return choose_price(p, k, constant_inputs(p->j, g, n));
}

static bool
is_pinned(const Pins *pins, const Graph *g, NodeId n)
{
    Sym value = kernel_value(g, n);

    return pins_of(pins, value, false) || pins_of(pins, value, true);
}

/* Does node n have a kernel without a schedule? */
static bool
is_open(const Job *j, const Graph *g, NodeId n, const Pins *pins)
{
    const Kernel *k = g->node.at[n].kernel;

    return k && !k->tree.list.n && (!k->schedule || is_pinned(pins, g, n)) && !j->o->plain_schedule;
}

/* Queries for the kernels of a graph. */
static void
ask_in(Prices *p, const Graph *g, const Pins *pins)
{
    for (NodeId n = 1; n < g->node.n; n++) {
        if (!is_open(p->j, g, n, pins) || is_pinned(pins, g, n))
            continue;
        Chosen *chosen = chosen_of(p, g->node.at[n].kernel, constant_inputs(p->j, g, n));
        if (chosen)
            find_variants(p, chosen, g->node.at[n].kernel);
    }
}

static void
choose_in(Prices *p, Graph *g, Pins *pins, Text *remarks)
{
    Job *j = p->j;

    for (NodeId n = 1; n < g->node.n; n++) {
        if (!is_open(j, g, n, pins))
            continue;
        Kernel *k = g->node.at[n].kernel;
        Sym value = kernel_value(g, n);
        const bool *constant = constant_inputs(j, g, n);
        bool pin = is_pinned(pins, g, n);
        Chosen own, *chosen = &own;
        if (pin) {
            own = pinned(p, pins, k, value, constant);
        } else {
            find_variants(p, chosen = chosen_of(p, k, constant), k);
            chosen->asked = chosen->asked ? chosen->asked : value;
        }
        k->schedule = chosen->program;
        k->written = chosen->written;
        k->predicted = chosen->predicted;
        own_variants(j, k, &chosen->variants);
        text_add(remarks, "; %");
        text_name(remarks, value);
        text_add(remarks, ": ");
        if (j->o->alternatives > 0 && chosen->asked != value) {
            text_add(remarks, "as %");
            text_name(remarks, chosen->asked);
        } else {
            text_add(remarks, chosen->remark);
        }
        text_add(remarks, "\n");
    }
}

Prices
choose_prices(Job *j)
{
    return (Prices){ .j = j, .far = constants_are_far(j) };
}

bool
choose_schedules(Job *j)
{
    GraphList all = graph_all(j->graph, j->arena);
    Text remarks = { .arena = j->arena };
    Pins pins = { 0 };
    Prices prices = choose_prices(j);

    if (!pins_read(j, j->o->choices, &pins))
        return false;
    choose_note(&prices);
    do
        for (uint32_t i = 0; i < all.n; i++)
            ask_in(&prices, all.at[i], &pins);
    while (choose_noted(&prices));
    for (uint32_t i = 0; i < all.n; i++)
        choose_in(&prices, all.at[i], &pins, &remarks);
    j->remarks = remarks.n ? text_str(&remarks) : NULL;
    return pins_used(j, &pins);
}
