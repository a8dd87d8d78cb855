/* diag: messages of what went wrong, where, and what to do, kept in order until they are
 * printed. */
#include "base/base.h"

/* The location is copied: it often points into a model or a buffer that is freed before the
 * message. */
static void
add(Diags *d, DiagClass class, bool note, Loc loc, const char *text)
{
    if (loc.file)
        loc.file = arena_str(d->arena, loc.file);
    if (loc.node)
        loc.node = arena_str(d->arena, loc.node);
    Diag diag = { class, note, loc, text };
    VEC_PUSH(d->arena, &d->list, diag);
}

bool
diag_verror(Diags *d, DiagClass class, Loc loc, const char *format, va_list args)
{
    add(d, class, false, loc, arena_vprintf(d->arena, format, args));
    if (d->worst == DIAG_OK)
        d->worst = class;
    return false;
}

bool
diag_error(Diags *d, DiagClass class, Loc loc, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    diag_verror(d, class, loc, format, args);
    va_end(args);
    return false;
}

bool
diag_usage(Diags *d, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    diag_verror(d, DIAG_USAGE, (Loc){ 0 }, format, args);
    va_end(args);
    return false;
}

void
diag_note(Diags *d, Loc loc, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = arena_vprintf(d->arena, format, args);
    va_end(args);
    add(d, DIAG_OK, true, loc, text);
}

void
diag_print(Text *out, const Diag *d)
{
    if (d->loc.file) {
        text_add(out, d->loc.file);
        if (d->loc.line)
            text_printf(out, ":%u", d->loc.line);
        if (d->loc.line && d->loc.col)
            text_printf(out, ":%u", d->loc.col);
        text_add(out, ": ");
    }
    if (d->loc.node)
        text_printf(out, "%s: ", d->loc.node);
    text_add(out, d->note ? "note: " : "error: ");
    text_add(out, d->text);
}
