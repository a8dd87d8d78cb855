#include "chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "answer.h"

enum { MOST_FILE = 1 << 22 };

/* A file's text, malloc's; NULL: it cannot be read, or is too long. */
static char *
read_file(const char *path)
{
    Buffer text = { 0 };
    char piece[4096];
    size_t n;
    FILE *f = fopen(path, "r");

    while (f && (n = fread(piece, 1, sizeof piece, f)) && text.n < MOST_FILE)
        if (!buffer_add(&text, piece, n))
            break;
    bool whole = f && feof(f) && !ferror(f) && buffer_add(&text, "", 1);
    if (f)
        fclose(f);
    if (!whole)
        buffer_free(&text);
    return text.at;
}

/* Of several templates, the one called default. */
static const json_t *
template_of(const json_t *config)
{
    const json_t *x = json_object_get(config, "chat_template");

    for (size_t i = 0; i < json_array_size(x); i++) {
        const json_t *name = json_object_get(json_array_get(x, i), "name");
        if (json_is_string(name) && !strcmp(json_string_value(name), "default"))
            return json_object_get(json_array_get(x, i), "template");
    }
    return json_is_string(x) ? x : NULL;
}

/* Tokens are told as texts: bos_token, or its content. */
static json_t *
names_of(const json_t *config)
{
    json_t *names = json_object(), *x;
    const char *key;

    json_object_foreach((json_t *)(uintptr_t)config, key, x)
    {
        const json_t *content = json_object_get(x, "content");
        size_t n = strlen(key);
        if (n > 6 && !strcmp(key + n - 6, "_token"))
            json_object_set(names, key, json_is_string(content) ? (json_t *)(uintptr_t)content : x);
    }
    return names;
}

bool
chat_read(Chat *c, const char *template_file, const char *config_file, char *problem, size_t room)
{
    char why[JINJA_PROBLEM] = "";
    json_error_t error;
    json_t *config =
        config_file ? json_load_file(config_file, JSON_REJECT_DUPLICATES, &error) : NULL;
    char *text = template_file ? read_file(template_file) : NULL;
    const json_t *own = template_of(config);

    *c = (Chat){ 0 };
    if (config_file && !config)
        snprintf(problem, room, "%.100s: line %d: %.100s", config_file, error.line, error.text);
    else if (template_file && !text)
        snprintf(problem, room, "cannot read the template %.100s", template_file);
    else if (!text && !own)
        snprintf(problem, room, "%.100s has no chat_template", config_file);
    else if (!(c->template = jinja_new(text ? text : json_string_value(own), why)))
        snprintf(problem, room, "%.100s: %.150s", text ? template_file : config_file, why);
    else
        c->names = names_of(config);
    free(text);
    json_decref(config);
    return c->names != NULL;
}

bool
chat_read_folder(Chat *c, const char *folder, char *problem, size_t room)
{
    char template[4096], config[4096];

    *c = (Chat){ 0 };
    snprintf(template, sizeof template, "%s/chat_template.jinja", folder);
    snprintf(config, sizeof config, "%s/tokenizer_config.json", folder);
    bool has_config = !access(config, R_OK), has_template = !access(template, R_OK);
    json_t *x = has_config ? json_load_file(config, 0, NULL) : NULL;
    bool inside = template_of(x) != NULL;
    json_decref(x);
    return !(has_template || inside) ||
           chat_read(c, has_template ? template : NULL, has_config ? config : NULL, problem, room);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Parts of text become one text; NULL: there are others. */
static json_t *
content_of(const json_t *x)
{
    Buffer text = { 0 };
    json_t *whole = NULL;

    if (json_is_string(x) || json_is_null(x))
        return json_incref((json_t *)(uintptr_t)x);
    for (size_t i = 0; i < json_array_size(x); i++) {
        const json_t *part = json_array_get(x, i), *type = json_object_get(part, "type"),
                     *of = json_object_get(part, "text");
        if (!json_is_string(type) || strcmp(json_string_value(type), "text") ||
            !json_is_string(of) ||
            !buffer_add(&text, json_string_value(of), json_string_length(of))) {
            buffer_free(&text);
            return NULL;
        }
    }
    if (json_is_array(x))
        whole = json_stringn(text.at ? text.at : "", text.n);
    buffer_free(&text);
    return whole;
}

/* What a template is given of them; NULL: *why. */
static json_t *
messages_of(const json_t *x, Refusal *why)
{
    json_t *all = json_array();

    if (!json_is_array(x) || !json_array_size(x)) {
        refuse(why, REFUSED, "messages", "messages are to be a list of at least one");
        json_decref(all);
        return NULL;
    }
    for (size_t i = 0; i < json_array_size(x); i++) {
        const json_t *m = json_array_get(x, i), *role = json_object_get(m, "role");
        json_t *content = content_of(json_object_get(m, "content")),
               *own = json_copy((json_t *)(uintptr_t)m);
        if (!json_is_string(role) || !content) {
            refuse(why, REFUSED, "messages",
                   json_is_string(role)
                       ? "message %zu: content is to be a string, or parts of type text"
                       : "message %zu: role is to be a string",
                   i);
            json_decref(content), json_decref(own), json_decref(all);
            return NULL;
        }
        json_object_set_new(own, "content", content);
        json_array_append_new(all, own);
    }
    return all;
}

char *
chat_prompt(const Chat *c, const json_t *messages, size_t *bytes, Refusal *why)
{
    char problem[JINJA_PROBLEM] = "no memory";
    json_t *all = messages_of(messages, why), *names = all ? json_copy(c->names) : NULL;
    char *text;

    if (!all)
        return NULL;
    json_object_set_new(names, "messages", all);
    json_object_set_new(names, "add_generation_prompt", json_true());
    text = jinja_run(c->template, names, bytes, problem);
    json_decref(names);
    if (!text)
        refuse(why, REFUSED, "messages", "the model's template refuses these messages: %s",
               problem);
    return text;
}

void
chat_free(Chat *c)
{
    jinja_free(c->template);
    json_decref(c->names);
}
