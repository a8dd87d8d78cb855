/* reservation: growing memory whose beginning several reservations may share.
 *
 * Shared pages are in an anonymous file. Each reservation maps it privately, so a page is in memory
 * once until someone writes to it and gets a copy: kernels use a reservation like any memory. A
 * reservation is shared by writing whole pages of it to the file, which never changes again, and
 * mapping them from there; later sharers map the same pages. If the system has no such files, or no
 * more of them, the pages are copied.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "run/internal.h"

enum {
    ALIGN = 64,
    /* less is copied: a system has 65,530 mappings for a process [bytes] */
    SHARED_FROM = 64 << 10,
};

static int64_t
page_size(void)
{
    long n = sysconf(_SC_PAGESIZE);
    return n > 0 ? n : 4096;
}

/* ---- what is shared -------------------------------------------------------------------------- */

Pages *
pages_new(void)
{
#ifdef MFD_CLOEXEC
    int fd = memfd_create("tenon", MFD_CLOEXEC);
    Pages *p = fd < 0 ? NULL : malloc(sizeof *p);

    if (p)
        *p = (Pages){ .users = 1, .fd = fd };
    else if (fd >= 0)
        close(fd);
    return p;
#else
    return NULL;
#endif
}

void
pages_leave(Pages *p)
{
    if (!p || atomic_fetch_sub(&p->users, 1) > 1)
        return;
    close(p->fd); /* the mappings keep its pages */
    free(p);
}

static bool
pages_append(Pages *p, const char *from, int64_t bytes)
{
    for (int64_t done = 0, n; done < bytes; done += n) {
        n = pwrite(p->fd, from + done, (size_t)(bytes - done), p->bytes + done);
        if (n <= 0)
            return false;
    }
    p->bytes += bytes;
    return true;
}

/* ---- reservations ---------------------------------------------------------------------------- */

/* The end of shared part i. */
static int64_t
part_end(const Reservation *r, int i)
{
    return i + 1 < r->parts ? r->part[i + 1].begin : r->shared;
}

/* From here on its contents differ from when it was shared. */
static void
unshare(Reservation *r, int64_t stay)
{
    if (stay < r->shared)
        r->shared = stay / page_size() * page_size();
    while (r->parts && r->part[r->parts - 1].begin >= r->shared)
        pages_leave(r->part[--r->parts].pages);
}

void
reservation_free(Reservation *r)
{
    unshare(r, 0);
    if (r->mapped)
        munmap(r->at, (size_t)r->bytes);
    else
        free(r->at);
    *r = (Reservation){ 0 };
}

/* An empty reservation. */
static bool
reservation_new(Reservation *r, int64_t bytes, bool mapped)
{
    int64_t least = bytes ? bytes : 1, unit = mapped ? page_size() : ALIGN;
    size_t size = (size_t)((least + unit - 1) / unit * unit);

    if (!mapped) {
        *r = (Reservation){ .at = aligned_alloc(ALIGN, size), .bytes = (int64_t)size };
        return r->at;
    }
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return false;
    *r = (Reservation){ .at = huge_pages(at, size), .bytes = (int64_t)size, .mapped = true };
    return true;
}

/* Map what `from` shares at the beginning of the new reservation r. */
static bool
map_parts(Reservation *r, const Reservation *from)
{
    for (int i = 0; i < from->parts; i++) {
        const SharedPart *p = &from->part[i];
        int64_t end = part_end(from, i);
        if (mmap(r->at + p->begin, (size_t)(end - p->begin), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_FIXED, p->pages->fd, p->offset) == MAP_FAILED)
            return false;
        atomic_fetch_add(&p->pages->users, 1);
        r->part[r->parts++] = *p;
        r->shared = end;
    }
    return true;
}

/* A reservation of `bytes` that begins with the first `used` of `from`. */
static bool
reservation_like(Reservation *r, const Reservation *from, int64_t used, int64_t bytes)
{
    bool large = bytes >= HUGE_FROM; /* mapped, in huge pages if there are any */

    if (!reservation_new(r, bytes, large || from->parts))
        return false;
    if (!map_parts(r, from)) { /* after a failure there may be no memory left */
        reservation_free(r);
        if (!reservation_new(r, bytes, large))
            return false;
    }
    if (used > r->shared)
        memcpy(r->at + r->shared, from->at + r->shared, (size_t)(used - r->shared));
    return true;
}

bool
reservation_grow(Reservation *r, int64_t stay, int64_t bytes)
{
    Reservation more;

    unshare(r, stay);
    if (r->at && r->bytes >= bytes)
        return true;
    if (bytes > INT64_MAX / 4 || !reservation_like(&more, r, stay, bytes))
        return false;
    reservation_free(r);
    *r = more;
    return true;
}

/* The whole pages of r that it does not share yet go to the file. */
static void
put_into(Pages *p, Reservation *r, int64_t used)
{
    int64_t end = used / page_size() * page_size();
    Reservation there;

    if (!p || r->parts == SHARED_PARTS || end - r->shared < SHARED_FROM)
        return;
    SharedPart part = { p, p->bytes, r->shared };
    if (!pages_append(p, r->at + r->shared, end - r->shared))
        return;
    atomic_fetch_add(&p->users, 1);
    r->part[r->parts++] = part;
    r->shared = end;
    /* its own pages are replaced by those of the file */
    if (reservation_like(&there, r, used, r->bytes)) {
        reservation_free(r);
        *r = there;
    }
}

bool
reservation_share(Reservation *to, Reservation *from, int64_t used, int64_t bytes, Pages *pages)
{
    unshare(from, used);
    put_into(pages, from, used);
    return reservation_like(to, from, used, bytes);
}
