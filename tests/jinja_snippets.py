"""Small templates, each with one feature, for goldens and comparisons. Also generates random templates from a
seed."""

import random

VARIABLES = {
    "s": "Hello World",
    "u": "\u00e9t\u00e9 \u4f60\u597d \U0001f600 \u00df\u01c5 \u03a3\u03a3",
    "m": " \t<b>\"q\" & 'x'</b>\r\nline\u2028end ",
    "e": "",
    "n": 7,
    "neg": -3,
    "f": 2.5,
    "big": 1e20,
    "z": 0,
    "t": True,
    "none_value": None,
    "l": [3, 1, 2],
    "words": ["b", "A", "c", "a"],
    "mixed": [1, "a", None, 2.5, [True], {"k": "v"}],
    "d": {"b": 1, "a": [1, 2], "items": "shadow", "C": None},
    "people": [
        {"name": "Ann", "age": 30, "tags": ["x"]},
        {"name": "bob", "age": 25, "tags": []},
        {"name": "Cy", "age": 30},
    ],
    "nested": {"x": {"y": [{"z": "deep"}]}},
}

PARTS = {
    "literals": r"""
{{ 'a\tb\\n\'q\" \x41 \u00e9 \d' }}|{{ "a" 'b' "c" }}|{{ 1000 }} {{ 00 }} {{ 1E-2 }} {{ 1e3 }} {{ 1.50 }} {{ 1e-7 }} {{ 1e16 }} {{ 123456789012345.6 }}
{{ [1, 'a', none, true, 2.0, (1,), (), {}] }}|{{ {'a': 1, 2: [3], none: 'x'} }}|{{ (1, 2) }}|{{ () }}
{{ true }} {{ True }} {{ none }} {{ None }} {{ false }}|{{ undefined_name }}|{{ 'é' 'ü' }}
{{ 9007199254740993 }} {{ 2**62 }} {{ -5 }} {{ +5 }} {{ - -5 }} {{ 'it"s' }} {{ ['it\'s', 'q"', 'b\\', '\n\x00\x7f é 😀'] }}
""",
    "arithmetic": r"""
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1 + 2 * 3 - 4 / 2 }}
{{ 'a' * 3 }} {{ 3 * 'ab' }} {{ [1] * 2 + [3] }} {{ (1,) + (2,) }} {{ 'a' ~ 1 ~ none ~ 2.0 ~ true ~ [1] }} {{ true + true }} {{ 1 / 3 }} {{ 0.1 + 0.2 }}
{{ 1 / 0 }}
{{ 'a' + 1 }}
{{ [1] + (2,) }}
{{ undefined_name + 1 }}
{{ 1 // 0 }}
{{ 5 - '3' }}
{{ -'a' }}
""",
    "comparison": r"""
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ 1 == true }} {{ 'a' < 'b' }} {{ 'é' > 'z' }} {{ [1, 2] < [1, 3] }} {{ (1, 2) == [1, 2] }} {{ 'a' != 'a' }} {{ none == false }}
{{ 2 in l }} {{ 'lo' in s }} {{ 'x' not in d }} {{ 'a' in d }} {{ '' in s }} {{ 1 in {1: 2} }} {{ none in mixed }} {{ 2 in range(3) }} {{ not 1 == 2 }} {{ 1 in undefined_name }}
{{ 1 < 'a' }}
{{ 1 in 'abc' }}
{{ none < 1 }}
{{ 1 in 5 }}
{{ [] in {} }}
{{ {} < {} }}
{{ undefined_name == undefined_other }} {{ undefined_name == none }} {{ undefined_name != '' }}
""",
    "logic": r"""
{{ 0 or 'a' }} {{ '' and 'b' }} {{ 1 and 2 }} {{ none or [] }} {{ not '' }} {{ 'x' if f else 'y' }} {{ 'x' if z }}| {{ ('x' if z) is defined }} {{ 1 if 0 else 2 if 0 else 3 }} {{ undefined_name and 1 }}|{{ not undefined_name }}
""",
    "access": r"""
{{ d.a }} {{ d['a'][1] }} {{ d.items }}|{{ d['items'] }} {{ nested.x.y[0].z }} {{ l[0] }} {{ l[-1] }} {{ l.0 }} {{ s[0] }} {{ s[-1] }} {{ u[6] }} {{ l[9] }}|{{ d.missing }}|{{ d['missing'] is defined }}
{{ s[1:4] }} {{ s[::-1] }} {{ s[::2] }} {{ l[1:] }} {{ l[:-1] }} {{ l[5:] }} {{ s[-3:] }} {{ u[4:6] }} {{ l[::-1] }} {{ (1, 2, 3)[1:] }} {{ s[10:2:-3] }} {{ range(9)[2:8:3]|list }} {{ s[none:2] }}
{{ d.missing.x }}
{{ undefined_name.x }}
{{ undefined_name['x'] }}
{{ none_value.x }}|{{ n.x }}|{{ s.nope }}|{{ l['a'] }}|{{ d[1] }}|{{ d[[1]] }}|{{ s['upper']() }}|{{ n[0] }}
{{ d[1:2] }}
{{ none_value[1:] }}
{{ l[::0] }}
{{ l.append }}|{{ d.pop is defined }}|{{ d.get is defined }}|{{ d.keys is callable }}
{{ l.append(1) }}
{{ d.update({}) }}
{{ s.__class__.__mro__ }}
{{ d.pop('a') }}
""",
    "string_methods": r"""
{{ m.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'xyaxy'.lstrip('yx') }}|{{ 'abab'.rstrip('b') }}|{{ s.upper() }} {{ u.upper() }} {{ u.lower() }} {{ u.title() }} {{ u.capitalize() }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a b c'.rsplit(' ', 1) }} {{ ' a b c '.rsplit(none, 1) }} {{ 'a\nb\r\nc\n'.splitlines() }} {{ 'a\nb'.splitlines(true) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a b c'.split(maxsplit=1) }}
{{ s.replace('l', 'L') }} {{ s.replace('l', '', 1) }} {{ 'ab'.replace('', '-') }} {{ s.find('o') }} {{ s.find('zz') }} {{ s.index('W') }} {{ s.count('l') }} {{ 'é'.count('') }} {{ u.find('好') }} {{ s.find('o', 5) }}
{{ s.startswith('He') }} {{ s.endswith(('x', 'ld')) }} {{ s.startswith('l', 2) }} {{ ','.join(['a', 'b']) }} {{ ', '.join(d) }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }}
{{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'ab'.isalpha() }} {{ ' '.isspace() }} {{ 'AB'.isupper() }} {{ 'ab'.islower() }} {{ '²'.isdigit() }} {{ ''.isalpha() }}
{{ 'a'.split('') }}
{{ 'a'.join([1]) }}
{{ s.index('zz') }}
{{ s.startswith(1) }}
{{ s.nope() }}
{{ s.strip(1) }}
""",
    "percent": r"""
{{ '%s %d %5.2f %x %%' % ('a', 42, 3.14159, 255) }}|{{ '%(a)s %(b)r' % {'a': 1, 'b': 'x'} }}|{{ '%5s|%-5s|%05d|%+d|%o|%e|%g' % ('a', 'b', 42, 5, 8, 12345.678, 0.0001) }}|{{ '%s' % [1] }}|{{ '%.2s' % 'abc' }}|{{ '%s' % none }}|{{ '%X %i %u' % (255, 1.9, 3) }}
{{ '%d' % 'a' }}
{{ '%s %s' % 'a' }}
{{ '%s' % (1, 2) }}
{{ 'abc' % 1 }}
{{ '%q' % 1 }}
{{ '%s|%s'|format('a', 2) }} {{ '%(x)s'|format(x=1) }}
""",
    "filters_text": r"""
{{ s|upper }} {{ s|lower }} {{ 'hello wORLD foo-bar (x'|title }} {{ 'hELLO'|capitalize }} {{ 42|string|length }} {{ '  x '|trim }}|{{ 'xax'|trim('x') }}|{{ s|replace('l', '1', 1) }} {{ 5|replace(5, 6) }} {{ s|length }} {{ u|length }} {{ u|count }}
{{ '<a href="x">\'&'|escape }} {{ '<'|e|safe }} {{ '<a>'|safe + '<b>' }} {{ '<a>' + '<b>'|safe }} {{ ('<'|safe) ~ '<' }} {{ '<'|safe|upper|e }} {{ ['<'|safe] }} {{ '<%s>'|safe % '<' }} {{ '<'|e is escaped }}
{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(2, blank=true) }}|{{ 'a\nb'|indent('> ') }}|{{ 'foo bar baz qux'|truncate(9) }}|{{ 'foo bar baz qux'|truncate(9, true) }}|{{ 'foo bar'|truncate(11) }}|{{ 'foo bar baz qux'|truncate(11, false, '...', 0) }}
{{ 'foo bar'|center(11) }}|{{ 'a b c_d é'|wordcount }} {{ 1000|filesizeformat }} {{ 1|filesizeformat }} {{ 123456789|filesizeformat(true) }} {{ none|upper }} {{ 3.0|string }} {{ none|trim }}
{{ d|tojson }} {{ mixed|tojson(indent=2) }} {{ u|tojson }} {{ u|tojson(ensure_ascii=true) }} {{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }} {{ [1, 2]|tojson(separators=(',', ':')) }} {{ m|tojson }} {{ [1.0, 1e20, 1e-7, -0.0, 10**17]|tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ []|tojson(indent=2) }} {{ {'a': {}}|tojson(indent=1) }} {{ (1, 2)|tojson }} {{ '\x7f\x01'|tojson }}
{{ undefined_name|tojson }}
{{ {(1,): 2}|tojson }}
{{ range(2)|tojson }}
{{ 5|indent }}
{{ s|nosuchfilter }}
{{ s|trim(1) }}
{% if false %}{{ s|nosuchfilter }}{% endif %}ok
{{ s|truncate(2) }}
""",
    "filters_sequence": r"""
{{ l|sort }} {{ l|sort(reverse=true) }} {{ words|sort }} {{ words|sort(case_sensitive=true) }} {{ people|sort(attribute='age')|map(attribute='name')|join(',') }} {{ people|sort(attribute='age,name', reverse=true)|map(attribute='name')|list }} {{ words|unique|list }} {{ ['a', 'A', 'b']|unique(true)|list }}
{{ l|first }} {{ l|last }} {{ []|first }}|{{ ''|last }}|{{ l|reverse|list }} {{ s|reverse }} {{ l|sum }} {{ people|sum(attribute='age') }} {{ [[1], [2]]|sum(start=[]) }} {{ l|min }} {{ l|max }} {{ words|max }} {{ people|min(attribute='age') }} {{ []|max }}|{{ 'abc'|list }} {{ d|list }} {{ d|length }}
{{ l|join }} {{ l|join('-') }} {{ people|join(', ', attribute='name') }} {{ mixed|join('|') }} {{ d|dictsort }} {{ d|dictsort(true) }} {{ {'a': 2, 'b': 1}|dictsort(by='value') }} {{ {'a': 2, 'b': 1}|dictsort(reverse=true) }} {{ d|items|list }} {{ undefined_name|items|list }}
{{ range(7)|batch(3)|list }} {{ range(7)|batch(3, 'x')|list }} {{ range(7)|slice(3)|list }} {{ range(7)|slice(3, 'x')|list }} {{ people|groupby('age')|list }} {% for k, g in people|groupby('age') %}{{ k }}:{{ g|map(attribute='name')|join }};{% endfor %} {% for g in people|groupby('name', case_sensitive=false) %}{{ g.grouper }}{{ g.list|length }}{% endfor %}
{{ people|map(attribute='name')|list }} {{ people|map(attribute='tags', default='none')|list }} {{ words|map('upper')|join }} {{ ['1', 'x']|map('int', 5)|list }} {{ l|select('odd')|list }} {{ l|reject('odd')|list }} {{ [0, 1, '']|select|list }} {{ people|selectattr('tags')|list|length }} {{ people|selectattr('age', 'eq', 30)|map(attribute='name')|list }} {{ people|rejectattr('age', 'gt', 26)|list }} {{ people|selectattr('tags', 'defined')|list|length }} {{ [[1, 2]]|map('last')|list }} {{ [[1, 2]]|map(attribute=1)|list }} {{ people|map(attribute='tags.0')|list }}
{% set g = l|map('string') %}{{ g|list }}{{ g|list }} {{ 'yes' if people|selectattr('nope') }} {{ l|map('abs') is iterable }} {{ l|map('abs') is sequence }} {{ l|select('odd')|first }} {{ ['a', 1]|map('upper')|first }}
{{ l|map('string')|length }}
{{ l|map('string')|last }}
{{ l|map('nosuch')|list }}
{{ l|select('nosuch')|list }}
{{ l|map('nosuch') is defined }}
{{ mixed|sort }}
{{ none|list }}
{{ 5|join }}
{{ [1, 'a']|sum }}
{{ none|length }}
{{ l|dictsort }}
{{ [{}]|unique|list }}
{{ l|items|list }}
""",
    "filters_number": r"""
{{ '42'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ '42.9'|int }} {{ 3.99|int }} {{ '0x1f'|int(base=16) }} {{ ' 5 '|int }} {{ none|int }} {{ [1]|int }} {{ '1_0'|int }} {{ true|int }} {{ '1e2'|int }} {{ '2.5'|float }} {{ 'x'|float }} {{ 'nan'|float }} {{ 'inf'|float }} {{ 3|float }} {{ none|float(1.5) }}
{{ 42.55|round }} {{ 42.55|round(1) }} {{ 2.5|round }} {{ 3.5|round }} {{ 42.55|round(1, 'floor') }} {{ 42.1|round(0, 'ceil') }} {{ 5|round }} {{ 15|round(-1) }} {{ 1234.5|round(-2) }} {{ -5|abs }} {{ 2.675|round(2) }} {{ -2.5|abs }} {{ 7|round(1, 'ceil') }}
{{ undefined_name|default('d') }} {{ none|default('d') }} {{ ''|default('d', true) }} {{ undefined_name|d }}| {{ z|default(5, boolean=true) }} {{ d.missing|default(1) }}
{{ 'a'|abs }}
{{ 'a'|round }}
{{ undefined_name|int }}
{{ 1.5|round(1, 'up') }}
{{ 'inf'|float|int }}
""",
    "tests": r"""
{{ s is string }} {{ n is number }} {{ t is number }} {{ f is float }} {{ n is integer }} {{ t is integer }} {{ t is boolean }} {{ d is mapping }} {{ l is mapping }} {{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ n is sequence }} {{ l is iterable }} {{ n is iterable }} {{ none is none }} {{ s is defined }} {{ q is defined }} {{ q is undefined }} {{ q is sequence }} {{ q is iterable }} {{ q is string }} {{ q is callable }} {{ range is callable }} {{ s is callable }}
{{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 1 is eq 1 }} {{ 1 is ne(2) }} {{ 1 is lt 2 }} {{ 2 is ge 2 }} {{ 'a' is in 'abc' }} {{ 1 is not in l }} {{ 'ab' is lower }} {{ 'AB' is upper }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ none is sameas none }} {{ 'upper' is filter }} {{ 'zz' is filter }} {{ 'odd' is test }} {{ n is not none and s is string }} {{ 5 is equalto 5.0 }} {{ 2 is greaterthan 1 }} {{ 'random' is filter }}
{{ 'a' is odd }}
{{ 1 is lt 'a' }}
{{ s is nosuchtest }}
{{ s is a is b }}
""",
    "loops": r"""
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }} {% endfor %}|{% for x in [] %}{{ x }}{% else %}empty{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for c in 'aé😀' %}[{{ c }}]{% endfor %}{% for a, b in ['xy'] %}{{ b }}{{ a }}{% endfor %}
{% for x in range(6) if x is odd %}{{ x }}{{ loop.index }}/{{ loop.length }} {% endfor %}{% for x in range(6) if x > 9 %}{% else %}none{% endfor %}{% for x in l %}{{ x }}{% if x is iterable %}{% endif %}{% endfor %}
{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}{% for x in [1] %}{% break %}{% else %}E{% endfor %}{% for x in [1] %}{% continue %}{% else %}E{% endfor %}{% for x in [1, 2] %}{% if loop.first %}{% continue %}{% endif %}{% else %}E{% endfor %}
{% set ns = namespace(found=false, n=0) %}{% for x in range(5) if not ns.found %}{{ x }}{% if x == 2 %}{% set ns.found = true %}{% endif %}{% endfor %}{% set ns.n = ns.n + 5 %}{{ ns.n }}{{ ns.missing }}|{{ ns }}
{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}|{% for i in l %}{{ y }}{% set y = i %}{{ y }}{% endfor %}{{ y }}|{% if true %}{% set w = 1 %}{% endif %}{{ w }}|{% for i in l %}{% for j in l %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}|{% for x in undefined_name %}{% endfor %}
{% for item in [{'v': 1, 'c': [{'v': 2}]}] %}{{ loop.depth }}:{{ loop.depth0 }}:{{ item.v }}{% endfor %}
{% for i in 5 %}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{% endfor %}
{% break %}
{% for x in l %}{% macro f() %}{% break %}{% endmacro %}{% endfor %}
{% for x in l %}{{ loop(x) }}{% endfor %}
{% for loop in l %}{% endfor %}
{% for x in l %}{{ loop.nope }}|{{ loop }}{{ loop is callable }}{% endfor %}
{% for x in l %}{% for y in l %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }}{% endfor %};{% endfor %}
""",
    "scopes": r"""
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (a, b) = (b, a) %}{{ a }}{{ b }}{% set ns = namespace(q=1) %}{% set ns.q, c = 5, 6 %}{{ ns.q }}{{ c }}{% set t2 = 1, 2 %}{{ t2 }}{% set d.x = 1 %}
{% set x %}block {{ n }}{% endset %}{{ x }}|{% set x | upper | replace('B', 'c') %}block{% endset %}{{ x }}|{% filter upper %}abc{{ s }}{% endfilter %}|{% filter replace('a', n) %}banana{% endfilter %}
{% if n > 5 %}big{% elif n > 2 %}mid{% else %}small{% endif %}{% if z %}a{% elif e %}b{% elif l %}c{% endif %}{% if l, %}t{% endif %}{% if q is not defined %}{% set q = 'Q' %}{% endif %}{{ q }}
{% raw %}{{ x }} {% if %}{% endraw %}{# comment #}{% generation %}gen {{ n }}{% set q = 2 %}{% endgeneration %}{{ q }}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns['b'] }}{{ dict(a=1, b=2) }}{{ dict([('k', 'v')]) }}{{ range(3) }}{{ range(1, 7, 2)|list }}{{ range(5, 0, -2)|list }}
{% set s = 'shadow' %}{{ s }}{% for i in [1] %}{{ s }}{% set s = 'inner' %}{{ s }}{% endfor %}{{ s }}{% if true %}{% set s = 'if' %}{% endif %}{{ s }}
{% set x = 1 %}{% macro f() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ f() }}{% for i in [3] %}{% set x = i %}{{ f() }}{% endfor %}{% macro g() %}{% if x %}{% set x = 9 %}{% endif %}{{ x }}{% endmacro %}{{ g() }}{{ x }}
{% set none = 1 %}
{% set x = %}
{% set ns = {} %}{% set ns.a = 1 %}
{{ range(1000000) }}
{{ raise_exception('boom ' ~ n) }}
{{ dict(1) }}
{% set a, b = 1 %}
""",
    "macros": r"""
{% macro f(a, b=2, c=a) %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, c=5) }} {{ f(b=3, a=0) }} {{ f() }} {{ f(1, 2, 3) }} {{ f }} {{ f(7, b=8) }} {{ f.nope }}
{% macro g(a) %}[{{ caller(a) }}]{% endmacro %}{% call(x) g('A') %}<{{ x }}>{% endcall %}{% macro h() %}({{ caller() if caller }}){% endmacro %}{{ h() }}{% call h() %}in{% endcall %}
{% macro fact(n) %}{{ 1 if n <= 1 else n * fact(n - 1)|int }}{% endmacro %}{{ fact(5) }}{% macro outer() %}{% macro inner() %}I{{ n }}{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}{{ inner is defined }}
{% macro f(x) %}{% set y = x %}{{ y }}{% endmacro %}{{ f(1) }}{{ y }}|{{ f(1)|upper ~ 'z' }}|{% if f %}t{% endif %}|{{ f is callable }}{% macro _p() %}p{% endmacro %}{{ _p() }}
{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{% endmacro %}{{ f(b=1) }}
{% macro f(a=1, b) %}{% endmacro %}
{% macro f(a, a) %}{% endmacro %}
{{ n() }}
{{ undefined_name() }}
{% call f %}{% endcall %}
{% macro f(x) %}{{ x.y.z }}{% endmacro %}{{ f() }}
{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}
""",
    "syntax_errors": r"""
{{ 1 + }}
{{ (1 }}
{% if x %}
{% endif %}
{% unknown %}
{{ 'abc }}
{{ a b }}
{# open
{% raw %}x
{% for x l %}{% endfor %}
{{ [1, 2 }}
{{ 1 ! 2 }}
{{ x[ }}
{% set 1 = 2 %}
{{ f(a=1, 2) }}
{{ 07 }}
{{ '\x4' }}
{% do x %}
{{ {1} }}
{% include 'x' %}
{% extends 'x' %}
{% import 'x' as y %}
{{ x if }}
{% for x in %}{% endfor %}
{% endfor %}
{{ . }}
{{ @ }}
""",
}

