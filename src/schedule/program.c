/* program: the text of schedules, printed and parsed by the forms of verbs.def. */
#include "schedule/program.h"
#include "text/text.h"

#include <string.h>

const char *const verb_name[VERB_COUNT] = {
#define VERB(name, form, meaning) #name,
#include "schedule/verbs.def"
#undef VERB
};

static const char *const verb_form[VERB_COUNT] = {
#define VERB(name, form, meaning) form,
#include "schedule/verbs.def"
#undef VERB
};

const char *const word_name[WORD_COUNT] = {
#define WORD(name, meaning) #name,
#include "schedule/words.def"
#undef WORD
};

/* ---- forms ----------------------------------------------------------------------------------- */

/* A word of a form, and the number of earlier words of its kind. */
typedef struct {
    const char *at;
    char word[16];
    bool optional;
    uint32_t subjects, mades, numbers, words;
} FormWord;

static bool
form_next(FormWord *f)
{
    uint32_t n = 0;

    f->subjects += !strcmp(f->word, "L");
    f->mades += !strcmp(f->word, "M");
    f->numbers += !strcmp(f->word, "N") || !strcmp(f->word, "Z");
    f->words += !strcmp(f->word, "W");
    while (*f->at == ' ' || *f->at == '[' || *f->at == ']')
        f->optional = *f->at == '[' || (f->optional && *f->at != ']'), f->at++;
    while (f->at[n] && f->at[n] != ' ' && f->at[n] != ']' && n + 1 < sizeof f->word)
        f->word[n] = f->at[n], n++;
    f->word[n] = 0;
    f->at += n;
    return n > 0;
}

