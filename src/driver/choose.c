/* choose: a schedule for every kernel.
 *
 * Kernels that say the same, over inputs that are constants alike, are asked once. A file of choices may say
 * otherwise, kernel by kernel, by the name of the value that a kernel makes:
 *
 *   %relu2_out {
 *     split j by 16 -> jp jv pad
 *     …
 *   }
 *   %relu2_out when batch == 1 {
 *     …
 *   }
 *
 * A dump of this stage shows what was chosen above each kernel, what else was close, and both prices; or, if
 * so many alternatives are asked for, the cheapest programs of each kernel in full, for who wants to time them:
 *
 *   ; %relu2_out: 12 programs, Conv "conv2" + Relu "relu2"
 *   ;   1.26e-05 s, alone 1.31e-05 s
 *   ;     split j by 16 -> jp jv pad
 *   ;     …
 *   ; %relu3_out: as %relu2_out
 */
#include "driver/internal.h"

#include <string.h>

/* ---- a file of choices ---------------------------------------------------------------------------------- */

typedef struct { Sym value; SizeGuard where; const char *steps; Loc loc; bool used; } Pin;     /* where: of a variant */
typedef VEC(Pin) Pins;

/* The steps between braces, a line each. */
static bool
read_steps(Parse *p, Arena *a, const char **steps)
{
    Text t = { .arena = a };

    if (!parse_expect(p, "{"))
        return false;
    for (; p->s < p->end && *p->s != '}'; p->s++) {
        if (*p->s == '\n') {
            p->line++;
            p->line_start = p->s + 1;
        }
        text_bytes(&t, p->s, 1);
    }
    *steps = text_str(&t);
    return parse_expect(p, "}");
}

static bool
read_pins(Job *j, const char *path, Pins *pins)
{
    Bytes file;

    if (!path)
        return true;
    if (!file_map(j->arena, &j->ctx->diags, path, &file))
        return false;
    Parse p = parse_begin(j->ctx, path, file);
    while (!parse_end(&p)) {
        Pin pin = { .loc = { .file = path, .line = p.line } };
        if (!parse_accept(&p, "%") || !(pin.value = parse_name(&p)))
            return parse_error(&p, "expected %%NAME { steps } for the kernel that makes value NAME");
        if (parse_accept(&p, "when") && !guard_parse(&p, j->arena, &pin.where))
            return false;
        if (!read_steps(&p, j->arena, &pin.steps))
            return false;
        VEC_PUSH(j->arena, pins, pin);
    }
    return true;
}

static Sym
made_by(const Graph *g, NodeId n)
{
    return g->value.at[node_out(g, &g->node.at[n], 0)].name;
}

/* What is said of a kernel: its own schedule, or that it has variants. */
static Pin *
pin_of(const Pins *pins, Sym value, bool variant)
{
    for (uint32_t i = 0; i < pins->n; i++)
        if (!strcmp(pins->at[i].value, value) && (pins->at[i].where.n > 0) == variant)
            return &pins->at[i];
    return NULL;
}

static Variants
pinned_variants(Job *j, const Pins *pins, Sym value, const Kernel *k)
{
    Variants out = { .at = NEW_ARRAY(j->arena, Kernel *, pins->n) };

    for (uint32_t i = 0; i < pins->n; i++)
        if (!strcmp(pins->at[i].value, value) && pins->at[i].where.n) {
            out.at[out.n++] = variant_of(j, k, &pins->at[i].where, pins->at[i].steps);
            pins->at[i].used = true;
        }
    return out;
}

static bool
check_used(Job *j, const Pins *pins)
{
    Text t = { .arena = j->arena };

    for (uint32_t i = 0; i < pins->n; i++) {
        if (pins->at[i].used)
            continue;
        GraphList all = graph_all(j->graph, j->arena);
        for (uint32_t k = 0; k < all.n; k++)
            for (NodeId n = 1; n < all.at[k]->node.n; n++)
                if (all.at[k]->node.at[n].kernel)
                    text_printf(&t, "%s%%%s", t.n ? ", " : "", made_by(all.at[k], n));
        return diag_error(&j->ctx->diags, DIAG_USAGE, pins->at[i].loc, "no kernel makes %%%s; kernels make %s", pins->at[i].value, text_str(&t));
    }
    return true;
}

/* ---- asking once ------------------------------------------------------------------------------------------ */

static bool *
constant_inputs(const Job *j, const Graph *g, NodeId n)
{
    const Node *node = &g->node.at[n];

    return data_is_known(j->arena, graph_inputs_data(g, j->arena, node), node->in.count);
}