WHITESPACE = [
    "a\n  {% if true %}\n  b\n  {% endif %}\nc\n",
    "a\n  {%- if true -%}\n  b\n  {%- endif -%}\nc\n\n",
    "a\n  {%+ if true +%}\n  b\n  {%+ endif +%}\nc",
    "  {{ 'x' }}\n  {{- 'y' -}}\n  z",
    "a {# c #} b\n  {# d #}\ne {#- f -#} g\n{#+ h +#}\ni",
    "a\r\nb\rc\n{{ 'x\r\ny' }}\r\n",
    "{% for x in [1,2] %}\n{{ x }}\n{% endfor %}\n",
    "{% for x in [1,2] -%}\n  {{ x }}\n{%- endfor %}\nend\n\n\n",
    "  {% raw %}\n {{ a }} \n  {% endraw %}\n b",
    " {%- raw -%} {{ a }} {%- endraw -%} \n b",
    "x{% if true %}\n\ny{% endif %}\n",
    "\t {% set a = 1 %}\t\n{{ a }}\u00a0{% if a %}\n\u3000{% endif %}x",
    "{% if true %}a{% endif %} \n  {% if true %}b{% endif %}",
    "{{ 'a' }}\n{{ 'b' }}\n\n{{ 'c' }}\n",
    "{% if true -%}   \n\n  a   {%- else -%} b {%- endif %}",
    "a {{- ' b ' }} c {{ ' d ' -}} e",
    "{{ {'a': {'b': 1}} }}{{ {'a': [1]}['a'] }}",
    "{{'%}'}}{{ '}}' }}{% if '%}' %}x{% endif %}{{ {}}}",
    "line1\n    {%- set x = 1 %}\n    {%- if x %}\n        {{- 'y' }}\n    {%- endif %}\nend",
    "{%if true%}a{%endif%}{%  if   true  %}b{%endif%}{%-if true-%}c{%-endif-%}",
    "{{-1}}{{- -1}}{{ 1 -}} x",
    "}} %} #} { { % {}",
    "",
    "\n",
    "{% if true: %}colon{% endif %}",
]


