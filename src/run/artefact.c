/* artefact: open a compiled model by mapping.
 *
 * The head (head.c) is read before any code of the file runs. Code and weights are loaded by the
 * system's loader, which maps them and reads neither: opening costs the same for every size of
 * model, and processes share the pages.
 *
 * The loader identifies libraries by name: for a path that is already loaded it returns the old
 * library, even if another file has the name now (a model compiled again, loaded again). So it gets
 * a path that depends on the file's inode: before the file's name are 32 more slashes, some of them
 * `/.`, as the bits of a hash say.
 *
 * Huge pages are requested for weights: if the file system has them in its cache, a model that
 * reads all weights at each step misses the TLB far less, and the first access faults 2 MB instead
 * of 64 KB.
 */
#include "run/run.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/internal.h"

typedef struct {
    Diags *diags;
    Loc loc;
} Report;

static int
open_file(const Report *r, struct stat *st)
{
    int fd = open(r->loc.file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        diag_error(r->diags, DIAG_USAGE, r->loc, "cannot open: %s", strerror(errno));
        return -1;
    }
    if (fstat(fd, st) == 0 && S_ISREG(st->st_mode))
        return fd;
    diag_error(r->diags, DIAG_USAGE, r->loc,
               "cannot read: it is %s; give the file that `tenon compile` wrote",
               S_ISDIR(st->st_mode) ? "a folder" : "not a regular file");
    close(fd);
    return -1;
}

/* ---- code ------------------------------------------------------------------------------------ */

static const char *
loader_name(Arena *a, const char *path, const struct stat *st)
{
    uint64_t identity[2] = { (uint64_t)st->st_dev, (uint64_t)st->st_ino };
    uint64_t bits = hash_bytes(identity, sizeof identity, 0);
    Text name = { .arena = a };
    text_add(&name, path_folder(a, path));
    for (int i = 0; i < 32; i++)
        text_add(&name, bits >> i & 1 ? "/." : "/");
    text_printf(&name, "/%s", path_name(path));
    return name.n < PATH_MAX ? text_str(&name) : path;
}

static void
unload(void *what)
{
    Artefact *f = what;
    if (f->library)
        dlclose(f->library);
}

/* Where an ELF address of the file is in memory; NULL: unknown. */
static void *
loaded_at(const Artefact *f, uint64_t address)
{
    struct link_map *map = NULL;

    return dlinfo(f->library, RTLD_DI_LINKMAP, &map) || !map
               ? NULL
               : (char *)(uintptr_t)map->l_addr + address;
}

/* The manifest as version 3 began: every later one is at least as long. */
enum { MANIFEST_LEAST = offsetof(TnManifest, cpu_ok) + sizeof(int (*)(void)) };

static bool
load_code(const Report *r, const ArtefactHead *head, Artefact *f, const char *path)
{
    f->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!f->library)
        return diag_error(r->diags, DIAG_MODEL, r->loc, "the system's loader refused the file: %s",
                          dlerror());
    const TnManifest *(*manifest)(void);
    *(void **)&manifest = dlsym(f->library, "tenon_manifest");
    const TnManifest *m = manifest ? manifest() : NULL;
    if (!m)
        return diag_error(r->diags, DIAG_MODEL, r->loc,
                          "the library has no tenon_manifest: it is not a compiled model; make one "
                          "with `tenon compile`");
    if (m->abi != head->abi || m->size < MANIFEST_LEAST ||
        m->weights_bytes != head->weights_bytes || m->weights_hash != head->weights_hash)
        return diag_error(r->diags, DIAG_MODEL, r->loc,
                          "code and weights do not belong together: the code (ABI version %u, "
                          "manifest of %u bytes) expects %llu bytes of weights, "
                          "hash %016llx; the file holds %llu, hash %016llx: it was changed; "
                          "compile the model again",
                          m->abi, m->size, (unsigned long long)m->weights_bytes,
                          (unsigned long long)m->weights_hash,
                          (unsigned long long)head->weights_bytes,
                          (unsigned long long)head->weights_hash);
    if (!m->cpu_ok())
        return diag_error(r->diags, DIAG_UNSUPPORTED, r->loc,
                          "the model was compiled for %s, which this processor is not; compile it "
                          "with --target=native here, or for an older target",
                          m->target);
    f->manifest = m;
    return true;
}

