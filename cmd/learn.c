/* tenon learn: a policy, the order in which blocks of many requests run, learnt of the requests of
 * a file.
 */
#include "cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the requests took by each policy, and the policy that is to be used. */
static void
print_text(const Options *o, const TnLearnt *l, int32_t n, const char *path)
{
    const struct {
        const char *name;
        int64_t batches;
    } row[] = {
        { "depth", l->depth },
        { "agenda", l->agenda },
        { "greedy", l->greedy },
        { "fsm", l->fsm },
    };

    printf("%s: %d request%s asked for %lld runs of blocks\n\npolicy     batches\n", o->model, n,
           n == 1 ? "" : "s", (long long)l->nodes);
    for (int i = 0; i < 4; i++)
        printf("%-8s %9lld%s", row[i].name, (long long)row[i].batches, i < 3 ? "\n" : "");
    printf("   a table of %d state%s, of %d episodes\n%-8s %9lld   no order takes fewer\n\nnext: ",
           l->states, l->states == 1 ? "" : "s", l->episodes, "least", (long long)l->bound);
    const char *of = path ? "fsm:" : "", *policy = path ? path : l->best;
    if (!path && !strcmp(policy, "depth"))
        puts("nothing: blocks run by depth anyway, and no other policy takes fewer");
    else
        printf("tenon compile MODEL --many --policy %s%s, or session.policy = \"%s%s\"\n", of,
               policy, of, policy);
}

static void
print_json(const Options *o, const TnLearnt *l, int32_t n, const char *path)
{
    printf("{\"model\": ");
    print_json_string(o->model);
    printf(", \"requests\": %d, \"asked\": %lld, \"least\": %lld, \"depth\": %lld, "
           "\"agenda\": %lld, \"greedy\": %lld, \"fsm\": %lld, \"states\": %d, "
           "\"episodes\": %d, \"best\": ",
           n, (long long)l->nodes, (long long)l->bound, (long long)l->depth, (long long)l->agenda,
           (long long)l->greedy, (long long)l->fsm, l->states, l->episodes);
    print_json_string(l->best == l->table ? "fsm" : l->best);
    printf(", \"table\": ");
    if (path)
        print_json_string(path);
    else
        printf("null");
    puts("}");
}

/* digits.so: digits.policy. */
static char *
table_path(const Options *o)
{
    const char *dot = strrchr(o->model, '.'), *slash = strrchr(o->model, '/');
    size_t n = dot && (!slash || dot > slash) ? (size_t)(dot - o->model) : strlen(o->model);
    char *path = need(malloc(n + sizeof ".policy"));

    memcpy(path, o->model, n);
    strcpy(path + n, ".policy");
    return path;
}

static int
write_table(const char *path, const char *table)
{
    FILE *f = fopen(path, "w");
    bool ok = f && fputs(table, f) >= 0;

    if ((f && fclose(f)) || !ok) {
        usage_error("%s: the table could not be written", path);
        return TN_LIMIT;
    }
    return TN_OK;
}

/* All requests, `batch` at a time. */
static int
run_parts(TnContext *ctx, TnSession *s, const Requests *all, int64_t batch)
{
    int32_t step = batch > 0 && batch < all->n ? (int32_t)batch : all->n > 0 ? all->n : 1;
    int status = report(ctx, tn_session_record(s));

    for (int32_t i = 0; i < all->n && status == TN_OK; i += step) {
        Requests part = *all;
        part.at += i;
        part.n = all->n - i < step ? all->n - i : step;
        status = requests_run(ctx, s, &part);
    }
    return status;
}

static int
tell(const Options *o, const TnLearnt *l, int32_t n)
{
    char *path = l->best == l->table || o->output
                     ? need(o->output ? strdup(o->output) : table_path(o))
                     : NULL;
    int status = path ? write_table(path, l->table) : TN_OK;

    if (status == TN_OK && o->json)
        print_json(o, l, n, path);
    else if (status == TN_OK)
        print_text(o, l, n, path);
    free(path);
    return status;
}

static int
learn(TnContext *ctx, const Options *o, TnModel *m)
{
    TnLearnt l = { .size = sizeof l };
    TnSession *session = NULL;
    Requests all = { 0 };
    int32_t failed = 0;

    if (!tn_model_blocks(m)) {
        const char *why = tn_model_single(m);
        return usage_error("%s: requests run one by one: %s", o->model,
                           why ? why : "it was compiled without --many");
    }
    int status = requests_read(o, m, &all);
    if (status == TN_OK)
        status = session_begin(ctx, o, m, &session);
    if (status == TN_OK)
        status = run_parts(ctx, session, &all, o->batch);
    const Request *first = requests_failed(&all, &failed);
    if (status == TN_OK && !all.n)
        status = usage_error("nothing to learn of: there are no requests in %s", o->requests);
    else if (status == TN_OK && failed == all.n) {
        usage_error("nothing to learn of: none of %d requests has a result; %s", all.n,
                    first->error);
        status = first->status;
    } else if (status == TN_OK && first)
        note("%d of %d requests have no result; %s", failed, all.n, first->error);
    if (status == TN_OK)
        status = report(ctx, tn_session_learn(session, (uint64_t)o->compile.seed, &l));
    if (status == TN_OK)
        status = tell(o, &l, all.n);
    requests_free(&all);
    tn_session_free(session);
    return status;
}

int
cmd_learn(TnContext *ctx, const Options *o)
{
    if (!o->requests)
        return usage_error("learn of which requests? --requests FILE, a line of JSON each as for "
                           "tenon run --many");
    return model_with(ctx, o, learn);
}