def snippets():
    """Returns all snippets in order."""
    result = [line for part in PARTS.values() for line in part.split("\n") if line]
    return result + WHITESPACE


ATOMS = "s u m e n neg f z t none_value l words mixed d people nested undefined_name 'ab' '' 3 -1 2.5 0 true none [] {} (1,) [1,'a'] 'a,b' range(3) 1.0 'É' big".split()
FILTERS = (
    "upper lower title capitalize trim length string int float abs round list first last join reverse sort unique sum min "
    "max tojson items dictsort default('D') default('D',true) replace('a','b') join('-') indent(2) truncate(5) e safe "
    "wordcount map('upper') select reject('none') map(attribute='name') batch(2) slice(2) center(9) "
    "select('string') selectattr('name') tojson(indent=1) count format(1) groupby('age') filesizeformat round(1) "
    "sort(reverse=true) unique(true) map('string') replace('','.') trim('a') attr('upper') first|upper list|length"
).split()
TESTS = "defined undefined none string number integer float boolean mapping sequence iterable callable true false odd even lower upper escaped".split()
METHODS = (
    "upper() lower() strip() split() split(',') title() capitalize() splitlines() items() keys()|list get('a') get('zz',1) "
    "startswith('a') endswith('d') replace('l','L') find('l') count('l') isdigit() isalpha() isupper() values()|list "
    "index(1) rsplit('o',1) join(['x','y']) lstrip('H') append(1) name age"
).split()
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


