/* base: the foundation of every room; it knows nothing of compilers.
 *
 * Arenas (memory by lifetime), interned names, growable arrays, hash maps, text buffers,
 * diagnostics, files, hashing. Nothing is global: every function takes a Ctx or an Arena.
 *
 * Memory has three lifetimes (context, model, scratch), each an Arena. Nothing inside an arena is
 * freed alone. Out of memory is the one use of longjmp: from the arena to the entry point that
 * armed it, which frees its arenas and reports TN_NOMEM.
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

/* Where to jump when memory runs out, and what was requested. */
typedef struct {
    jmp_buf jump;     /* armed by the entry point */
    size_t wanted;    /* bytes */
    const char *what; /* the tensor whose memory is being made, or NULL */
    char why[160];    /* the reason, if it is another than memory; "" */
} Oom;

/* A new arena. `oom` is where a failed allocation jumps to (never returns NULL from alloc);
 * with oom NULL the arena_new itself may return NULL and later failures jump nowhere, so only
 * tests pass NULL. Allocations are zeroed and aligned to 16 bytes. */
Arena *arena_new(const Allocator *allocator, Oom *oom);
/* A new arena with the parent's allocator and jump, freed with the parent at the latest: for
 * scratch, which does not leak if memory runs out. */
Arena *arena_child(Arena *parent);
void arena_free(Arena *a); /* runs closers newest first, then frees */
/* Does `p` lie in memory of this arena, its children apart? */
bool arena_holds(const Arena *a, const void *p);
void *arena_alloc(Arena *a, size_t bytes);
void *arena_copy(Arena *a, const void *from, size_t bytes);
char *arena_str(Arena *a, const char *s);
char *arena_printf(Arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *a, const char *format, va_list args);
/* registers a resource other than memory; closed at once if this fails */
void arena_closer(Arena *a, void (*close)(void *), void *what);
size_t arena_bytes(const Arena *a); /* bytes handed out so far */
/* Does it use malloc, without a bound or a caller's allocator? Threads may then make arenas of
 * their own. */
bool arena_is_plain(const Arena *a);

/* Ends a computation early: by a clock, or by a caller who asks. The check runs when memory is
 * handed out, since all work on a model takes memory; loops that take none call arena_poll. At the
 * end the arena jumps as if memory had run out, and `over` tells why. */
typedef enum { WATCH_GOES_ON, WATCH_TIME, WATCH_STOPPED } WatchEnd;
typedef struct {
    double until;                /* by time_seconds(); 0: no end */
    bool (*stopped)(void *user); /* NULL: never */
    void *user;
    /* a static name, for the message; done of total, 0 of 0 if not counted */
    const char *doing;
    uint32_t done, total;
    WatchEnd over;
    bool told; /* `stopped` answered a thread: the next look ends the computation */
    uint32_t ticks;
} Watch;
void arena_watch(Arena *a, Watch *w); /* for this arena and every arena made of it from now on */
/* the watch, for an arena of another thread; all 0: none */
Watch arena_watched(const Arena *a);
void arena_doing(Arena *a, const char *what, uint32_t done, uint32_t total);
void arena_told(const Arena *a); /* `stopped` was true; it need not be true when asked again */
void arena_poll(Arena *a);       /* cheap: checks now and then */
void arena_look(Arena *a);       /* checks now */
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
/* Room for `count` items at once: growing step by step leaves twice as much in the arena. */
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
/* of an empty map: room for this many keys */
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
/* A sentence with {at}, {got} and {want} replaced by these numbers. */
void text_numbers(Text *t, const char *sentence, int64_t at, int64_t got, int64_t want);
const char *text_str(const Text *t); /* "" when empty */
/* "1 kernel", "2 kernels" */
void text_count(Text *t, uint64_t n, const char *what);
/* 48 B, 12.0 KB, 97.5 MB: powers of 1024 */
void text_size(Text *t, int64_t bytes);
void text_json(Text *t, const char *s); /* quoted, as JSON reads it; U+FFFD for invalid UTF-8 */
/* `BEFORE"name": "value"`, as JSON; NULL: nothing */
void text_member(Text *t, const char *before, const char *name, const char *value);
void text_comment(Text *t, const char *s); /* inside a C comment: on its line, and never its end */
void text_seconds(Text *t, double s);      /* four digits: 12.34 us, 1.273 ms, 4.5 s */
void text_indent(Text *t, int depth);      /* two spaces per level */

/* ---- diagnostics --------------------------------------------------------------------------- */

