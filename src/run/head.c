/* head: what an artefact is, read from the file before the system's loader sees it.
 *
 * The loader maps a library and runs its constructors before one can ask it for a version, so
 * version, completeness and weights are read with pread: the ELF header, the program headers, and
 * the first bytes of each loaded segment, until one is a head. A dozen small reads, however large
 * the model.
 */
#include <elf.h>
#include <string.h>
#include <unistd.h>

#include "run/internal.h"

enum { MOST_SEGMENTS = 64 };

_Static_assert(sizeof(ArtefactHead) == 64, "the weights follow at a multiple of 64");

typedef struct {
    Diags *diags;
    Loc loc;
    int fd;
    uint64_t bytes;
} File;

static bool
read_at(const File *f, uint64_t offset, void *to, size_t n)
{
    return offset <= f->bytes && n <= f->bytes - offset &&
           pread(f->fd, to, n, (off_t)offset) == (ssize_t)n;
}

static bool
is_inside(const File *f, uint64_t offset, uint64_t bytes)
{
    return offset <= f->bytes && bytes <= f->bytes - offset;
}

static bool
refuse_cut(const File *f, uint64_t offset, uint64_t bytes)
{
    return diag_error(f->diags, DIAG_MODEL, f->loc,
                      "the file has %llu bytes, a part of %llu bytes at offset %llu lies outside "
                      "of it: it was truncated; copy or compile it again",
                      (unsigned long long)f->bytes, (unsigned long long)bytes,
                      (unsigned long long)offset);
}

/* Versions 1 and 2 kept their weights after the sections and described them in the last 64
 * bytes. */
static bool
has_trailer(const File *f)
{
    char magic[8];

    return f->bytes >= 64 && read_at(f, f->bytes - 64, magic, sizeof magic) &&
           !memcmp(magic, ARTEFACT_MAGIC, sizeof magic);
}

static const char *
processor_name(Arena *a, unsigned machine, unsigned bits)
{
    static const struct {
        unsigned machine;
        const char *name;
    } known[] = { { EM_X86_64, "x86-64" },  { EM_AARCH64, "AArch64" },    { EM_386, "32-bit x86" },
                  { EM_ARM, "32-bit Arm" }, { EM_RISCV, "RISC-V" },       { EM_PPC64, "POWER" },
                  { EM_S390, "IBM Z" },     { EM_LOONGARCH, "LoongArch" } };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].machine == machine)
            return known[i].name;
    return arena_printf(a, "a %u-bit processor, ELF machine %u", bits, machine);
}

/* Is the library for the processor that this code was compiled for? */
static bool
of_this_processor(const File *f, const Elf64_Ehdr *h)
{
    unsigned bits = h->e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;
#if defined __x86_64__
    const unsigned own = EM_X86_64;
#elif defined __aarch64__
    const unsigned own = EM_AARCH64;
#elif defined __riscv
    const unsigned own = EM_RISCV;
#else
    const unsigned own = h->e_machine; /* the system's loader looks */
#endif
    Arena *a = f->diags->arena;

    return h->e_machine == own ||
           diag_error(f->diags, DIAG_UNSUPPORTED, f->loc,
                      "the model was made for %s, this is %s; compile it with a --target of this "
                      "processor, `tenon compile --help` lists them",
                      processor_name(a, h->e_machine, bits), processor_name(a, own, 64));
}

static bool
read_header(const File *f, Elf64_Ehdr *h)
{
    uint16_t one = 1;
    bool little = *(uint8_t *)&one == 1;

    if (!read_at(f, 0, h, sizeof *h) || memcmp(h->e_ident, ELFMAG, SELFMAG))
        return diag_error(
            f->diags, DIAG_MODEL, f->loc,
            "the file of %llu bytes is not a compiled model; make one with `tenon compile`",
            (unsigned long long)f->bytes);
    if (h->e_ident[EI_DATA] == (little ? ELFDATA2LSB : ELFDATA2MSB) && !of_this_processor(f, h))
        return false;
    if (h->e_ident[EI_CLASS] != ELFCLASS64 ||
        h->e_ident[EI_DATA] != (little ? ELFDATA2LSB : ELFDATA2MSB) ||
        h->e_phentsize != sizeof(Elf64_Phdr) || h->e_phnum > MOST_SEGMENTS)
        return diag_error(f->diags, DIAG_MODEL, f->loc,
                          "the library is for another kind of machine than this one, or damaged; "
                          "compile the model for this machine");
    uint64_t sections = (uint64_t)h->e_shnum * h->e_shentsize;
    return is_inside(f, h->e_shoff, sections) || refuse_cut(f, h->e_shoff, sections);
}

static bool
is_head(const File *f, const Elf64_Phdr *p, ArtefactHead *out)
{
    return p->p_type == PT_LOAD && p->p_filesz >= sizeof *out &&
           read_at(f, p->p_offset, out, sizeof *out) &&
           !memcmp(out->magic, ARTEFACT_MAGIC, sizeof out->magic);
}

static bool
check_head(const File *f, const ArtefactHead *h, uint64_t segment_bytes)
{
    if (h->abi != TENON_ABI_VERSION)
        return diag_error(
            f->diags, DIAG_MODEL, f->loc,
            "the model was compiled for ABI version %u, this library runs version %d; %s", h->abi,
            TENON_ABI_VERSION,
            h->abi < TENON_ABI_VERSION ? "compile the model again"
                                       : "use a newer library, or compile the model with this one");
    uint64_t before = ((uint64_t)h->size + 63) & ~(uint64_t)63;
    return (h->size >= sizeof *h && before <= segment_bytes &&
            h->weights_bytes <= segment_bytes - before) ||
           diag_error(f->diags, DIAG_MODEL, f->loc,
                      "the weights, %llu bytes behind a head of %u, do not lie inside their "
                      "segment of %llu bytes: the file is damaged; copy or compile it again",
                      (unsigned long long)h->weights_bytes, h->size,
                      (unsigned long long)segment_bytes);
}

bool
head_read(Diags *d, Loc loc, int fd, uint64_t bytes, ArtefactHead *out, uint64_t *address)
{
    File f = { d, loc, fd, bytes };
    Elf64_Ehdr header;
    Elf64_Phdr segment[MOST_SEGMENTS];
    uint64_t found = 0;

    if (!read_header(&f, &header))
        return false;
    size_t table = header.e_phnum * sizeof *segment;
    if (!read_at(&f, header.e_phoff, segment, table))
        return refuse_cut(&f, header.e_phoff, table);
    for (int i = 0; i < header.e_phnum; i++)
        if (segment[i].p_type == PT_LOAD &&
            !is_inside(&f, segment[i].p_offset, segment[i].p_filesz))
            return refuse_cut(&f, segment[i].p_offset, segment[i].p_filesz);
    for (int i = 0; i < header.e_phnum && !found; i++)
        if (is_head(&f, &segment[i], out)) {
            found = segment[i].p_filesz;
            *address = segment[i].p_vaddr;
        }
    if (found)
        return check_head(&f, out, found);
    if (has_trailer(&f))
        return diag_error(d, DIAG_MODEL, loc,
                          "the model was compiled for ABI version 1 or 2, this library runs "
                          "version %d; compile the model again",
                          TENON_ABI_VERSION);
    return diag_error(
        d, DIAG_MODEL, loc,
        "the library of %llu bytes has no segment of a compiled model's: it is another library; "
        "make a compiled model with `tenon compile`",
        (unsigned long long)bytes);
}
