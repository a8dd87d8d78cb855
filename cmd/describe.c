/* describe: what --help says, for other readers: man, bash and zsh. All from the tables of main.c
 * and options.c, so that none of them can be out of date.
 */
#include "cmd.h"

#include <stdio.h>
#include <string.h>

/* ---- man ------------------------------------------------------------------------------------- */

/* Text as roff takes it: dashes that stay dashes, and no line that looks like a request. */
static void
roff(const char *s)
{
    for (bool first = true; *s; s++) {
        if (first && (*s == '.' || *s == '\''))
            fputs("\\&", stdout);
        if (*s == '-' || *s == '\\')
            putchar('\\');
        putchar(*s == '\\' ? 'e' : *s);
        first = *s == '\n';
    }
}

static void
section(const char *title, const char *text)
{
    printf(".SH %s\n", title);
    roff(text);
    putchar('\n');
}

static void
man_head(const char *page, const char *summary)
{
    printf(".TH %s 1 \"\" \"tenon %s\" \"Tenon\"\n.SH NAME\n", page, TN_VERSION);
    roff(page);
    fputs(" \\- ", stdout);
    roff(summary);
    putchar('\n');
}

static void
man_options(VerbId verb)
{
    OptionText o;

    puts(".SH OPTIONS");
    for (int i = 0; option_text(verb, i, &o); i++) {
        puts(".TP");
        if (o.letter)
            printf("\\fB\\-%c\\fR, ", o.letter);
        fputs("\\fB\\-\\-", stdout);
        roff(o.name);
        fputs("\\fR", stdout);
        if (o.value) {
            fputs(" \\fI", stdout);
            roff(o.value);
            fputs("\\fR", stdout);
        }
        putchar('\n');
        roff(o.help);
        putchar('\n');
    }
}

static void
man_overview(void)
{
    man_head("tenon", "compile deep-learning models to native code");
    section("SYNOPSIS", "tenon VERB [arguments]");
    section("DESCRIPTION", "tenon compiles trained deep-learning models (ONNX) to fast native "
                           "code, and runs, measures and explains them.");
    puts(".SH VERBS");
    for (int i = 0; i < VERB_COUNT; i++) {
        printf(".TP\n\\fBtenon\\-%s\\fR(1)\n", verbs[i].name);
        roff(verbs[i].summary);
        putchar('\n');
    }
    puts(".SH EXIT STATUS");
    fputs(".nf\n", stdout);
    roff(exit_codes);
    puts(".fi");
}

static void
man_verb(VerbId verb)
{
    const Command *v = &verbs[verb];
    char page[64];

    snprintf(page, sizeof page, "tenon-%s", v->name);
    man_head(page, v->summary);
    puts(".SH SYNOPSIS");
    roff("tenon ");
    roff(v->usage);
    putchar('\n');
    section("DESCRIPTION", v->text);
    man_options(verb);
    puts(".SH EXAMPLES\n.nf");
    roff(v->examples);
    puts(".fi\n.SH SEE ALSO\n\\fBtenon\\fR(1)");
}

/* ---- shells ---------------------------------------------------------------------------------- */

/* The words that a value is one of ("so|c"), with blanks between; NULL if it is no such list. */
static const char *
choices(const char *value, char *words, size_t room)
{
    if (!value || !strchr(value, '|'))
        return NULL;
    snprintf(words, room, "%s", value);
    for (char *s = words; *s; s++)
        if (*s == '|')
            *s = ' ';
    return words;
}

static void
complete_bash(void)
{
    OptionText o;
    char words[128];

    puts("# bash completion of tenon, made by: tenon help --completion bash\n"
         "_tenon() {\n"
         "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options=\n"
         "    if [ \"$COMP_CWORD\" = 1 ]; then");
    fputs("        COMPREPLY=($(compgen -W '", stdout);
    for (int i = 0; i < VERB_COUNT; i++)
        printf("%s ", verbs[i].name);
    puts("help' -- \"$word\"))\n        return\n    fi\n    case ${COMP_WORDS[1]}:$before in");
    for (int v = 0; v < VERB_COUNT; v++)
        for (int i = 0; option_text((VerbId)v, i, &o); i++)
            if (choices(o.value, words, sizeof words))
                printf("        %s:--%s) COMPREPLY=($(compgen -W '%s' -- \"$word\")); return ;;\n",
                       verbs[v].name, o.name, words);
    puts("    esac\n    case ${COMP_WORDS[1]} in");
    for (int v = 0; v < VERB_COUNT; v++) {
        printf("        %s) options='", verbs[v].name);
        for (int i = 0; option_text((VerbId)v, i, &o); i++)
            printf("%s--%s", i ? " " : "", o.name);
        puts("' ;;");
    }
    puts("    esac\n"
         "    case $word in\n"
         "        -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
         "        *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
         "    esac\n"
         "}\n"
         "complete -o filenames -F _tenon tenon");
}

/* In '…' of a shell, inside _arguments' own [ ] and : */
static void
zsh_text(const char *s)
{
    for (; *s; s++) {
        if (*s == '\'')
            fputs("'\\'", stdout);
        else if (strchr("[]:\\", *s))
            putchar('\\');
        putchar(*s);
    }
}

static void
complete_zsh(void)
{
    OptionText o;
    char words[128];

    puts("#compdef tenon\n# zsh completion of tenon, made by: tenon help --completion zsh\n"
         "if (( CURRENT == 2 )); then\n    local -a verbs\n    verbs=(");
    for (int i = 0; i < VERB_COUNT; i++) {
        printf("        '%s:", verbs[i].name);
        zsh_text(verbs[i].summary);
        puts("'");
    }
    puts("        'help:tell more of a verb'\n    )\n    _describe verb verbs\n    return\nfi\n"
         "local verb=$words[2]\nshift words\n(( CURRENT-- ))\ncase $verb in");
    for (int v = 0; v < VERB_COUNT; v++) {
        printf("    %s) _arguments -s '*:file:_files'", verbs[v].name);
        for (int i = 0; option_text((VerbId)v, i, &o); i++) {
            printf(" \\\n        '--%s%s[", o.name, o.value ? "=" : "");
            zsh_text(o.help);
            putchar(']');
            if (o.value && choices(o.value, words, sizeof words))
                printf(":value:(%s)", words);
            else if (o.value) {
                putchar(':');
                zsh_text(o.value);
                fputs(":_files", stdout);
            }
            putchar('\'');
        }
        puts(" ;;");
    }
    puts("esac");
}

/* ---- the verb -------------------------------------------------------------------------------- */

static int
no_such(const char *word)
{
    return usage_error("help %s: no such verb. The verbs are those of: tenon --help", word);
}

int
describe(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "", *of = argc > 2 ? argv[2] : NULL;
    bool man = !strcmp(word, "--man");

    if (argc > 3)
        return usage_error("%s: one argument too many. See: tenon --help", argv[3]);
    if (!strcmp(word, "--completion")) {
        if (of && !strcmp(of, "bash"))
            return complete_bash(), TN_OK;
        if (of && !strcmp(of, "zsh"))
            return complete_zsh(), TN_OK;
        return usage_error("help --completion: bash or zsh? Give one of them");
    }
    if (man && !of)
        return man_overview(), TN_OK;
    if (!man && of)
        return usage_error("%s: one argument too many. See: tenon --help", of);
    for (int i = 0; i < VERB_COUNT; i++)
        if (!strcmp(verbs[i].name, man ? of : word))
            return man ? man_verb((VerbId)i) : options_help((VerbId)i), TN_OK;
    return no_such(man ? of : word);
}
