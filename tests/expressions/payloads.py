"""What people write to break out of a template, and ways to dress it up. Every one of them must be refused."""

_EXPRESSIONS = r"""
''.__class__
''.__class__.__mro__[1].__subclasses__()
''.__class__.__base__.__subclasses__()[40]('/etc/passwd').read()
''['__class__']
''["__cl"+"ass__"]
''[['__cla','ss__']|join]
''|attr('__class__')
''|attr('__class__')|attr('__mro__')|last
''|attr("\x5f\x5fclass\x5f\x5f")
()|attr('__class__')|attr('__base__')|attr('__subclasses__')()
().__class__.__bases__[0].__subclasses__()
[].__class__.__base__
{}.__class__
{}.__init__.__globals__
(1).__class__
1.0.__class__
true.__class__
none.__class__
a.__class__
a.x.__class__
a.text.__class__.__init__.__globals__
a['__class__']
a.rows.__class__
a.rows.append(1)
a.update({'x': 2})
a.pop('x')
a.items()
a.get('x')
a.text.format(a)
a.text.format_map(a)
'{0.__class__}'.format(a)
'%s' % a
'%(x)s' % a
'{0}'|format(a)
'%s'|format('x')
a.text.encode()
a.text.upper()
inputs.__class__
inputs.city.__class__.__mro__
inputs.__init__.__globals__['os']
run.__class__
run.__struct_fields__
run.inputs
run.facts()
loop.__class__
loop.previous.__class__
loop.cycle('a', 'b')
loop.index
loop(a)
item.__class__
self
self.__class__
self.__init__.__globals__
self._TemplateReference__context.cycler.__init__.__globals__.os
self._TemplateReference__context.joiner
super()
caller()
varargs
kwargs
context
environment
config
config.items()
config.__class__.from_envvar('X')
request
request.application.__globals__.__builtins__.__import__('os').popen('id').read()
request|attr('application')
session
g
get_flashed_messages.__globals__
url_for.__globals__
lipsum
lipsum.__globals__['os'].popen('id').read()
lipsum|attr('__globals__')
cycler.__init__.__globals__.os
cycler('a').next()
joiner.__init__.__globals__
namespace.__init__.__globals__
namespace(x=1)
dict.__base__
dict(a=1)
range(9)
range.__class__
__import__('os')
__import__('os').system('id')
__builtins__
__builtins__.open('/etc/passwd')
open('/etc/passwd')
eval('1')
exec('1')
print(1)
getattr(a, 'x')
type(a)
globals()
os.system('id')
sys.modules
subprocess.Popen('id')
undefined.__class__
nobody.__class__
nobody.__init__.__globals__
nobody | attr('x')
nobody()
a.rows|map('upper')|list
a.rows|map(attribute='__class__')|list
a.rows|selectattr('__class__')|list
a.rows|groupby('__class__')
a.rows|sum(attribute='__class__')
a.rows|sort(attribute='__class__')
a.rows|join(',', attribute='__class__')
a.rows|max(attribute='__class__.__mro__')
a.rows|unique(attribute='__class__')
a|xmlattr
a|pprint
a|urlize
a.text|center(2000000000)
a.text|wordwrap(1)
a.text|indent(9)
a.text|filesizeformat
a.text|e|escape|safe
a.text|forceescape
a.text|striptags
a.text|truncate(1)
a.text|random
a.text|batch(2)
a.text|slice(2)
a.text|dictsort
a is callable
a is sameas(a)
a is filter
a is escaped
a.x = 2
a.x := 2
lambda: 1
[x for x in a]
(x for x in a)
a.x; a.y
a.x if
import os
`id`
$(id)
${7*7}
<%= 7*7 %>
*a
**a
a.text|replace(*a.rows)
a.text|replace(**a)
a[a]
a[none]
a[a.rows]
a[1.5]
a.rows[a.text]
a.rows['0'].__class__
a.rows[0]['__class__']
a.rows|first|attr('n')
(a.rows|first).__class__
(a.text ~ a.text).__class__
(1, 2).__class__
{'x': a}.x.__class__
(a if a else a).__class__
(a or a).__class__
(a|default({})).__class__
(a|tojson).__class__.__mro__
(a|items)[0].__class__
(a.text[0:1]).__class__
"__class__".__class__
secrets
secrets.token.x
secrets | tojson
secrets.token | upper
secrets.token ~ ''
secrets['token'] + ''
[secrets.token]
{'k': secrets.token}
secrets.token if true
secrets[a.text]
secrets.token == 'a'
secrets.token is defined
secrets.token | default('x')
secrets.token[0]
secrets.token | length
"""

_STATEMENTS = r"""
{% for c in [].__class__.__base__.__subclasses__() %}{{ c }}{% endfor %}
{% if ''.__class__ %}x{% endif %}
{% set x = a.__class__ %}{{ x }}
{% import 'os' as os %}{{ os.system('id') }}
{% include '/etc/passwd' %}
{% extends 'x' %}
{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}
{% call m() %}{% endcall %}
{% with x = a %}{{ x }}{% endwith %}
{% raw %}{{ a }}{% endraw %}
{% autoescape true %}{% endautoescape %}
{% do a.update({}) %}
{% debug %}
{% print(a) %}
{%- if 1 -%}x{%- endif -%}
{# {{ a }} #}
{#a#}{{ a.x }}
"""


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def expressions() -> list[str]:
    return _lines(_EXPRESSIONS)


def payloads() -> list[str]:
    """Every expression alone, in a text, in brackets, behind a filter, in a list and in a branch; and the statements."""
    found = _lines(_STATEMENTS)
    for expression in expressions():
        found += [
            "{{ " + expression + " }}",
            "{{" + expression + "}}",
            "text {{ a.x }} {{- " + expression + " -}} text",
            "{{ (" + expression + ") }}",
            "{{ [" + expression + "] | tojson }}",
            "{{ 1 if true and (" + expression + ") else 2 }}",
        ]
    return found
