/* detect: what the system says of the running processor without measuring. Only `tenon machine`
 * uses it; compiled code depends on none of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/machine.h"

/* A word of the first processor's cache number `index`. */
static bool
read_word(int index, const char *file, char word[32])
{
    char path[128];

    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, file);
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    bool ok = fscanf(f, "%31s", word) == 1;
    fclose(f);
    return ok;
}

/* The system's sizes replace the row's, level by level. A level that it does not list does not
 * exist, unless it lists none at all. */
static void
detect_caches(Machine *m)
{
    int64_t found[LEVEL_MEMORY] = { 0 };
    char level[32], type[32], size[32];

    for (int i = 0; i < 8; i++) {
        if (!read_word(i, "level", level) || !read_word(i, "type", type) ||
            !read_word(i, "size", size) || strcmp(type, "Instruction") == 0)
            continue;
        char *unit;
        int64_t bytes = strtoll(size, &unit, 10);
        bytes *= *unit == 'K' ? 1 << 10 : *unit == 'M' ? 1 << 20 : 1;
        int l = atoi(level) - 1;
        if (l >= LEVEL_L1 && l < LEVEL_MEMORY && bytes > 0)
            found[l] = bytes;
        if (l == LEVEL_L1 && read_word(i, "coherency_line_size", size) && atoi(size) > 0)
            m->line_bytes = (uint32_t)atoi(size);
    }
    for (int l = LEVEL_L1; l < LEVEL_MEMORY && found[LEVEL_L1]; l++)
        m->level[l].bytes = found[l];
}

static const char *
detect_processor(Arena *a)
{
    char line[256], *name = NULL;
    FILE *f = fopen("/proc/cpuinfo", "r");

    while (f && !name && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10) && (name = strchr(line, ':')))
            name += 1 + strspn(name + 1, " ");
    if (f)
        fclose(f);
    if (!name)
        return "an unnamed processor";
    name[strcspn(name, "\n\"")] = 0;
    return arena_str(a, name);
}

void
machine_detect(Arena *a, Machine *m)
{
    m->cores = (uint32_t)cpu_count();
    m->processor = detect_processor(a);
    detect_caches(m);
}
