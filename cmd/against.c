/* against: results of ONNX Runtime on the same inputs. A small Python program (against.py) runs
 * it and exchanges tensors as files in a temporary folder.
 */
#include "cmd.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char program[] =
#include "against_text.h"
    ;

/* Python's own words go to standard error as they are. */
static int
python(const Options *o, const char *what, const char *model, const char *folder)
{
    const char *name = o->python ? o->python : "python3";
    const char *argv[] = { name, "-c", program, what, model, folder, NULL };
    posix_spawn_file_actions_t files;
    pid_t pid;
    int status;

    fflush(stdout);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, 2, 1); /* standard output is tenon's */
    int why = posix_spawnp(&pid, name, &files, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&files);
    if (why)
        return usage_error(
            "--against onnxruntime: %s: %s. Name a Python that has onnxruntime with --python", name,
            strerror(why));
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return usage_error("%s: %s", name, strerror(errno));
    return status ? usage_error("ONNX Runtime did not run %s; what it said is above", model)
                  : TN_OK;
}

static int
write_inputs(TnContext *ctx, const char *folder, const Tensors *t)
{
    char path[8192];
    int status = TN_OK;

    for (int32_t i = 0; i < t->nin && status == TN_OK; i++) {
        snprintf(path, sizeof path, "%s/input_%d.npy", folder, i);
        status = report(ctx, tn_tensor_write_npy(ctx, path, &t->in[i]));
    }
    return status;
}

int
against_mark(const Options *o, const char *folder)
{
    return python(o, "mark", o->model, folder);
}

int
against_run(TnContext *ctx, const Options *o, const char *model, const char *folder,
            const Tensors *t, TnTensor *out)
{
    char path[8192];

    int status = write_inputs(ctx, folder, t);
    if (status == TN_OK)
        status = python(o, "run", model, folder);
    for (int32_t i = 0; i < t->nout && status == TN_OK; i++) {
        snprintf(path, sizeof path, "%s/output_%d.npy", folder, i);
        status = report(ctx, tn_tensor_read(ctx, path, &out[i]));
        out[i].name = t->out[i].name;
    }
    return status;
}

char *
against_node(const char *folder, int32_t i)
{
    char path[8192], *line = NULL;
    size_t room = 0;

    snprintf(path, sizeof path, "%s/nodes", folder);
    FILE *f = fopen(path, "r");
    for (int32_t k = 0; f && k <= i; k++)
        if (getline(&line, &room, f) < 0) {
            free(line);
            line = NULL;
            break;
        }
    if (f)
        fclose(f);
    if (line)
        line[strcspn(line, "\n")] = 0;
    return line;
}
