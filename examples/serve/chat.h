/* chat: messages as a prompt, by the template of the model. */
#ifndef SERVE_CHAT_H
#define SERVE_CHAT_H

#include "body.h"
#include "jinja.h"

typedef struct {
    Jinja *template; /* NULL: there is none */
    json_t *names;   /* what else a template is told: bos_token and the like */
} Chat;

/* The template in a file, or, of tokenizer_config.json, the one in its chat_template; files that
 * are NULL are left out. false: *problem says what is wrong. */
bool chat_read(Chat *c, const char *template_file, const char *config_file, char *problem,
               size_t room);
/* The template of a folder: its chat_template.jinja, or that of its tokenizer_config.json; where there is neither,
 * there is no template, and that is no error. */
bool chat_read_folder(Chat *c, const char *folder, char *problem, size_t room);
/* The prompt of `messages`, malloc's; NULL: *why. */
char *chat_prompt(const Chat *c, const json_t *messages, size_t *bytes, Refusal *why);
void chat_free(Chat *c);

#endif