/* Does the step have the optional part that begins here? */
static bool
form_given(const FormWord *f, const Step *s)
{
    if (!strcmp(f->word, "N"))
        return *(f->numbers ? &s->rest : &s->number) != 0;
    if (!strcmp(f->word, "W"))
        return *(f->words ? &s->word2 : &s->word) != WORD_none;
    if (!strcmp(f->word, "at") || !strcmp(f->word, "L"))
        return s->at != NULL;
    return s->nloop > 0;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void
print_loops(Text *t, const Step *s)
{
    for (uint32_t i = 0; i < s->nloop; i++)
        text_printf(t, "%s%s", i ? " " : "", s->loop[i]);
}

void
step_print(Text *t, const Step *s)
{
    FormWord f = { .at = verb_form[s->verb] };

    text_add(t, verb_name[s->verb]);
    while (form_next(&f)) {
        if (f.optional && !form_given(&f, s))
            continue;
        text_add(t, " ");
        if (!strcmp(f.word, "L"))
            text_add(t, f.subjects ? s->at : s->subject);
        else if (!strcmp(f.word, "M"))
            text_add(t, s->made[f.mades]);
        else if (!strcmp(f.word, "N") || !strcmp(f.word, "Z"))
            text_printf(t, "%lld", (long long)(f.numbers ? s->rest : s->number));
        else if (!strcmp(f.word, "W"))
            text_add(t, word_name[f.words ? s->word2 : s->word]);
        else if (!strcmp(f.word, "A"))
            print_loops(t, s);
        else if (!strcmp(f.word, "F"))
            format_print(t, s->format);
        else
            text_add(t, f.word);
    }
}

void
program_print(Text *t, const Program *p, int indent)
{
    for (uint32_t i = 0; i < p->step.n; i++) {
        text_indent(t, indent);
        step_print(t, &p->step.at[i]);
        text_add(t, "\n");
    }
}

/* ---- parsing --------------------------------------------------------------------------------- */

typedef struct {
    Parse p;
    const char *end;
} Line; /* end: of the step */

static bool
is_space(char ch)
{
    return ch == ' ' || ch == '\t' || ch == '\r';
}

/* The length of the next word of the step, which is not consumed; 0 at its end. */
static size_t
peek_word(Line *l)
{
    size_t n = 0;

    while (l->p.s < l->end && is_space(*l->p.s))
        l->p.s++;
    while (l->p.s + n < l->end && !is_space(l->p.s[n]))
        n++;
    return n;
}

/* The next word, for a message. */
static const char *
here(Line *l)
{
    size_t n = peek_word(l);

    return n ? arena_printf(l->p.ctx->arena, "`%.*s`", (int)n, l->p.s) : "the end of the step";
}

static bool
word_is(Line *l, const char *word)
{
    size_t n = peek_word(l);
    return n == strlen(word) && !memcmp(l->p.s, word, n);
}

static Word
parse_word(Line *l)
{
    for (Word w = WORD_none + 1; w < WORD_COUNT; w++)
        if (word_is(l, word_name[w])) {
            l->p.s += strlen(word_name[w]);
            return w;
        }
    return WORD_none;
}

static Sym
parse_loop(Line *l)
{
    size_t n = peek_word(l);
    Sym name = n ? sym_n(l->p.ctx, l->p.s, n) : NULL;
    l->p.s += n;
    return name;
}

static bool
parse_count(Line *l, int64_t *out)
{
    size_t n = peek_word(l);

    *out = 0;
    for (size_t i = 0; i < n; i++) {
        int digit = l->p.s[i] - '0';
        if (digit < 0 || digit > 9 || mul_overflows(*out, 10, out) ||
            add_overflows(*out, digit, out))
            return *out = 0, false;
    }
    l->p.s += n;
    return n > 0;
}

static bool
parse_positive(Line *l, int64_t *out)
{
    const char *before = l->p.s;

    if (parse_count(l, out) && *out > 0)
        return true;
    l->p.s = before;
    return false;
}

static bool
parse_argument(Line *l, const FormWord *f, Step *s)
{
    switch (f->word[1] ? 0 : f->word[0]) {
    case 'L':
        return (*(f->subjects ? &s->at : &s->subject) = parse_loop(l)) ||
               parse_error(&l->p, "%s: the name of a loop or a value is missing",
                           verb_name[s->verb]);
    case 'M':
        return (s->made[f->mades] = parse_loop(l)) ||
               parse_error(&l->p, "%s: a name for what it makes is missing", verb_name[s->verb]);
    case 'N':
        return parse_positive(l, f->numbers ? &s->rest : &s->number) ||
               parse_error(&l->p, "%s: a positive number is expected, found %s", verb_name[s->verb],
                           here(l));
    case 'Z':
        return parse_count(l, f->numbers ? &s->rest : &s->number) ||
               parse_error(&l->p, "%s: a number is expected, found %s", verb_name[s->verb],
                           here(l));
    case 'W':
        if (!peek_word(l) && s->nloop > 1) /* a word misspelt ends the list of loops */
            l->p.s -= strlen(s->loop[--s->nloop]);
        return (*(f->words ? &s->word2 : &s->word) = parse_word(l)) ||
               parse_error(&l->p, "%s: a word such as %s is expected, found %s", verb_name[s->verb],
                           s->verb == VERB_run ? "serial, unroll, vector or parallel"
                                               : "reg or scratch",
                           here(l));
    case 'F': l->p.end = l->end; return (s->format = parse_format(&l->p, NULL)) != NULL;
    case 'A':
        while (peek_word(l) && !(l->p.s[0] == '-' && l->p.s[1] == '>')) {
            const char *before = l->p.s;
            if (parse_word(l)) { /* a word ends the list */
                l->p.s = before;
                break;
            }
            if (s->nloop == STEP_MAX_LOOPS)
                return parse_error(&l->p, "%s: more than %d loops", verb_name[s->verb],
                                   STEP_MAX_LOOPS);
            s->loop[s->nloop++] = parse_loop(l);
        }
        return s->nloop > 0 ||
               parse_error(&l->p, "%s: the name of a loop is missing", verb_name[s->verb]);
    }
    if (!word_is(l, f->word))
        return parse_error(&l->p, "%s: expected `%s`, found %s; the form is: %s %s",
                           verb_name[s->verb], f->word, here(l), verb_name[s->verb],
                           verb_form[s->verb]);
    l->p.s += strlen(f->word);
    return true;
}

/* Does the text at the cursor start an optional part? */
static bool
stands_here(Line *l, const FormWord *f)
{
    const char *before = l->p.s;
    int64_t number;
    bool here = f->word[0] == 'N'   ? parse_positive(l, &number)
                : f->word[0] == 'W' ? parse_word(l) != WORD_none
                                    : word_is(l, f->word);

    l->p.s = before;
    return here;
}

static bool
parse_step(Line *l, Arena *a, Program *out)
{
    Step s = { .verb = VERB_COUNT, .loc = parse_here(&l->p) };

    for (Verb v = 0; v < VERB_COUNT; v++)
        if (word_is(l, verb_name[v]))
            s.verb = v;
    if (s.verb == VERB_COUNT) {
        Text t = { .arena = l->p.ctx->arena };
        for (Verb v = 0; v < VERB_COUNT; v++)
            text_printf(&t, "%s%s", v ? ", " : "", verb_name[v]);
        return parse_error(&l->p, "no step of a schedule is called %s; there are %s", here(l),
                           text_str(&t));
    }
    l->p.s += strlen(verb_name[s.verb]);
    FormWord f = { .at = verb_form[s.verb] };
    while (form_next(&f)) {
        if (f.optional && !stands_here(l, &f)) {
            if (f.word[1]) /* a keyword: without it, its operand is absent too */
                form_next(&f);
            continue;
        }
        f.optional = false; /* the rest of the part is then required */
        if (!parse_argument(l, &f, &s))
            return false;
    }
    if (peek_word(l))
        return parse_error(&l->p, "%s: %s is too much; the form is: %s %s", verb_name[s.verb],
                           here(l), verb_name[s.verb], verb_form[s.verb]);
    VEC_PUSH(a, &out->step, s);
    return true;
}

/* The end of the step: a line's end, a comment, or a comma outside of brackets. */
static const char *
step_end(const char *s, const char *end)
{
    int depth = 0;

    for (; s < end && *s != '\n' && *s != ';' && (*s != ',' || depth); s++)
        depth += (*s == '[') - (*s == ']');
    return s;
}

bool
program_parse(Ctx *c, Arena *a, const Kernel *k, const char *text, Program *out)
{
    Line l = { .p = parse_begin(c, k->name, (Bytes){ (const uint8_t *)text, strlen(text) }) };

    if (k->written && k->written->steps == text) {
        l.p = k->written->at;
        l.p.ctx = c;
    }
    const char *end = l.p.end;
    *out = (Program){ .arena = a, .fault = NEW(a, Loc) };
    while (l.p.s < end) {
        l.end = step_end(l.p.s, end);
        if (peek_word(&l) && !parse_step(&l, a, out))
            return false;
        l.p.end = end;
        l.p.s = l.end;
        if (l.p.s < end && *l.p.s == ';')
            while (l.p.s < end && *l.p.s != '\n')
                l.p.s++;
        if (l.p.s < end && *l.p.s == '\n') {
            l.p.line++;
            l.p.line_start = l.p.s + 1;
        }
        if (l.p.s < end)
            l.p.s++;
    }
    return true;
}
