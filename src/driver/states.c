/* states: which inputs and outputs are states of a session.
 *
 *   --state 'past_key_values.*=present.*'
 *
 * Each input that matches the left side is a state, updated by the output that the right side
 * names; each * stands for the same text on both sides.
 */
#include "driver/internal.h"

#include <string.h>

enum { MOST_STARS = 8 };

typedef struct {
    const char *at;
    size_t n;
} PatternPiece;
typedef struct {
    PatternPiece star[MOST_STARS];
    uint32_t n;
} Stars;

/* Does the name match the pattern, and what do its stars match? The first match with each star as
 * short as possible. */
static bool
fits(const char *pattern, const char *name, Stars *s)
{
    if (!*pattern)
        return !*name;
    if (*pattern != '*')
        return *pattern == *name && fits(pattern + 1, name + 1, s);
    uint32_t mine = s->n++;
    for (size_t n = 0;; n++) {
        s->n = mine + 1;
        s->star[mine] = (PatternPiece){ name, n };
        if (fits(pattern + 1, name + n, s))
            return true;
        if (!name[n])
            return false;
    }
}

static const char *
filled(Arena *a, const char *pattern, const Stars *s)
{
    Text t = { .arena = a };

    for (uint32_t k = 0; *pattern; pattern++)
        if (*pattern == '*') {
            text_bytes(&t, s->star[k].at, s->star[k].n);
            k++;
        } else
            text_bytes(&t, pattern, 1);
    return text_str(&t);
}

static uint32_t
stars_in(const char *s)
{
    uint32_t n = 0;

    for (; *s; s++)
        n += *s == '*';
    return n;
}

static bool
add_state(Job *j, const TnStateNames *said, uint32_t input, const char *output)
{
    Graph *g = j->graph;
    State s = { input, 0 };
    uint32_t dim;
    const Value *in = &g->value.at[g->input.at[input]];

    while (s.output < g->output.n && strcmp(g->value.at[g->output.at[s.output]].name, output))
        s.output++;
    if (s.output == g->output.n)
        return model_error(j, DIAG_USAGE,
                           "--state %s=%s: input %s would be %s afterwards, which is no output of "
                           "the model; they are %s",
                           said->input, said->output, in->name, output,
                           value_names(j, g->output.at, g->output.n));
    const Value *out = &g->value.at[g->output.at[s.output]];
    if (in->type->dtype == DT_STR || !graph_state_grows(g, &s, &dim))
        return model_error(
            j, DIAG_USAGE,
            "--state %s=%s: input %s is %s and output %s is %s; what is kept from run to "
            "run has one type, and may be longer along one dimension",
            said->input, said->output, in->name, type_str(j->ctx, in->type), out->name,
            type_str(j->ctx, out->type));
    for (uint32_t i = 0; i < g->state.n; i++)
        if (g->state.at[i].input == input || g->state.at[i].output == s.output)
            return model_error(j, DIAG_USAGE, "--state %s=%s: %s is a state already", said->input,
                               said->output, g->state.at[i].input == input ? in->name : out->name);
    VEC_PUSH(g->arena, &g->state, s);
    return true;
}

static bool
declare(Job *j, const TnStateNames *said)
{
    const Graph *g = j->graph;
    uint32_t left = stars_in(said->input), right = stars_in(said->output), n = g->state.n;

    if (left != right || left > MOST_STARS)
        return model_error(j, DIAG_USAGE,
                           "--state %s=%s: %u * on the left and %u on the right; both sides need "
                           "as many, at most %d",
                           said->input, said->output, left, right, MOST_STARS);
    for (uint32_t i = 0; i < g->input.n; i++) {
        Stars s = { .n = 0 };
        if (fits(said->input, g->value.at[g->input.at[i]].name, &s) &&
            !add_state(j, said, i, filled(j->arena, said->output, &s)))
            return false;
    }
    return g->state.n > n ||
           model_error(j, DIAG_USAGE,
                       "--state %s=%s: no input of the model is named so; they are %s", said->input,
                       said->output, value_names(j, g->input.at, g->input.n));
}

bool
states_named(void *job, const char *input)
{
    const Job *j = job;
    Stars s = { .n = 0 };

    for (int32_t i = 0; i < j->o->nstate; i++, s.n = 0)
        if (stars_in(j->o->state[i].input) <= MOST_STARS && fits(j->o->state[i].input, input, &s))
            return true;
    return false;
}

bool
states_declare(Job *j)
{
    if (j->o->state_capacity < 0)
        return diag_usage(
            &j->ctx->diags,
            "--state-capacity %lld: a state holds 1 row or more; leave it out for no bound",
            (long long)j->o->state_capacity);
    for (int32_t i = 0; i < j->o->nstate; i++)
        if (!declare(j, &j->o->state[i]))
            return false;
    /* A run does not pass states: sizes that only their types give must follow from the other
     * inputs. */
    if (j->graph->state.n && !graph_unify_inputs(j->graph))
        return false;
    if (j->o->state_capacity && !j->graph->state.n)
        return model_error(j, DIAG_USAGE,
                           "--state-capacity: the model has no state; say with --state which "
                           "inputs are outputs of the run before");
    return true;
}

bool
states_in_place(Job *j)
{
    const Graph *from = j->graph;
    uint32_t dim, n = 0;
    Text t = { .arena = j->arena };

    if (!from->state.n)
        return true;
    j->state_order = NEW_ARRAY(j->arena, const uint8_t *, from->state.n);
    if (!(j->graph = rewrite_states(from, j->state_order)))
        return false;
    for (uint32_t i = 0; i < from->state.n; i++) {
        const State *s = &from->state.at[i];
        bool grows = graph_state_grows(from, s, &dim) &&
                     dim < from->value.at[from->input.at[s->input]].type->rank;
        if (grows && !graph_state_in_place(j->graph, s))
            text_printf(&t, "%s%s", n++ ? ", " : "", from->value.at[from->input.at[s->input]].name);
    }
    if (n)
        model_note(j,
                   "%u of %u state%s %s made anew in every run, since what the model gives is not "
                   "what it got with "
                   "something behind it: %s",
                   n, from->state.n, from->state.n == 1 ? "" : "s", n == 1 ? "is" : "are",
                   text_str(&t));
    return true;
}

const char *
states_order(const Job *j, bool output, uint32_t i)
{
    const Graph *g = j->graph;

    for (uint32_t k = 0; k < g->state.n && j->state_order; k++)
        if (j->state_order[k] && (output ? g->state.at[k].output : g->state.at[k].input) == i) {
            Text t = { .arena = j->arena };
            order_print(&t, g->value.at[output ? g->output.at[i] : g->input.at[i]].type->rank,
                        j->state_order[k]);
            return text_str(&t);
        }
    return NULL;
}