bool
constants_are_far(const Job *j)
{
    GraphList all = graph_all(j->graph, j->arena);
    double sum = 0;
    int64_t bytes;

    for (uint32_t i = 0; i < all.n; i++)
        for (ValueId v = 1; v < all.at[i]->value.n; v++)
            if (all.at[i]->value.at[v].data && type_static_bytes(all.at[i]->value.at[v].type, &bytes))
                sum += (double)bytes;
    return sum > (double)machine_block_bytes(&j->machine, LEVEL_L3);
}

/* What its choice depends on: the parts, which inputs are constants, and whether those are far. */
static Sym
choice_key(const Job *j, const Kernel *k, const bool *constant, bool far)
{
    Text t = { .arena = j->arena };
    Kernel plain = *k;

    plain.name = sym(j->ctx, "k");
    plain.origin = NULL;
    kernel_print(j->ctx, &t, &plain, 0);
    for (uint32_t i = 0; i < k->nin; i++)
        text_add(&t, !constant[i] ? "v" : far ? "f" : "c");
    return sym(j->ctx, text_str(&t));
}

/* ---- what a person sees ------------------------------------------------------------------------------------- */

static bool
has_line(const char *text, const char *line, size_t n)
{
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (strcspn(at, "\n") == n && !memcmp(at, line, n))
            return true;
    return false;
}

/* The steps of the next best that the best one has not. */
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

    text_printf(&t, "%u programs, %s", choices->n, k->origin ? k->origin : k->name);
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
    text_printf(&t, "%u program%s", choices->n, choices->n == 1 ? "" : "s");
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

/* ---- the stage ------------------------------------------------------------------------------------------------- */

typedef struct {
    const char *program, *remark;
    double seconds;                  /* negative: it has none */
    const Expr *predicted;
    Sym asked;                       /* by the first kernel that gets it: what that makes; NULL: only a price was wanted */
    Variants variants;
} Chosen;

/* A price at sizes that are not known says nothing of a run. */
static bool
has_numbers(const Kernel *k)
{
    for (uint32_t i = 0; i < k->nin + k->nout; i++)
        if (!type_is_static(k->buffer.at[i].type))
            return false;
    return true;
}

/* Do its choices follow from its key, and are the first two of them all that anybody wants? Not where a person wants to see more,
 * nor where it has symbols: what is known of them stands elsewhere. */
static bool
is_kept(const Job *j, const Kernel *k)
{
    return has_numbers(k) && j->o->alternatives == 0;
}

/* Those that were found together, or by an earlier compilation. */
static bool
found_before(Job *j, Arena *a, Sym key, Choices *out)
{
    uint64_t at;

    return map_get(&j->ahead, MAP_PTR(key), &at) ? choices_parse(a, (const char *)(uintptr_t)at, out) : choice_cache_get(j, a, key, out);
}

static void
note(Prices *p, Sym key)
{
    for (uint32_t i = 0; i < p->noted.n; i++)
        if (p->noted.at[i] == key)
            return;
    VEC_PUSH(p->j->arena, &p->noted, key);
}

/* At most 53 days of them. */
static int64_t
picoseconds(double seconds)
{
    return seconds < 0x1p62 / 1e12 ? (int64_t)(seconds * 1e12) : (int64_t)1 << 62;
}

/* What is chosen for a kernel that has these choices, but for its variants. */
static Chosen *
first_of(Job *j, const Kernel *k, const Choices *choices)
{
    Chosen *chosen = NEW(j->arena, Chosen);

    *chosen = (Chosen){ .seconds = choices->n ? choices->at[0].seconds : -1, .remark = choice_remark(j, k, choices) };
    chosen->program = choices->n ? arena_str(j->arena, choices->at[0].program) : NULL;
    if (choices->n && has_numbers(k))
        chosen->predicted = expr_int(j->ctx, picoseconds(choices->at[0].alone));
    return chosen;
}

/* What is chosen for a kernel, asked once. NULL: it is noted instead. */
static Chosen *
chosen_of(Prices *p, const Kernel *k, const bool *constant)
{
    Job *j = p->j;
    Sym key = choice_key(j, k, constant, p->far);
    bool kept = is_kept(j, k);
    Choices choices;
    uint64_t at;

    if (map_get(&j->chosen, MAP_PTR(key), &at))
        return (Chosen *)(uintptr_t)at;
    Arena *scratch = arena_child(j->arena);
    bool found = kept && found_before(j, scratch, key, &choices);
    if (!found && kept && p->rounds) {
        note(p, key);
        arena_free(scratch);
        return NULL;
    }
    if (!found)
        choices = schedule_choices(j->ctx, scratch, k, &j->machine, constant, p->far, NULL);
    if (!found && kept && choices.n)
        choice_cache_put(j, scratch, key, choices_text(scratch, &choices));
    Chosen *chosen = first_of(j, k, &choices);
    map_put(&j->chosen, MAP_PTR(key), MAP_PTR(chosen));
    arena_free(scratch);
    return chosen;
}

