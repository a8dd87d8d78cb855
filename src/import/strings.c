/* strings: operators on strings, by library routines. */
#include "import/compose.h"
#include "import/converters.h"
#include "op/kinds.h"

#include <string.h>

const char *const *
call_string_list(Call *k, const OnnxAttribute *a)
{
    const char **s = NEW_ARRAY(k->arena, const char *, a->n_strings + 1);

    for (size_t i = 0; i < a->n_strings; i++) {
        OnnxBytes one = a->strings[i];
        if (one.len && memchr(one.data, 0, one.len))
            return (call_refuse(k,
                                "string %zu of attribute \"%s\" has a zero byte inside, where "
                                "Tenon's end",
                                i, a->name),
                    NULL);
        s[i] = sym_n(k->c, one.len ? (const char *)one.data : "", one.len);
    }
    return s;
}

ValueId
call_strings(Call *k, const char *name, const OnnxAttribute *a)
{
    const char *const *s = a ? call_string_list(k, a) : NULL;

    return a && !s ? 0 : call_list(k, name, DT_STR, a ? (uint32_t)a->n_strings : 0, s);
}

ValueId
call_string(Call *k, const char *name, const char *s)
{
    const char **at = NEW(k->arena, const char *);

    *at = sym(k->c, s);
    return graph_const(k->m->g, name, type_new(k->c, DT_STR, 0, NULL), at);
}

bool
convert_string_split(Call *k)
{
    if (!call_names(k, "x -> y pieces"))
        return false;
    call_name(k, "by", call_string(k, "delimiter", get_string(k, "delimiter", "")));
    return call_text(k, "pieces = string_pieces(x, by) {maxsplit = $maxsplit:-1}\n"
                        "most = max(reduce_max(reshape(pieces, [-1])) {keepdims = 0}, 0)\n"
                        "y = string_split(x, by, match(most)) {maxsplit = $maxsplit:-1}");
}

bool
convert_string_normalizer(Call *k)
{
    const char *turn = get_string(k, "case_change_action", "");
    ValueId words = call_strings(k, "words", node_attribute(k->proto, "stopwords"));

    if (!words || !call_names(k, "x -> y"))
        return false;
    const Type *t = input_type(k, 0);
    if (t->rank != 1 && !(t->rank == 2 && expr_is(t->dim[0], 1)))
        return call_wrong(k, "StringNormalizer of %s; [n] and [1, n] are possible",
                          type_str(k->c, t));
    call_name(k, "words", words);
    call_number(k, "row", t->rank == 2);
    call_number(k, "case", !strcmp(turn, "LOWER") ? 1 : !strcmp(turn, "UPPER") ? 2 : 0);
    return call_text(k, "$row? x = reshape(x, [-1])\n"
                        "kept, count = string_normalize(x, words) "
                        "{case = $case, sensitive = $is_case_sensitive:0}\n"
                        "y = slice(kept, [0], match(count, kept.0))\n"
                        "$row? y = reshape(y, [1, -1])");
}

bool
convert_regex_full_match(Call *k)
{
    if (!call_names(k, "x -> y"))
        return false;
    call_name(k, "program", regex_program(k, get_string(k, "pattern", "")));
    return call_value(k, "program") && call_text(k, "y = regex_match(x, program)");
}

/* Separators as one expression: any of them, taken literally. */
static const char *
any_of(Call *k, const OnnxAttribute *a)
{
    Text t = { .arena = k->arena };

    for (size_t i = 0; i < a->n_strings; i++)
        text_printf(&t, "%s(?:%.*s)", i ? "|" : "", (int)a->strings[i].len,
                    a->strings[i].len ? (const char *)a->strings[i].data : "");
    return text_str(&t);
}

/* com.microsoft.Tokenizer: matches of an expression, text between separators, or single characters
 * (the separator ""). */
bool
convert_tokenizer(Call *k)
{
    const OnnxAttribute *separators = node_attribute(k->proto, "separators");
    const char *tokens = get_string(k, "tokenexp", "");
    bool single = separators && separators->n_strings == 1 && separators->strings[0].len == 0;

    if (!call_names(k, "x -> y"))
        return false;
    if (!*tokens == !separators)
        return call_wrong(k, "Tokenizer has %s of tokenexp and separators; it needs one of them",
                          separators ? "both" : "none");
    if (get_int(k, "mincharnum", 1) < 1)
        return call_wrong(k, "mincharnum is %lld; tokens have at least one character",
                          (long long)get_int(k, "mincharnum", 1));
    if (input_type(k, 0)->rank < 1 || input_type(k, 0)->rank > 2)
        return call_wrong(k, "Tokenizer of %s; [c] and [n, c] are possible",
                          type_str(k->c, input_type(k, 0)));
    call_name(k, "program",
              regex_program(k, single       ? "[\\x{1}-\\x{10FFFF}]"
                               : separators ? any_of(k, separators)
                                            : tokens));
    call_name(k, "pad", call_string(k, "pad", get_string(k, "pad_value", "")));
    call_number(k, "marks", get_int(k, "mark", 0) != 0);
    call_number(k, "between", separators && !single);
    return call_value(k, "program") &&
           call_text(k, "n = tokens(x, program) {between = $between, least = $mincharnum:1}\n"
                        "most = max(reduce_max(reshape(n, [-1])) {keepdims = 0}, 0)\n"
                        /* without tokens there are no marks */
                        "$marks? most = most + 2 * min(most, 1)\n"
                        "y = tokenize(x, program, pad, match(most)) "
                        "{between = $between, least = $mincharnum:1, marks = $marks}");
}

bool
convert_equal(Call *k)
{
    if (input_type(k, 0) && input_type(k, 0)->dtype == DT_STR)
        k->op = OP_string_equal;
    return true;
}