def expression(rng, depth):
    kind = rng.random()
    if depth == 0 or kind < 0.2:
        return rng.choice(ATOMS)
    if kind < 0.45:
        return "%s|%s" % (operand(rng, depth), rng.choice(FILTERS))
    if kind < 0.6:
        return "%s %s %s" % (operand(rng, depth), rng.choice(BINARY), operand(rng, depth))
    if kind < 0.7:
        return "%s.%s" % (operand(rng, depth), rng.choice(METHODS))
    if kind < 0.78:
        return "%s is %s%s" % (operand(rng, depth), rng.choice(["", "not "]), rng.choice(TESTS))
    if kind < 0.84:
        bounds = [rng.choice(["", "1", "-1", "0", "2", "-5", "9"]) for _ in range(rng.choice([2, 2, 3]))]
        return "%s[%s]" % (rng.choice(["s", "l", "u", "people", "words", "n", "undefined_name", "d"]), ":".join(bounds))
    if kind < 0.9:
        return "%s[%s]" % (operand(rng, depth), rng.choice(["0", "-1", "'a'", "'name'", "1.0", "n", "'items'"]))
    if kind < 0.95:
        return "%s if %s else %s" % tuple(operand(rng, depth) for _ in range(3))
    return rng.choice(["not %s", "-%s", "[%s, 1]", "(%s,)", "{'k': %s}", "%s ~ 'x'"]) % operand(rng, depth)


def operand(rng, depth):
    text = expression(rng, depth - 1)
    return text if text.isidentifier() else "(%s)" % text


STATEMENTS = [
    "{%% for x in %s %%}{{ x }}{{ loop.index }}{%% if loop.last %%}.{%% endif %%}{%% else %%}E{%% endfor %%}",
    "{%% if %s %%}T{%% else %%}F{%% endif %%}",
    "{%% set v = %s %%}{{ v }}{{ v is defined }}",
    "{%% macro f(a, b=1) %%}{{ a }}{{ b }}{%% endmacro %%}{{ f(%s) }}",
    "{%% for x in %s if x %%}{{ loop.length }}{{ x }}{%% endfor %%}",
    "{%% for a, b in %s %%}{{ a }}{{ b }}{%% endfor %%}",
    "{%% set v %%}{{ %s }}{%% endset %%}{{ v|length }}",
]


def random_snippet(seed):
    rng = random.Random(seed)
    if rng.random() < 0.75:
        return "{{ %s }}" % expression(rng, rng.randrange(1, 4))
    return rng.choice(STATEMENTS) % expression(rng, rng.randrange(1, 3))