/* The classes are the exit codes of the `tenon` command and the TnStatus of the C API. */
typedef enum {
    DIAG_OK = 0,
    DIAG_USAGE = 2,       /* an option, an input's name, type, rank or size */
    DIAG_MODEL = 3,       /* the model is malformed */
    DIAG_UNSUPPORTED = 4, /* the model is fine, Tenon cannot do it */
    DIAG_LIMIT = 5,       /* a named resource limit, memory, disk */
    DIAG_TOOLCHAIN = 6,   /* the system's compiler is missing or failed */
    DIAG_INTERNAL = 7,    /* Tenon breaks its own promise */
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
bool diag_verror(Diags *d, DiagClass class, Loc loc, const char *format, va_list args);
/* The same for what a caller or an option says: DIAG_USAGE, at no place. */
bool diag_usage(Diags *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
void diag_note(Diags *d, Loc loc, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* "file:line:col: error: text" or "file: node …: error: text" */
void diag_print(Text *out, const Diag *d);

/* ---- context ------------------------------------------------------------------------------- */

typedef const char *Sym; /* an interned string: equality is pointer equality */

/* One compilation. Each noun keeps its table here and creates it on first use. */
typedef struct Ctx {
    Arena *arena; /* context lifetime */
    Diags diags;
    Oom oom;
    uint32_t max_depth; /* named limit; 0: DEPTH_DEFAULT */
    /* infinities and NaNs behind a mask count: nothing is skipped (kernel/support.h) */
    bool exact;
    double density; /* the share of work that masks known only at run time leave; 0: unknown */
    struct SymTable *syms;
    struct ExprTable *exprs;
    struct TypeTable *types;
    struct ScalarTable *scalars;
    struct Library *library; /* the user's library of operators; NULL: none */
} Ctx;

void ctx_init(Ctx *c, Arena *arena);
Sym sym(Ctx *c, const char *s);
Sym sym_n(Ctx *c, const char *s, size_t n);
Sym sym_printf(Ctx *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The limit of nesting of a model, so that recursion over it is safe. A level is a message of an
 * ONNX file, a graph inside another, a call of a function inside one, a parenthesis or a block of a
 * text. A level may hold a chain of DEPTH_OPERATIONS operations of one value or size; compiling may
 * join two such chains. A compilation within the default needs less than 8 MB of stack. */
enum { DEPTH_DEFAULT = 200, DEPTH_MOST = 1000, DEPTH_OPERATIONS = 5 };
uint32_t depth_levels(const Ctx *c);
uint32_t depth_operations(const Ctx *c);
/* Ends the computation as if memory had run out if `operations` exceed the limit. `what`: "a
 * value". */
void depth_check(Ctx *c, const char *what, uint32_t operations);

/* ---- files ---------------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *data;
    size_t bytes;
} Bytes;

/* Map a file read-only for the arena's lifetime. Errors: missing, unreadable, a folder. */
bool file_map(Arena *a, Diags *d, const char *path, Bytes *out);
/* Give the pages of a mapped file back (they are read again when touched). */
void file_forget(Bytes b);

/* A file written under a temporary name and renamed at the end, so that no incomplete output is
 * ever visible.
 *   Writer *w = writer_open(…); writer_put(…)…; writer_commit(w)
 * Errors are kept and reported by commit; a writer that is not committed leaves nothing.
 */
typedef struct Writer Writer;
Writer *writer_open(Arena *a, Diags *d, const char *path); /* NULL, reported, on failure */
void writer_put(Writer *w, const void *data, size_t bytes);
void writer_align(Writer *w, size_t alignment); /* zero bytes up to a multiple */
/* Zero bytes that several threads may fill, in any order; returns their offset. Large ranges are in
 * huge pages of the system's cache, if the file system has them, and so for a process that maps the
 * file soon after. */
uint64_t writer_room(Writer *w, uint64_t bytes);
void writer_put_at(Writer *w, uint64_t offset, const void *data, size_t bytes);
uint64_t writer_offset(const Writer *w);
const char *writer_path(const Writer *w); /* the temporary file */
bool writer_commit(Writer *w, int mode);  /* file mode, 0644 or 0755 */

/* Remove the temporary files in a folder whose writers were killed. */
void writer_sweep(const char *folder);

/* A folder of this process alone, PARENT/PREFIXxxxxxx, for plain files. It is removed by
 * private_close, with the arena at the latest; if the process is killed, by the next private_folder
 * or private_sweep of that prefix. NULL: errno says why. */
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

/* A huge page of processors whose pages have 4 KB; HUGE_FROM bytes contain one wherever they begin.
 * [bytes] */
enum { HUGE_PAGE = 2 << 20, HUGE_FROM = 2 * HUGE_PAGE };
/* Requests huge pages for a block just obtained from the system, of memory or of a file, or NULL,
 * if it is large. Column accesses to a large tensor otherwise miss the TLB each time. Returns the
 * block. */
void *huge_pages(void *block, size_t bytes);
double time_seconds(void); /* monotonic */
/* the smaller of the machine's and the control groups' [bytes]; INT64_MAX if unknown */
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