/* What is chosen for a kernel becomes that of one that makes `value`: only now are variants looked for. */
static void
settle(const Prices *p, Chosen *chosen, const Kernel *k, Sym value, const bool *constant)
{
    Job *j = p->j;
    Text remark = { .arena = j->arena };

    if (chosen->asked)
        return;
    chosen->asked = value;
    if (chosen->program && !has_numbers(k))
        chosen->variants = choose_variants(j, k, constant, p->far, chosen->program, &remark);
    if (j->o->alternatives == 0)
        chosen->remark = arena_printf(j->arena, "%s%s", chosen->remark, text_str(&remark));
}

/* As a file says; of variants alone, or of the kernel's own program alone, where it says no more. */
static Chosen
pinned(Prices *p, const Pins *pins, const Kernel *k, Sym value, const bool *constant)
{
    Job *j = p->j;
    Pin *own = pin_of(pins, value, false);
    Chosen chosen = own ? (Chosen){ .program = own->steps, .remark = "as the file of choices says", .seconds = -1 } : *chosen_of(p, k, constant);

    if (own)
        own->used = true;
    chosen.asked = value;
    chosen.variants = pinned_variants(j, pins, value, k);
    if (chosen.variants.n)
        chosen.remark = arena_printf(j->arena, "%s; variants as the file of choices says", chosen.remark);
    return chosen;
}

/* Kernels that share a choice are given trees one by one. */
static void
own_variants(Job *j, Kernel *k, const Variants *chosen)
{
    Kernel **own = NEW_ARRAY(j->arena, Kernel *, chosen->n);

    for (uint32_t i = 0; i < chosen->n; i++) {
        own[i] = arena_copy(j->arena, chosen->at[i], sizeof **own);
        own[i]->buffer.at = arena_copy(j->arena, own[i]->buffer.at, own[i]->buffer.n * sizeof *own[i]->buffer.at);
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
    enum { ROUNDS = 2 };             /* kernels as they are; then the steps of those that a transform domain may better */

    p->rounds = ahead_can(p->j) ? ROUNDS : 0;
}

bool
choose_noted(Prices *p)
{
    bool any = p->noted.n > 0;

    if (any)
        ahead_choose(p->j, &p->noted);
    p->noted.n = 0;
    p->rounds = any && p->rounds ? p->rounds - 1 : 0;
    return any;
}

/* Seconds of kernels whose arguments of the order's rank, but for constants, all lie in it; NULL: as they are. */
static double
seconds_in_order(Prices *p, const Kernel *const *k, const void *const *const *data, uint32_t n, const FormatOrder *order)
{
    Arena *scratch = arena_child(p->j->arena);
    double sum = 0;

    for (uint32_t i = 0; i < n && sum >= 0; i++) {
        const uint8_t **to = NEW_ARRAY(scratch, const uint8_t *, k[i]->nin + k[i]->nout);
        for (uint32_t b = 0; order && b < k[i]->nin + k[i]->nout; b++)
            if (k[i]->buffer.at[b].type->rank == order->rank && !(b < k[i]->nin && data[i][b]))
                to[b] = order->dim;
        const Kernel *turned = order ? kernel_permute(p->j->ctx, scratch, k[i], to) : k[i];
        double seconds = turned ? domains_seconds(p, turned, data[i]) : -1;
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

    for (uint32_t i = 0; i < n && least >= 0 && strcmp(p->j->o->formats, "none"); i++) {
        uint32_t count = format_proposals(p->j->ctx, k[i], data_is_known(p->j->arena, data[i], k[i]->nin), order);
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

static void
choose_in(Prices *p, Graph *g, Pins *pins, Text *remarks)
{
    Job *j = p->j;

    for (NodeId n = 1; n < g->node.n; n++) {
        Kernel *k = g->node.at[n].kernel;
        Sym value = k ? made_by(g, n) : NULL;
        bool pin = k && (pin_of(pins, value, false) || pin_of(pins, value, true));
        if (!k || k->tree.list.n || (k->schedule && !pin) || j->o->schedule == SCHEDULE_PLAIN)
            continue;
        const bool *constant = constant_inputs(j, g, n);
        Chosen own, *chosen = &own;
        if (pin)
            own = pinned(p, pins, k, value, constant);
        else
            settle(p, chosen = chosen_of(p, k, constant), k, value, constant);
        k->schedule = chosen->program;
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

    if (!read_pins(j, j->o->choices, &pins))
        return false;
    for (uint32_t i = 0; i < all.n; i++)
        choose_in(&prices, all.at[i], &pins, &remarks);
    j->remarks = remarks.n ? text_str(&remarks) : NULL;
    return check_used(j, &pins);
}
