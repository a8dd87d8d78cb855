/* segment: adds a segment to a linked library, so that weights are mapped with the code.
 *
 * Weights do not go through the linker: it would copy hundreds of megabytes, hold them in memory
 * and fail above 2 GB. The library is linked without them and gets a segment afterwards:
 *
 *   - There is no room for another program header, since sections follow the table immediately.
 *     The host program contains a note (emit/host_c.c), whose program header is replaced by the
 *     segment's. The note itself stays.
 *   - The segment's address is the first free one after the others that is congruent to its offset
 *     in the file, so that no padding to a page is needed: modulo the size of a huge page if the
 *     segment is that large, so that the file's huge pages are huge in memory, and all processes
 *     share them.
 *   - The note's word becomes the distance from itself to the weights: the code finds them by an
 *     addition, whatever the address of the library.
 *   - A section header covers the segment, since strip and similar tools drop what no section
 *     contains. The section table moves after the segment.
 */
#include "driver/internal.h"

#include "run/run.h"

#include <elf.h>
#include <string.h>

#define NOTE_SECTION ".note.tenon"
/* the note: three numbers, "Tenon" in eight bytes, the word */
enum { ALIGN = 64, WORD_AT = 20 };

typedef struct {
    Job *j;
    uint8_t *data; /* a copy of the library */
    size_t bytes;
    Elf64_Ehdr *header;
    Elf64_Phdr *segment;
    Elf64_Shdr *section;
    const char *names;
    Elf64_Shdr *note;
} Elf;

static bool
fail(const Elf *e, const char *why)
{
    return diag_error(&e->j->ctx->diags, DIAG_TOOLCHAIN, (Loc){ .file = e->j->out_path },
                      "the linked library cannot take weights: %s. Use another linker (--cc \"gcc "
                      "-fuse-ld=bfd\"), or --emit c",
                      why);
}

static bool
has(const Elf *e, uint64_t offset, uint64_t bytes)
{
    return offset <= e->bytes && bytes <= e->bytes - offset;
}

static bool
take_apart(Elf *e)
{
    Elf64_Ehdr *h = e->header = (Elf64_Ehdr *)e->data;

    if (!has(e, 0, sizeof *h) || memcmp(h->e_ident, ELFMAG, SELFMAG) ||
        h->e_ident[EI_CLASS] != ELFCLASS64)
        return fail(e, "it is not a 64-bit ELF file");
    if (h->e_phentsize != sizeof *e->segment || h->e_shentsize != sizeof *e->section ||
        h->e_shstrndx >= h->e_shnum || h->e_phoff % 8 || h->e_shoff % 8 ||
        !has(e, h->e_phoff, h->e_phnum * sizeof *e->segment) ||
        !has(e, h->e_shoff, h->e_shnum * sizeof *e->section))
        return fail(e, "its tables are not as expected");
    e->segment = (Elf64_Phdr *)(e->data + h->e_phoff);
    e->section = (Elf64_Shdr *)(e->data + h->e_shoff);
    const Elf64_Shdr *names = &e->section[h->e_shstrndx];
    if (!names->sh_size || !has(e, names->sh_offset, names->sh_size) ||
        e->data[names->sh_offset + names->sh_size - 1])
        return fail(e, "its sections have no names");
    e->names = (const char *)e->data + names->sh_offset;
    for (int i = 0; i < h->e_shnum; i++)
        if (e->section[i].sh_name < names->sh_size &&
            !strcmp(e->names + e->section[i].sh_name, NOTE_SECTION))
            e->note = &e->section[i];
    return (e->note && has(e, e->note->sh_offset, WORD_AT + sizeof(int64_t))) ||
           fail(e, "it has no section " NOTE_SECTION);
}

/* The note's header, moved after the last PT_LOAD header, since their addresses must increase. */
static Elf64_Phdr *
spare_header(const Elf *e)
{
    int n = e->header->e_phnum, from = -1, last = -1;

    for (int i = 0; i < n; i++) {
        const Elf64_Phdr *p = &e->segment[i];
        if (p->p_type == PT_LOAD)
            last = i;
        if (p->p_type == PT_NOTE && e->note->sh_offset >= p->p_offset &&
            e->note->sh_offset < p->p_offset + p->p_filesz)
            from = i;
    }
    if (from < 0)
        return NULL;
    int to = from < last ? last : last + 1;
    if (from < to)
        memmove(&e->segment[from], &e->segment[from + 1], (size_t)(to - from) * sizeof *e->segment);
    else
        memmove(&e->segment[to + 1], &e->segment[to], (size_t)(from - to) * sizeof *e->segment);
    return &e->segment[to];
}

