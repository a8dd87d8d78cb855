/* base: what every room stands on, and what knows nothing of compilers.
 *
 * Arenas (memory by lifetime), interned names, growable arrays, hash maps, text buffers,
 * diagnostics, files, hashing. Nothing here is global: everything hangs off a Ctx or an Arena.
 *
 * Memory has three lifetimes (context, model, scratch), each an Arena. Nothing inside an arena
 * is freed alone. Out of memory is the one use of longjmp: from the arena to the entry point
 * that armed it, which frees its arenas and reports TN_NOMEM.
 */
#ifndef TENON_BASE_H
#define TENON_BASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- arena ------------------------------------------------------------------------------ */

typedef struct Arena Arena;

typedef struct { /* the caller's allocator; all NULL means malloc/free */
    void *(*alloc)(void *user, size_t bytes);
    void (*release)(void *user, void *block);
    void *user;
} Allocator;

/* Where to go when memory is out, and what was wanted then. */
typedef struct {
    jmp_buf jump;     /* armed by the entry point */
    size_t wanted;    /* bytes */
    const char *what; /* the tensor whose memory is being made, or NULL */
    char why[160];    /* not for want of memory but of this; "" */
} Oom;

/* A new arena. `oom` is where a failed allocation jumps to (never returns NULL from alloc);
 * with oom NULL the arena_new itself may return NULL and later failures jump nowhere, so only
 * tests pass NULL. Allocations are zeroed and aligned to 16 bytes. */
Arena *arena_new(const Allocator *allocator, Oom *oom);
/* A new one with the parent's allocator and jump, freed with the parent if not before: for scratch,
 * which then does not leak when memory runs out in the middle. */
