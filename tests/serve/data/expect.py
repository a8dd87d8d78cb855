#!/usr/bin/env python3
"""What Jinja itself makes of templates, as Hugging Face's Transformers set it up: writes templates.json, which the tests compare with.

    pip install jinja2; python3 expect.py
"""
import json
import pathlib

from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).parent
ASKED = [{"role": "user", "content": "Who is Mr Darcy?"}]
LONG = [{"role": "system", "content": "  Be brief. "}, {"role": "user", "content": "It's \"ten\"\nthousand é 漢?"},
        {"role": "assistant", "content": "<think>hm</think>\n\nYes. "}, {"role": "user", "content": "A year?", "name": "Jane"}]
# Whole templates, in the manner of models that are much used; then what each part of the language does.
CHATS = {
    "chatml": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are kind.<|im_end|>\n' }}{% endif %}"
              "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "headers": "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}"
               "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}",
    "inst": "{%- if messages[0]['role'] == 'system' %}\n  {%- set system_message = messages[0]['content'] %}\n  {%- set loop_messages = messages[1:] %}\n{%- else %}\n  {%- set loop_messages = messages %}\n{%- endif %}\n"
            "{{- bos_token }}\n{%- for message in loop_messages %}\n  {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\n    {{- raise_exception('roles must alternate') }}\n  {%- endif %}\n"
            "  {%- if message['role'] == 'user' %}\n    {%- if loop.last and system_message is defined %}\n      {{- '[INST] ' + system_message + '\\n\\n' + message['content'] + '[/INST]' }}\n    {%- else %}\n      {{- '[INST] ' + message['content'] + '[/INST]' }}\n    {%- endif %}\n"
            "  {%- else %}\n    {{- ' ' + message['content'] + eos_token}}\n  {%- endif %}\n{%- endfor %}\n",
    "turns": "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}"
             "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}",
    "thinking": "{%- set ns = namespace(multi=true, last=messages|length - 1) %}\n{%- for message in messages[::-1] %}\n    {%- set index = (messages|length - 1) - loop.index0 %}\n"
                "    {%- if ns.multi and message.role == \"user\" and message.content is string and not(message.content.startswith('<tool>') and message.content.endswith('</tool>')) %}\n"
                "        {%- set ns.multi = false %}\n        {%- set ns.last = index %}\n    {%- endif %}\n{%- endfor %}\n{%- for message in messages %}\n"
                "    {%- set content = message.content %}\n    {%- if '</think>' in content %}\n        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}\n    {%- endif %}\n"
                "    {{- loop.index0 ~ (' after ' if loop.index0 > ns.last else ' before ') ~ message.role + ': ' + content + '\\n' }}\n{%- endfor %}\n{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think></think>' }}{%- endif %}",
    "blocks": "{# a comment #}\n{% for m in messages %}\n  {% if m.role == 'user' %}\n    User: {{ m.content }}\n  {% elif m.role == 'assistant' -%}\n\n   Bot: {{ m.content|trim }}\n  {% else %}\n  <{{ m['role'] | upper }}>\n  {%- endif %}\n\n{% endfor %}\nBot:\n",
    "generation": "{% for m in messages %}{% if m['role'] == 'assistant' %}{% generation %}{{ m['content'] }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}",
}
PARTS = [
    "{{ 1 + 2 * 3 - 4 // 3 }} {{ 7 / 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 1.5 + 1 }} {{ 2 * 3.0 }} {{ 0.1 }}",
    "{{ 1 < 2 and 'a' < 'b' }} {{ not 1 == 1 or 2 >= 3 }} {{ 'a' in 'cat' }} {{ 'x' not in ['x'] }} {{ 'k' in {'k': 1} }} {{ none is none }} {{ x is defined }} {{ x is not defined }}",
    "{{ [1, 'a', \"it's\", none, true, 2.0, {'k': [1]}] }} {{ {} }} {{ [] }} {{ x }}|{{ none }}",
    "{% for i in range(3) %}{{ i }}{{ ',' if not loop.last }}{% endfor %} {% for i in range(5, 0, -2) %}{{ loop.index }}:{{ i }} {% endfor %}{% for i in [] %}x{% else %}none{% endfor %}",
    "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}{% for k in {'a': 1} %}{{ k }}{% endfor %}{% for c in 'hé漢' %}<{{ c }}>{% endfor %}",
    "{% for i in range(9) if i % 2 %}{% if i == 7 %}{% break %}{% endif %}{% if i == 3 %}{% continue %}{% endif %}{{ i }}/{{ loop.length }} {% endfor %}",
    "{{ 'hé漢o'[1] }}{{ 'hé漢o'[-1] }}{{ 'abcdef'[1:4] }}{{ 'abcdef'[::-1] }}{{ 'abcdef'[-2:] }}{{ [1, 2, 3][:-1] }}{{ [1, 2, 3][5:] }}{{ 'abc'[::2] }}{{ [1,2,3,4][3:0:-2] }}",
    "{{ ' a b '.strip() }}|{{ 'xxaxx'.lstrip('x') }}|{{ 'a,b,c'.split(',') }}|{{ ' a  b '.split() }}|{{ 'a,b,c'.split(',', 1) }}|{{ 'hello world'.title() }}|{{ 'hELLO'.capitalize() }}|{{ 'aXbX'.replace('X', '--') }}",
    "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith('bc') }} {{ {'a': 1}.get('a') }} {{ {'a': 1}.get('b') }} {{ {'a': 1}.get('b', 5) }} {{ {'a': 1}.keys() | list }} {{ {'a': 1}.values() | list }}",
    "{{ x | default('d') }} {{ '' | default('d', true) }} {{ [3, 4] | first }}{{ [3, 4] | last }} {{ 'abc' | length }} {{ ['a', 'b'] | join('-') }} {{ 'a' | upper }}{{ 'B' | lower }} {{ '5' | int + 1 }} {{ 3 | string + 'x' }} {{ {'b': 1} | items | list | length }}",
    "{{ {'b': [1, true, none, 'é\"<'], 'a': {}} | tojson }} {{ [1, {'k': 2}] | tojson(indent=2) }} {{ 'x' | tojson }}",
    "{{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | rejectattr('role', 'equalto', 'user') | map(attribute='role') | join(',') }} {{ ['a', 'b'] | map('upper') | list }} {{ [1, 2] | reverse | list }}",
    "{% set a = 1 %}{% for i in range(2) %}{% set a = 2 %}{% endfor %}{{ a }}{% if true %}{% set a = 3 %}{% endif %}{{ a }}{% set b %}block {{ a }}{% endset %}{{ b }}{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
    "{{ 5 is number }} {{ 'a' is string }} {{ {} is mapping }} {{ [] is iterable }} {{ 3 is odd }} {{ 4 is even }} {{ true is boolean }} {{ 'a' is in ['a'] }} {{ 1 is eq 1 }} {{ none is not none }} {{ 1.0 is float }} {{ 1 is integer }} {{ true is true }}",
    "  {% if true %}\n  x\n  {% endif %}\n  {{- ' y ' -}}  \n z {#- c -#} \n w {%+ if true %}v{% endif %}\n",
    "{{ 'q' ~ 1 ~ none ~ 2.5 }} {{ \"\\n\\t\\\\\\\"\" }} {{ (1 + 2) * 3 }} {{ dict(a=1)['a'] }} {{ ('a' if 0 else 'b') | upper }} {{ -1 | abs }}",
]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def environment():
    e = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    e.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
    e.globals["raise_exception"] = lambda text: (_ for _ in ()).throw(ValueError(text))
    return e


def main():
    e, out = environment(), []
    for template in [*CHATS.values(), *PARTS]:
        plain = template.replace("{% generation %}", "").replace("{% endgeneration %}", "")
        for messages in (ASKED, LONG) if template in CHATS.values() else (LONG,):
            out.append({"template": template, "messages": messages, "prompt": e.from_string(plain).render(messages=messages, add_generation_prompt=True, **TOKENS)})
    (HERE / "templates.json").write_text(json.dumps(out, indent=1, ensure_ascii=False) + "\n")
    print(len(out))


if __name__ == "__main__":
    main()