/* The first address after all segments that is congruent to `offset`, for that many bytes. */
static uint64_t
free_address(const Elf *e, uint64_t offset, uint64_t bytes, uint64_t *align)
{
    uint64_t end = 0;

    *align = bytes < HUGE_FROM ? 4096 : HUGE_PAGE;
    for (int i = 0; i < e->header->e_phnum; i++) {
        const Elf64_Phdr *p = &e->segment[i];
        if (p->p_type != PT_LOAD)
            continue;
        if (p->p_vaddr + p->p_memsz > end)
            end = p->p_vaddr + p->p_memsz;
        if (p->p_align > *align)
            *align = p->p_align;
    }
    return (end + *align - 1) / *align * *align + offset % *align;
}

/* The section table with one entry more, and the names before it, as bytes from `offset` of the
 * file on. */
static Bytes
tables(const Elf *e, uint64_t offset, Elf64_Shdr extra)
{
    Arena *a = e->j->arena;
    const Elf64_Ehdr *h = e->header;
    uint64_t old_names = e->section[h->e_shstrndx].sh_size,
             names = old_names + sizeof ARTEFACT_SECTION;
    uint64_t table = (offset + names + 7) / 8 * 8 - offset,
             bytes = table + (h->e_shnum + 1u) * sizeof extra;
    uint8_t *to = arena_alloc(a, bytes);
    Elf64_Shdr *section = arena_alloc(a, (h->e_shnum + 1u) * sizeof extra);

    memcpy(to, e->names, old_names);
    memcpy(to + old_names, ARTEFACT_SECTION, sizeof ARTEFACT_SECTION);
    memcpy(section, e->section, h->e_shnum * sizeof extra);
    section[h->e_shstrndx].sh_offset = offset;
    section[h->e_shstrndx].sh_size = names;
    extra.sh_name = (Elf64_Word)old_names;
    section[h->e_shnum] = extra;
    memcpy(to + table, section, (h->e_shnum + 1u) * sizeof extra);
    return (Bytes){ to, bytes };
}

bool
segment_append(Job *j, Bytes linked, uint64_t head_bytes, uint64_t bytes, Bytes *before,
               Bytes *after)
{
    Elf e = { .j = j, .bytes = linked.bytes };
    uint64_t offset = (linked.bytes + ALIGN - 1) / ALIGN * ALIGN, align;

    e.data = arena_alloc(j->arena, offset);
    memcpy(e.data, linked.data, linked.bytes);
    if (!take_apart(&e))
        return false;
    uint64_t address = free_address(&e, offset, bytes, &align);
    Elf64_Phdr *p = spare_header(&e);
    if (!p)
        return fail(&e, "the note has no program header");
    *p = (Elf64_Phdr){ .p_type = PT_LOAD,
                       .p_flags = PF_R,
                       .p_offset = offset,
                       .p_vaddr = address,
                       .p_paddr = address,
                       .p_filesz = bytes,
                       .p_memsz = bytes,
                       .p_align = align };
    int64_t distance = (int64_t)(address + head_bytes - (e.note->sh_addr + WORD_AT));
    memcpy(e.data + e.note->sh_offset + WORD_AT, &distance, sizeof distance);
    *after = tables(&e, offset + bytes,
                    (Elf64_Shdr){ .sh_type = SHT_PROGBITS,
                                  .sh_flags = SHF_ALLOC,
                                  .sh_addr = address,
                                  .sh_offset = offset,
                                  .sh_size = bytes,
                                  .sh_addralign = ALIGN });
    e.header->e_shnum++;
    e.header->e_shoff = offset + bytes + after->bytes - e.header->e_shnum * sizeof(Elf64_Shdr);
    *before = (Bytes){ e.data, offset };
    return true;
}