Arena *arena_child(Arena *parent);
void arena_free(Arena *a); /* runs closers newest first, then frees */
void *arena_alloc(Arena *a, size_t bytes);
void *arena_copy(Arena *a, const void *from, size_t bytes);
char *arena_str(Arena *a, const char *s);
char *arena_printf(Arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* what is not memory; closed at once if this fails */
void arena_closer(Arena *a, void (*close)(void *), void *what);
size_t arena_bytes(const Arena *a); /* bytes handed out so far */
/* from malloc: neither bounded nor somebody's, so that threads may have such too */
bool arena_is_plain(const Arena *a);

/* Who may end a computation before it is done: a clock, or somebody who asks. Memory being handed
 * out is the occasion to look, for everything that works on a user's model takes memory; loops that
 * do not call arena_poll. When it is over the arena jumps as if memory had run out, `over` telling
 * why. */
typedef enum { WATCH_GOES_ON, WATCH_TIME, WATCH_STOPPED } WatchEnd;
typedef struct {
    double until;                /* by time_seconds(); 0: no end */
    bool (*stopped)(void *user); /* NULL: nobody asks */
    void *user;
    /* a static name, for the message; done of total, 0 of 0 if not counted */
    const char *doing;
    uint32_t done, total;
    WatchEnd over;
    uint32_t ticks;
} Watch;
void arena_watch(Arena *a, Watch *w); /* and every arena made of it from now on */
/* by whom, for an arena of another thread; nobody: all 0 */
Watch arena_watched(const Arena *a);
void arena_doing(Arena *a, const char *what, uint32_t done, uint32_t total);
void arena_poll(Arena *a); /* cheap: looks now and then */
void arena_look(Arena *a); /* looks */
/* milliseconds to wait for something before the next look; -1: any */
int arena_patience(const Arena *a);

#define NEW(arena, T) ((T *)arena_alloc((arena), sizeof(T)))
#define NEW_ARRAY(arena, T, n) ((T *)arena_alloc_array((arena), (size_t)(n), sizeof(T)))
/* overflow counts as out of memory */
void *arena_alloc_array(Arena *a, size_t n, size_t size);

/* ---- growable array over an arena:  VEC(int) v = {0};  VEC_PUSH(arena, &v, 3);  v.at[i], v.n */

#define VEC(T)                                                                                     \
    struct {                                                                                       \
        T *at;                                                                                     \
        uint32_t n, cap;                                                                           \
    }
#define VEC_PUSH(arena, v, item)                                                                   \
    do {                                                                                           \
        if ((v)->n == (v)->cap)                                                                    \
            (v)->at = vec_grow((arena), (v)->at, &(v)->cap, sizeof *(v)->at);                      \
        (v)->at[(v)->n++] = (item);                                                                \
    } while (0)
void *vec_grow(Arena *a, void *at, uint32_t *cap, size_t size); /* doubles; contents kept */
/* Room for `count` items at once, where it is known that they come: growing leaves as much again
 * behind in the arena. */
#define VEC_RESERVE(arena, v, count)                                                               \
    ((v)->at = vec_reserve((arena), (v)->at, &(v)->cap, (count), sizeof *(v)->at))
void *vec_reserve(Arena *a, void *at, uint32_t *cap, uint32_t count, size_t size);

/* ---- hash map from 64-bit keys to 64-bit values, over an arena; {0} plus arena is empty ---- */

typedef struct {
    uint64_t key, value;
    bool used;
} MapEntry;
typedef struct {
    Arena *arena;
    MapEntry *at;
    uint32_t n, cap;
} Map;
bool map_get(const Map *m, uint64_t key, uint64_t *value); /* value may be NULL */
void map_put(Map *m, uint64_t key, uint64_t value);
/* of an empty one: room for so many keys */
void map_reserve(Map *m, uint32_t count);
#define MAP_PTR(p) ((uint64_t)(uintptr_t)(p))

uint64_t hash_bytes(const void *data, size_t n, uint64_t seed); /* xxHash64 */

/* ---- text buffer over an arena ------------------------------------------------------------ */

typedef struct {
    Arena *arena;
    char *s;
    size_t n, cap;
} Text; /* s is 0-terminated once used */
void text_add(Text *t, const char *s);
void text_bytes(Text *t, const char *s, size_t n);
void text_printf(Text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_vprintf(Text *t, const char *format, va_list args);
/* A sentence with {at}, {got} and {want} in it, of these numbers. */
void text_numbers(Text *t, const char *sentence, int64_t at, int64_t got, int64_t want);
const char *text_str(const Text *t); /* "" when empty */
/* 48 B, 12.0 KB, 97.5 MB: powers of 1024 */
void text_size(Text *t, int64_t bytes);
void text_json(Text *t, const char *s); /* quoted, as JSON reads it */
void text_seconds(Text *t, double s);   /* 12.3 us, 1.27 ms, 4.5 s */
void text_indent(Text *t, int depth);   /* two spaces per level */

/* ---- diagnostics --------------------------------------------------------------------------- */

/* The classes are the exit codes of the `tenon` command and the TnStatus of the C API. */
typedef enum {
    DIAG_OK = 0,
    DIAG_USAGE = 2,       /* an option, an input's name, type, rank or size */
    DIAG_MODEL = 3,       /* the model is malformed */
    DIAG_UNSUPPORTED = 4, /* the model is fine, Tenon cannot do it */
    DIAG_LIMIT = 5,       /* a named resource limit, memory, disk */
    DIAG_TOOLCHAIN = 6,   /* the system's compiler is missing or failed */
    DIAG_INTERNAL = 7,    /* a broken promise of Tenon's own */
} DiagClass;

typedef struct { /* where the user wrote it; zero fields are unknown */
    const char *file;
    uint32_t line, col; /* text inputs; 1-based */
    const char *node;   /* `node 41 "layer1.0/Conv"`, ready to print */
} Loc;

typedef struct {
    DiagClass class;
    bool note;
    Loc loc;
    const char *text;
} Diag;

typedef struct {
    Arena *arena; /* the context's */
    VEC(Diag) list;
    DiagClass worst; /* class of the first error, DIAG_OK if none */
} Diags;

/* Report once, where the fact is known; returns false so that `return diag_error(…)` reads well.
 * The text says what is wrong, with the numbers, then what to do. No newline at its end. */
bool diag_error(Diags *d, DiagClass class, Loc loc, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void diag_note(Diags *d, Loc loc, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* "file:line:col: error: text" or "file: node …: error: text" */
void diag_print(Text *out, const Diag *d);

/* ---- context ------------------------------------------------------------------------------- */

typedef const char *Sym; /* an interned string: equality is pointer equality */

/* One compilation's world. Each noun keeps its table here and makes it when first used. */
typedef struct Ctx {
    Arena *arena; /* context lifetime */
    Diags diags;
    Oom oom;
    uint32_t max_depth; /* named limit; 0: DEPTH_DEFAULT */
    /* infinities and NaNs behind a mask count: nothing is left out (nest/support.h) */
    bool exact;
    double density; /* the share that masks of a run leave; 0: not known */
    struct SymTable *syms;
    struct ExprTable *exprs;
    struct TypeTable *types;
    struct ScalarTable *scalars;
    struct Library *library; /* of the user's, with operators in it; NULL: none */
} Ctx;

void ctx_init(Ctx *c, Arena *arena);
Sym sym(Ctx *c, const char *s);
Sym sym_n(Ctx *c, const char *s, size_t n);
Sym sym_printf(Ctx *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* How deep a model may be nested, so that what follows it may recurse. A level is a message of an
 * ONNX file, a graph inside another, a call of a function inside one, a parenthesis or a block of a
 * text. A level is worth DEPTH_OPERATIONS operations of one value or one size, each on the result
 * of the one before; compiling may join two such. A compilation within the default needs less than
 * 8 MB of stack. */
enum { DEPTH_DEFAULT = 200, DEPTH_MOST = 1000, DEPTH_OPERATIONS = 5 };
uint32_t depth_levels(const Ctx *c);
uint32_t depth_operations(const Ctx *c);
/* Ends the computation as if memory were out, unless so many operations are few enough. `what`: "a
 * value". */
void depth_check(Ctx *c, const char *what, uint32_t operations);

/* ---- files ---------------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *data;
    size_t bytes;
} Bytes;

/* Map a file read-only until the arena goes. Errors: missing, unreadable, a folder. */
bool file_map(Arena *a, Diags *d, const char *path, Bytes *out);
/* Give the pages of a mapped file back (they are read again when touched). */
void file_forget(Bytes b);

/* Written beside its final place, then renamed, so that no half output is ever seen.
 *   Writer *w = writer_open(…); writer_put(…)…; writer_commit(w)
 * Errors are kept and reported by commit; a writer that is not committed leaves nothing. */
typedef struct Writer Writer;
Writer *writer_open(Arena *a, Diags *d, const char *path); /* NULL, reported, on failure */
void writer_put(Writer *w, const void *data, size_t bytes);
void writer_align(Writer *w, size_t alignment); /* zero bytes up to a multiple */
/* Zero bytes, as room that several threads may write into, in any order; where they begin. Large
 * room lies in huge pages of the system's cache, where its files may: who maps the file soon after
 * has them too. */
uint64_t writer_room(Writer *w, uint64_t bytes);
void writer_put_at(Writer *w, uint64_t offset, const void *data, size_t bytes);
uint64_t writer_offset(const Writer *w);
const char *writer_path(const Writer *w); /* the temporary file */
bool writer_commit(Writer *w, int mode);  /* file mode, 0644 or 0755 */

/* Remove the temporary files in a folder whose writers were killed. */
void writer_sweep(const char *folder);

/* A folder of this process alone, PARENT/PREFIXxxxxxx, for plain files. It goes with private_close,
 * with the arena at the latest, and with the next private_folder or private_sweep of that prefix if
 * the process was killed. NULL: errno says why. */
typedef struct Private Private;
Private *private_folder(Arena *a, const char *parent, const char *prefix);
const char *private_path(const Private *p);
void private_close(Private *p);
void private_sweep(const char *parent, const char *prefix);

bool file_exists(const char *path);
bool folder_make(Diags *d, const char *path); /* with parents */
const char *path_join(Arena *a, const char *folder, const char *name);
const char *path_folder(Arena *a, const char *path); /* "." when none */
const char *path_name(const char *path);             /* after the last slash */

/* ---- time and machine, as the process may use it --------------------------------------------- */

/* A huge page of processors whose pages have 4 KB; HUGE_FROM holds one wherever it begins.
 * [bytes] */
enum { HUGE_PAGE = 2 << 20, HUGE_FROM = 2 * HUGE_PAGE };
/* A block just got from the system, of memory or of a file, or NULL: in huge pages, if it is large
 * and there are some. What goes through a large tensor in columns is in another page every time.
 * Returns it. */
void *huge_pages(void *block, size_t bytes);
double time_seconds(void); /* monotonic */
/* of the machine [bytes]; INT64_MAX where it does not say */
int64_t memory_size(void);
int cpu_count(void); /* at least 1: the smallest of online, affinity mask, cgroup quota */

/* ---- checked arithmetic ---------------------------------------------------------------------- */

static inline bool
mul_overflows(int64_t a, int64_t b, int64_t *r)
{
    return __builtin_mul_overflow(a, b, r);
}
static inline bool
add_overflows(int64_t a, int64_t b, int64_t *r)
{
    return __builtin_add_overflow(a, b, r);
}
static inline int64_t
floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int64_t
floor_mod(int64_t a, int64_t b)
{
    return a - floor_div(a, b) * b;
}

#endif
