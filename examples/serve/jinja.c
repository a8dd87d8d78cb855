/* Reading a template: texts, and the blocks between them. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jinja_int.h"

static JinjaNode *blocks(JinjaReader *r);

/* ---- blocks ---------------------------------------------------------------------------------- */

static void
end_tag(JinjaReader *r, const char *end)
{
    while (isspace((unsigned char)*r->at))
        r->at++;
    r->trims = *r->at == '-';
    r->at += *r->at == '-' || *r->at == '+';
    if (strncmp(r->at, end, 2)) {
        jinja_refuse(r, "\"%s\" is wanted before \"%.20s\"", end, r->at);
        return;
    }
    r->at += 2;
    r->tag = *end != '}';
}

/* Text up to the next tag. */
static JinjaNode *
text(JinjaReader *r)
{
    const char *begin = r->at, *end = begin, *blank;
    JinjaNode *x;

    while (*end && !(end[0] == '{' && strchr("{%#", end[1]) && end[1]))
        end++;
    r->at = end;
    if (r->trims)
        while (begin < end && isspace((unsigned char)*begin))
            begin++;
    else if (r->tag && begin < end && *begin == '\n')
        begin++;
    r->trims = r->tag = false;
    for (blank = end; blank > begin && (blank[-1] == ' ' || blank[-1] == '\t');)
        blank--;
    if (*end && end[2] == '-')
        while (end > begin && isspace((unsigned char)end[-1]))
            end--;
    else if (*end && end[1] != '{' && end[2] != '+' && (blank == r->begin || blank[-1] == '\n'))
        end = blank;
    /* a newline that ends the template is no part of it */
    if (!*end && end > begin && end[-1] == '\n')
        end--;
    if (end == begin || !(x = jinja_node(r, J_TEXT, NULL)))
        return NULL;
    if (!(x->value = json_stringn(begin, (size_t)(end - begin))))
        return jinja_refuse(r, "a text is no UTF-8");
    return x;
}

static void
want_end(JinjaReader *r, const char *which)
{
    if (!r->failed && strcmp(r->word, which))
        jinja_refuse(r, "\"%s\" is wanted, %s%s%s", which, *r->word ? "\"" : "",
                     *r->word ? r->word : "the template ends", *r->word ? "\" comes" : "");
    end_tag(r, "%}");
}

static JinjaNode *
if_block(JinjaReader *r)
{
    JinjaNode *x = jinja_node(r, J_IF, jinja_expression(r));

    if (!x)
        return NULL;
    end_tag(r, "%}");
    x->b = blocks(r);
    if (!strcmp(r->word, "elif")) {
        x->c = if_block(r);
        return x;
    }
    if (!strcmp(r->word, "else")) {
        end_tag(r, "%}");
        x->c = blocks(r);
    }
    want_end(r, "endif");
    return x;
}

static JinjaNode *
for_block(JinjaReader *r)
{
    JinjaNode *x = jinja_node(r, J_FOR, NULL);

    if (!x)
        return NULL;
    x->text = jinja_name(r);
    x->text2 = jinja_take(r, ",") ? jinja_name(r) : NULL;
    if (!jinja_take(r, "in"))
        jinja_refuse(r, "\"in\" is wanted before \"%.20s\"", r->at);
    x->a = jinja_plain(r);
    x->d = jinja_take(r, "if") ? jinja_expression(r) : NULL;
    end_tag(r, "%}");
    x->b = blocks(r);
    if (!strcmp(r->word, "else")) {
        end_tag(r, "%}");
        x->c = blocks(r);
    }
    want_end(r, "endfor");
    return x;
}

static JinjaNode *
set_block(JinjaReader *r)
{
    JinjaNode *x = jinja_node(r, J_SET, NULL);

    if (!x)
        return NULL;
    x->text = jinja_name(r);
    x->text2 = jinja_take(r, ".") ? jinja_name(r) : NULL;
    if (jinja_take(r, "=")) {
        x->a = jinja_expression(r);
        end_tag(r, "%}");
        return x;
    }
    end_tag(r, "%}");
    x->b = blocks(r);
    want_end(r, "endset");
    return x;
}

/* What follows "{%"; NULL with a word: the end of the block around it, or what belongs to it. */
static JinjaNode *
block(JinjaReader *r)
{
    static const char *const ends[] = {
        "elif", "else", "endif", "endfor", "endset", "endgeneration"
    };
    JinjaNode *x;

    r->at += *r->at == '-' || *r->at == '+';
    char *word = jinja_name(r);
    snprintf(r->word, sizeof r->word, "%s", word ? word : "");
    free(word);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (!strcmp(r->word, ends[i]))
            return NULL;
    if (!strcmp(r->word, "if"))
        return if_block(r);
    if (!strcmp(r->word, "for"))
        return for_block(r);
    if (!strcmp(r->word, "set"))
        return set_block(r);
    if (!strcmp(r->word, "generation")) {
        end_tag(r, "%}");
        if ((x = jinja_node(r, J_GROUP, NULL)))
            x->b = blocks(r);
        want_end(r, "endgeneration");
        return x;
    }
    if (strcmp(r->word, "break") && strcmp(r->word, "continue"))
        return jinja_refuse(r, "a block \"%s\" is not among those that this server knows", r->word);
    x = jinja_node(r, *r->word == 'b' ? J_BREAK : J_CONTINUE, NULL);
    end_tag(r, "%}");
    return x;
}

static void
comment(JinjaReader *r)
{
    const char *end = strstr(r->at, "#}");

    if (!end) {
        jinja_refuse(r, "a comment does not end");
        return;
    }
    r->trims = end[-1] == '-';
    r->tag = true;
    r->at = end + 2;
}

/* Blocks until one that ends them; its name is in r->word, "" at the end of the template. */
static JinjaNode *
blocks(JinjaReader *r)
{
    JinjaNode *first = NULL, **to = &first, *x;

    if (++r->depth > JINJA_DEPTH)
        return jinja_refuse(r, "nested deeper than %d", JINJA_DEPTH);
    while (!r->failed) {
        if ((x = text(r))) {
            *to = x;
            to = &x->next;
        }
        r->word[0] = 0;
        if (!*r->at)
            break;
        char kind = r->at[1];
        r->at += 2;
        if (kind == '#') {
            comment(r);
            continue;
        }
        if (kind == '{') {
            r->at += *r->at == '-';
            x = jinja_node(r, J_PRINT, jinja_expression(r));
            end_tag(r, "}}");
        } else if (!(x = block(r)))
            break;
        if (x) {
            *to = x;
            to = &x->next;
        }
    }
    r->depth--;
    return first;
}

Jinja *
jinja_new(const char *template, char problem[JINJA_PROBLEM])
{
    Jinja *t = calloc(1, sizeof *t);
    JinjaReader r = { .at = template, .begin = template, .t = t, .problem = problem };

    if (!t) {
        snprintf(problem, JINJA_PROBLEM, "no memory for the template");
        return NULL;
    }
    t->body = blocks(&r);
    if (*r.word)
        jinja_refuse(&r, "\"%s\" ends no block", r.word);
    if (!r.failed)
        return t;
    jinja_free(t);
    return NULL;
}

void
jinja_free(Jinja *t)
{
    for (JinjaNode *n = t ? t->all : NULL, *next; n; n = next) {
        next = n->all;
        free(n->text);
        free(n->text2);
        json_decref(n->value);
        free(n);
    }
    free(t);
}
