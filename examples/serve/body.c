#include "body.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "answer.h"

bool
refuse(Refusal *why, int status, const char *param, const char *text, ...)
{
    va_list args;

    *why = (Refusal){ .status = status, .param = param };
    va_start(args, text);
    vsnprintf(why->message, sizeof why->message, text, args);
    va_end(args);
    return false;
}

json_t *
body_read(const char *bytes, size_t n, Refusal *why)
{
    json_error_t error;
    json_t *body = json_loadb(bytes ? bytes : "", n, JSON_REJECT_DUPLICATES, &error);

    if (!body)
        refuse(why, REFUSED, NULL, "the body is no JSON: line %d, column %d: %.100s", error.line,
               error.column, error.text);
    else if (!json_is_object(body)) {
        refuse(why, REFUSED, NULL, "the body is to be a JSON object");
        json_decref(body);
        body = NULL;
    }
    return body;
}

/* ---- fields ---------------------------------------------------------------------------------- */

static bool
same_value(const json_t *x, const char *text)
{
    json_t *only = json_loads(text, JSON_DECODE_ANY, NULL);
    bool same = json_is_number(x) && json_is_number(only)
                    ? json_number_value(x) == json_number_value(only)
                    : json_equal(x, only);

    json_decref(only);
    return same;
}

static bool
check_field(const char *name, const json_t *value, const char *const *known, const Fixed *fixed,
            Refusal *why)
{
    for (; *known; known++)
        if (!strcmp(name, *known))
            return true;
    for (; fixed->name; fixed++)
        if (!strcmp(name, fixed->name))
            return json_is_null(value) || same_value(value, fixed->only) ||
                   refuse(why, REFUSED, fixed->name, "%s can only be %s here", name, fixed->only);
    return refuse(why, REFUSED, NULL, "there is no field \"%.64s\" that this server knows", name);
}

bool
body_check(const json_t *body, const char *const *known, const Fixed *fixed, Refusal *why)
{
    const char *name;
    const json_t *value;

    json_object_foreach((json_t *)(uintptr_t)body, name, value)
    {
        if (!check_field(name, value, known, fixed, why))
            return false;
    }
    return true;
}

bool
body_number(const json_t *body, const char *name, double least, double most, bool whole,
            double *out, Refusal *why)
{
    const json_t *x = json_object_get(body, name);

    if (!x || json_is_null(x))
        return true;
    if (whole ? !json_is_integer(x) : !json_is_number(x))
        return refuse(why, REFUSED, name, "%s is to be %s", name,
                      whole ? "a whole number" : "a number");
    *out = json_number_value(x);
    return (*out >= least && *out <= most) ||
           refuse(why, REFUSED, name, "%s is %.17g; %.17g to %.17g are possible", name, *out, least,
                  most);
}

bool
body_truth(const json_t *body, const char *name, bool *out, Refusal *why)
{
    const json_t *x = json_object_get(body, name);

    if (!x || json_is_null(x))
        return true;
    *out = json_is_true(x);
    return json_is_boolean(x) || refuse(why, REFUSED, name, "%s is to be true or false", name);
}

/* ---- what is said ---------------------------------------------------------------------------- */

char *
json_as_text(json_t *x)
{
    char *text = x ? json_dumps(x, JSON_COMPACT) : NULL;

    json_decref(x);
    return text;
}

char *
refusal_text(const Refusal *why)
{
    const char *kind = why->status == 503   ? "overloaded_error"
                       : why->status >= 500 ? "server_error"
                                            : "invalid_request_error";
    /* what was cut in the middle of a character is text again */
    Answer message = { 0 };
    char *text = NULL;

    if (answer_add(&message, why->message, strlen(why->message)) && answer_end(&message))
        text = json_as_text(json_pack("{s:{s:s%, s:s, s:s?, s:s?}}", "error", "message",
                                      message.text.at, message.text.n, "type", kind, "param",
                                      why->param, "code", why->code));
    answer_free(&message);
    return text;
}