/* Counts and ranks index the runtime's tables, so they are checked first. */
static bool
check_manifest(const Report *r, const TnManifest *m)
{
    int64_t ranks = 0;
    bool ok = m->ninput >= 0 && m->noutput >= 0 && m->nsymbol >= 0 && m->nconstraint >= 0 &&
              m->nkernel >= 0;
    for (int32_t i = 0; ok && i < m->ninput; i++)
        ok = m->inputs[i].rank >= 0 && m->inputs[i].rank <= TN_MAX_RANK &&
             dtype_from_name(m->inputs[i].dtype, strlen(m->inputs[i].dtype)) != DT_NONE;
    for (int32_t i = 0; ok && i < m->noutput; i++) {
        ok = m->outputs[i].rank >= 0 && m->outputs[i].rank <= TN_MAX_RANK &&
             dtype_from_name(m->outputs[i].dtype, strlen(m->outputs[i].dtype)) != DT_NONE;
        ranks += m->outputs[i].rank;
    }
    int32_t nstate;
    const TnStateInfo *s = manifest_states(m, &nstate);
    ok = ok && nstate >= 0 && nstate <= m->ninput && nstate <= m->noutput;
    for (int32_t i = 0; ok && i < nstate; i++)
        ok = s[i].input >= 0 && s[i].input < m->ninput && s[i].output >= 0 &&
             s[i].output < m->noutput &&
             m->inputs[s[i].input].rank == m->outputs[s[i].output].rank && s[i].dim >= -1 &&
             s[i].dim < m->inputs[s[i].input].rank &&
             !strcmp(m->inputs[s[i].input].dtype, m->outputs[s[i].output].dtype) &&
             (!s[i].in_place || s[i].dim == 0);
    return (ok && ranks == m->output_rank_total) ||
           diag_error(r->diags, DIAG_INTERNAL, r->loc,
                      "the manifest contradicts itself; please report it, with the model");
}

/* ---- artefacts ------------------------------------------------------------------------------- */

/* From an open file, which it closes. path: under which the loader finds it. */
static Artefact *
open_artefact(Arena *a, const Report *r, int fd, const struct stat *st, const char *path)
{
    ArtefactHead head;
    uint64_t address = 0;
    Artefact *f = NEW(a, Artefact);

    f->path = arena_str(a, r->loc.file);
    arena_closer(a, unload, f);
    bool ok = head_read(r->diags, r->loc, fd, (uint64_t)st->st_size, &head, &address) &&
              load_code(r, &head, f, loader_name(a, path, st)) && check_manifest(r, f->manifest);
    close(fd);
    if (ok)
        huge_pages(loaded_at(f, address), head.size + head.weights_bytes);
    return ok ? f : NULL;
}

Artefact *
artefact_open(Arena *a, Diags *d, const char *path)
{
    Report r = { d, { .file = path } };
    struct stat st = { 0 };
    int fd = open_file(&r, &st);

    return fd < 0 ? NULL : open_artefact(a, &r, fd, &st, path);
}

/* The system's loader takes files alone: this is one without a name. */
Artefact *
artefact_open_memory(Arena *a, Diags *d, Bytes file)
{
    Report r = { d, { .file = "model in memory" } };
    struct stat st = { 0 };
    size_t done = 0;
    int fd = memfd_create("tenon-model", MFD_CLOEXEC);

    for (ssize_t n = 1; fd >= 0 && n > 0 && done < file.bytes; done += n > 0 ? (size_t)n : 0)
        n = write(fd, file.data + done, file.bytes - done);
    if (fd < 0 || done < file.bytes || fstat(fd, &st)) {
        diag_error(d, DIAG_LIMIT, r.loc, "cannot copy its %zu bytes for the system's loader: %s",
                   file.bytes, strerror(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    return open_artefact(a, &r, fd, &st, arena_printf(a, "/proc/self/fd/%d", fd));
}

void
artefact_set_name(Artefact *f, const char *name)
{
    f->path = name;
}

const TnManifest *
artefact_manifest(const Artefact *f)
{
    return f->manifest;
}
