/* artefact: open a compiled model by mapping.
 *
 * The trailer at the end of the file is read and checked against the file's real size, so that a
 * truncated copy is refused before any of its code runs. The code is loaded by the system's loader;
 * the weights are mapped read-only and neither read nor hashed: opening costs the same for every size
 * of model, and processes share the pages.
 *
 * The loader knows libraries by name: asked for a path that is already loaded it gives the old library
 * back, even when another file has taken the name since (a model compiled again, loaded again). So it
 * is given a name made from the file's identity: the path with some of its last slashes written `/./`.
 */
#include "run/run.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/internal.h"

_Static_assert(sizeof(ArtefactTrailer) == 64, "the trailer is 64 bytes in the file");

typedef struct { Diags *diags; Loc loc; } Report;

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
    diag_error(r->diags, DIAG_USAGE, r->loc, "cannot read: it is %s; give the file that `tenon compile` wrote",
               S_ISDIR(st->st_mode) ? "a folder" : "not a regular file");
    close(fd);
    return -1;
}

static bool
read_trailer(const Report *r, int fd, uint64_t size, ArtefactTrailer *t)
{
    char start[4] = {0};
    if (size < sizeof *t || pread(fd, t, sizeof *t, (off_t)(size - sizeof *t)) != sizeof *t)
        memset(t, 0, sizeof *t);
    if (memcmp(t->magic, ARTEFACT_MAGIC, sizeof t->magic) != 0) {
        bool elf = pread(fd, start, sizeof start, 0) == sizeof start && memcmp(start, "\177ELF", 4) == 0;
        return diag_error(r->diags, DIAG_MODEL, r->loc, elf
            ? "the file of %llu bytes does not end as a compiled model does: it was truncated, or is another library; copy or compile it again"
            : "the file of %llu bytes is not a compiled model; make one with `tenon compile`", (unsigned long long)size);
    }
    if (t->version != ARTEFACT_VERSION)
        return diag_error(r->diags, DIAG_MODEL, r->loc, "the file has format version %u, this library reads %d; compile the model again",
                          t->version, ARTEFACT_VERSION);
    if (t->file_bytes != size)
        return diag_error(r->diags, DIAG_MODEL, r->loc, "the file has %llu bytes but was written with %llu: it is damaged; copy or compile it again",
                          (unsigned long long)size, (unsigned long long)t->file_bytes);
    uint64_t room = size - sizeof *t;
    if (t->weights_offset > room || t->weights_bytes > room - t->weights_offset || t->weights_offset % 64)
        return diag_error(r->diags, DIAG_MODEL, r->loc,
                          "the weights, %llu bytes at offset %llu, do not lie inside the file of %llu bytes: it is damaged; copy or compile it again",
                          (unsigned long long)t->weights_bytes, (unsigned long long)t->weights_offset, (unsigned long long)size);
    return true;
}

/* ---- code ------------------------------------------------------------------------------- */

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
    if (f->weights_map)
        munmap(f->weights_map, f->weights_map_bytes);
    if (f->library)
        dlclose(f->library);
}

static bool
load_code(Arena *a, const Report *r, Artefact *f, const struct stat *st)
{
    f->library = dlopen(loader_name(a, r->loc.file, st), RTLD_NOW | RTLD_LOCAL);
    if (!f->library)
        return diag_error(r->diags, DIAG_MODEL, r->loc, "the system's loader refused the file: %s", dlerror());
    const TnManifest *(*manifest)(void);
    *(void **)&manifest = dlsym(f->library, "tenon_manifest");
    const TnManifest *m = manifest ? manifest() : NULL;
    if (!m)
        return diag_error(r->diags, DIAG_MODEL, r->loc, "the library has no tenon_manifest: it is not a compiled model; make one with `tenon compile`");
    if (m->abi != TENON_ABI_VERSION || m->size != sizeof *m)
        return diag_error(r->diags, DIAG_MODEL, r->loc,
                          "the model was compiled for ABI %u (manifest of %u bytes), this library has ABI %d (%zu bytes); compile the model again",
                          m->abi, m->size, TENON_ABI_VERSION, sizeof *m);
    if (!m->cpu_ok())
        return diag_error(r->diags, DIAG_UNSUPPORTED, r->loc,
                          "the model was compiled for %s, which this processor is not; compile it with --target=native here, or for an older target",
                          m->target);
    f->manifest = m;
    return true;
}

/* Counts and ranks index our own tables, so they are looked at once. */
static bool
check_manifest(const Report *r, const TnManifest *m)
{
    int64_t ranks = 0;
    bool ok = m->ninput >= 0 && m->noutput >= 0 && m->nsymbol >= 0 && m->nconstraint >= 0 && m->nkernel >= 0;
    for (int32_t i = 0; ok && i < m->ninput; i++)
        ok = m->inputs[i].rank >= 0 && m->inputs[i].rank <= TN_MAX_RANK
             && dtype_from_name(m->inputs[i].dtype, strlen(m->inputs[i].dtype)) != DT_NONE;
    for (int32_t i = 0; ok && i < m->noutput; i++) {
        ok = m->outputs[i].rank >= 0 && m->outputs[i].rank <= TN_MAX_RANK
             && dtype_from_name(m->outputs[i].dtype, strlen(m->outputs[i].dtype)) != DT_NONE;
        ranks += m->outputs[i].rank;
    }
    return (ok && ranks == m->output_rank_total)
        || diag_error(r->diags, DIAG_INTERNAL, r->loc, "the manifest contradicts itself; please report it, with the model");
}

/* ---- weights ---------------------------------------------------------------------------- */

static bool
map_weights(const Report *r, int fd, const ArtefactTrailer *t, Artefact *f)
{
    static const _Alignas(64) uint8_t none[64];
    f->weights = none;
    if (f->manifest->weights_bytes != t->weights_bytes || f->manifest->weights_hash != t->weights_hash)
        return diag_error(r->diags, DIAG_MODEL, r->loc,
                          "the code expects %llu bytes of weights (hash %016llx), the file holds %llu (hash %016llx): it was changed; compile the model again",
                          (unsigned long long)f->manifest->weights_bytes, (unsigned long long)f->manifest->weights_hash,
                          (unsigned long long)t->weights_bytes, (unsigned long long)t->weights_hash);
    if (!t->weights_bytes)
        return true;
    /* Pages may be larger here than where the file was written. */
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), into = t->weights_offset % page;
    size_t bytes = (size_t)(t->weights_bytes + into);
    void *p = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, (off_t)(t->weights_offset - into));
    if (p == MAP_FAILED)
        return diag_error(r->diags, DIAG_LIMIT, r->loc, "cannot map %llu bytes of weights: %s",
                          (unsigned long long)t->weights_bytes, strerror(errno));
    f->weights_map = p;
    f->weights_map_bytes = bytes;
    f->weights = (const uint8_t *)p + into;
    return true;
}

/* ---- */

Artefact *
artefact_open(Arena *a, Diags *d, const char *path)
{
    Report r = { d, { .file = path } };
    ArtefactTrailer trailer;
    struct stat st = {0};
    Artefact *f = NEW(a, Artefact);
    f->path = arena_str(a, path);
    arena_closer(a, unload, f);

    int fd = open_file(&r, &st);
    if (fd < 0)
        return NULL;
    bool ok = read_trailer(&r, fd, (uint64_t)st.st_size, &trailer)
        && load_code(a, &r, f, &st)
        && check_manifest(&r, f->manifest)
        && map_weights(&r, fd, &trailer, f);
    close(fd);
    return ok ? f : NULL;
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
