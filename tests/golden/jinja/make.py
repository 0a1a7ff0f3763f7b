#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes cases.json beside it: templates, and what Jinja gives for them under Hugging Face's settings (seen with Jinja 3.1.6, Python 3.11).
usage: make.py   (in its folder)

EXPRESSIONS are parted by ' ;; ' and line ends; they and TEMPLATES are rendered with VARIABLES. A case has a text or an error:
"raised" with the message of raise_exception, "failed" for whatever else goes wrong."""
import json
import jinja2, jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

DAY = '2026-03-09'
VARIABLES = {
    's': 'Hello World', 'e': '', 'n': 7, 'm': -3, 'f': 2.5, 'z': 0, 't': True, 'no': False, 'nil': None,
    'u': 'Grüße, ΣΊΣΥΦΟΣ! ß ﬁ 日本語 😀', 'q': 'it\'s "quoted" \\ back\nline\ttab \x01 <|im_end|> & <b>',
    'w': '  padded\t\n ', 'lines': 'one\ntwo\r\n\n  three\n', 'csv': 'a,b,,c', 'l': [3, 1, 2], 'el': [], 'ed': {},
    'names': ['beta', 'Alpha', 'gamma', 'alpha'], 'mixed': [1, 'two', None, 3.5, True, [1], {'k': 'v'}],
    'd': {'b': 1, 'a': 'x', 'items': 'shadowed', 'C': [1, 2]}, 'nested': {'x': {'y': [10, {'z': 'deep'}]}},
    'people': [{'name': 'Ann', 'age': 30, 'tags': ['x']}, {'name': 'bob', 'age': 25}, {'name': 'Cid', 'age': 30, 'tags': []}],
    'messages': [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Hi <|im_end|>'},
                 {'role': 'assistant', 'content': '<think>hm</think>Yes', 'tool_calls': [
                     {'type': 'function', 'id': 'c1', 'function': {'name': 'f', 'arguments': {'a': 1, 'ü': 'é"'}}}]},
                 {'role': 'tool', 'content': '{"r": 1}', 'tool_call_id': 'c1'}],
    'tool': {'type': 'function', 'function': {'name': 'get', 'description': 'Gets "it".\n', 'parameters': {
        'type': 'object', 'properties': {'p': {'type': ['string', 'null'], 'enum': ['a', 'b']}}, 'required': []}}},
    'big': 9007199254740993, 'tiny': 1e-07, 'huge': 1e16, 'third': 0.1, 'greek': 'αβγ', 'pairs': [['k', 1], ['j', 2]],
}

EXPRESSIONS = {
    'literals': r'''
1 ;; 1_000 ;; 0x1F ;; 0o17 ;; 0b101 ;; 1.5 ;; 1e3 ;; 1.5e-7 ;; 1_0.2_5 ;; 'a' ;; "a" ;; 'a' 'b' ;; true ;; True ;; false ;; none ;; None ;; []
[1, 'a', none,] ;; () ;; (1,) ;; (1, 2) ;; 1, 2 ;; {} ;; {'a': 1, 'b': [2]} ;; '\n\t\\\'\"' ;; "\x41\u00e9\U0001F600" ;; '\101\7' ;; '\q'
{'a': 1, 'a': 2} ;; {1: 'x', none: 'y', true: 'z'} ;; [[], {}, ()] ;; [1.0, -0.0, 1e100, 1e-5, 123456789.123] ;; 0.1 + 0.2 ;; 1e22
100000000000000000.0''',
    'arithmetic': r'''
1 + 2 * 3 ;; (1 + 2) * 3 ;; 7 / 2 ;; 8 / 2 ;; 7 // 2 ;; -7 // 2 ;; 7 // -2 ;; -7 % 3 ;; 7 % -3 ;; 7 % 3 ;; -7.5 % 2 ;; 7.5 // 2 ;; -7.5 // 2
2 ** 10 ;; 2 ** -1 ;; 2 ** 3 ** 2 ;; -2 ** 2 ;; - 2 ;; +n ;; -n ;; -t ;; +t ;; 1 + 1.0 ;; 3 * 'ab' ;; 'ab' * 3 ;; 'ab' * 0 ;; 'ab' * -1 ;; [1] * 2
2 * [1, 2] ;; (1,) * 2 ;; 1 / 0 ;; 1 // 0 ;; 1 % 0 ;; 1.0 / 0 ;; 0.0 // 0 ;; 'a' + 'b' ;; 'a' + 1 ;; 1 + 'a' ;; none + 'a' ;; s + nil ;; [1] + [2]
[1] + (2,) ;; (1,) + (2,) ;; {} + {} ;; n - m ;; true + true ;; t * 3 ;; big + 1 ;; 10 ** 18 ;; 1 - 'a' ;; -s ;; -nil ;; +s ;; 2 ** 0.5 ;; 0 ** 0
7 // 0.0 ;; 4.0 // 2 ;; 1e308 * 10 ;; 5 % 2.5 ;; -1 // 2 ;; 0 ** -1 ;; -0.0 ;; 7.0 ;; 9.99 // 1 ;; n + nosuch ;; nosuch + 1 ;; nosuch ~ 1
'%s' % nosuch ;; 1 ~ 2 ;; 1 ~ 'a' ~ none ~ true ~ [1] ;; 1 + 2 ~ 3 ;; 'a' ~ 1 + 2 ;; s ~ n ~ f ;; 3 * 2 ~ 1''',
    'comparisons': r'''
1 == 1.0 ;; 1 == true ;; 1 < 2 < 3 ;; 1 < 3 < 2 ;; 3 > 2 >= 2 ;; 'a' < 'b' ;; 'a' < 'B' ;; 'Z' < 'a' ;; [1, 2] < [1, 3] ;; [1] < [1, 2]
(1, 2) == (1, 2) ;; [1] == (1,) ;; 1 < 'a' ;; none < 1 ;; none == none ;; none == false ;; {'a': 1} == {'a': 1.0} ;; {'a': 1} < {}
nosuch == nosuch2 ;; nosuch == none ;; nosuch < 1 ;; 1 != 2 ;; 'a' != 'a' ;; 1 in [1, 2] ;; 'a' in 'abc' ;; '' in 'abc' ;; 1 in 'abc'
'x' not in 'abc' ;; 'a' in d ;; 1 in d ;; 1 in none ;; 1 in 5 ;; 1 in nosuch ;; none in [none] ;; nosuch in [1] ;; nosuch in 'a' ;; [1] in d
'k' in {'k': 0} ;; (1, 2) in [(1, 2)] ;; 2 in range(3) ;; not 1 == 2 ;; not 'a' in 'b' ;; 1 == 1 in [true] ;; true == 1 ;; 'é' < 'z' ;; greek > 'z'
1.5 > 1 ;; t > no ;; el == [] ;; 1 <= 1 <= 1 < 2 ;; f != 2.5 ;; 'b' in ['a', 'b'] == true''',
    'logic': r'''
true and false ;; 1 and 2 ;; 0 and 2 ;; '' or 'x' ;; none or 0 ;; not none ;; not not 1 ;; 1 or nosuch.x ;; 0 and nosuch.x ;; true or false and false
not true or true ;; not (true or true) ;; 'a' if true else 'b' ;; 'a' if false else 'b' ;; 'a' if false ;; ('a' if false) is defined
1 if 0 else 2 if 0 else 3 ;; 1 if 1 else 2 if 0 else 3 ;; ('x' if t) ~ 'y' ;; (1 if no else 2) + 3 ;; el or 'empty' ;; ed or 'empty' ;; e or 'e'
z or 'z' ;; nil or 'nil' ;; nosuch or 'u' ;; f and 'f' ;; 0.0 or 'zero' ;; [0] and 'list' ;; range(0) or 'r' ;; 'x' if not s else 'y'
s and s[0] == 'H' ;; nosuch and nosuch.x ;; not nosuch''',
    'access': r'''
d.a ;; d['a'] ;; d.nope ;; d['nope'] ;; d.nope is defined ;; d.nope.x ;; d['nope']['x'] ;; d.items is callable ;; d['items'] ;; d.C[1] ;; l[0]
l[-1] ;; l[5] ;; l[5] is defined ;; l['0'] ;; l.0 ;; nested.x.y.1.z ;; nested.x.y[1]['z'] ;; nested['x'].y.0 ;; s[0] ;; s[-1] ;; s[99]
s[99] is defined ;; u[2] ;; u[-1] ;; u[1:4] ;; s[1:4] ;; s[:3] ;; s[-3:] ;; s[::2] ;; s[::-1] ;; s[5:2] ;; s[2:-2] ;; s[-100:100] ;; s[10:0:-3]
l[1:] ;; l[:-1] ;; l[::-1] ;; l[::0] ;; l[none:2] ;; (1, 2, 3)[1:] ;; range(5)[1:3]|list ;; list(1) ;; nosuch ;; nosuch.x ;; nosuch[0] ;; nosuch()
nosuch.x is defined ;; nil.x ;; nil.x is defined ;; nil[0] is defined ;; nil[1:] ;; 5[0] is defined ;; 5.x is defined ;; n.x is defined ;; d[1:]
d[[1]] is defined ;; d[none] is defined ;; n() ;; s() ;; d.a() ;; messages[0].role ;; messages[-1]['content'] ;; messages[1:][0]['role']
messages|length ;; messages[2].tool_calls[0].function.arguments ;; messages[0]['role'] == 'system' ;; messages[99].role ;; (messages|last).role
s.upper|length > 0 ;; d.__class__ ;; s.__class__.__mro__ ;; l.append(4) ;; d.update({'x': 1}) ;; d.pop('a') ;; l.pop() ;; l.append is defined
d.clear is defined ;; '' [0] ;; 'abc'.1 ;; l[true] ;; [1, [2, [3]]][1][1][0] ;; {'a': {'b': 'c'}}.a.b ;; pairs[0][0] ;; l[1.0] is defined
mixed[6].k''',
    'text methods': r'''
s.upper() ;; s.lower() ;; u.upper() ;; u.lower() ;; u.title() ;; 'ΑΣ ΣΑΣ. ΑΣΒ'.lower() ;; s.title() ;; "they're bill's".title() ;; s.capitalize()
'ÉCOLE été'.capitalize() ;; 'ǆ'.title() ;; s.swapcase() ;; 'x'.center(5) ;; 'x'.center(4, '-') ;; 'xy'.center(5) ;; w.strip() ;; w.lstrip()
w.rstrip() ;; 'xxaxx'.strip('x') ;; 'abcba'.lstrip('ab') ;; 'abcba'.rstrip('ab') ;; 'éaé'.strip('é') ;; csv.split(',') ;; csv.split(',', 1)
csv.rsplit(',', 1) ;; csv.split(',', 0) ;; ' a  b c '.split() ;; ' a  b c '.split(none, 1) ;; ' a  b c '.rsplit(none, 1) ;; ' a  b c '.rsplit()
''.split() ;; ''.split(',') ;; 'a'.split('') ;; 'aXbXc'.rsplit('X') ;; lines.splitlines() ;; lines.splitlines(true)
'a\x0bb\x1cc\u2028d\x85e'.splitlines() ;; ''.splitlines() ;; '\n'.splitlines() ;; s.startswith('He') ;; s.startswith(('x', 'H'))
s.startswith('W', 6) ;; s.endswith('ld') ;; s.endswith(('x',)) ;; s.startswith('') ;; s.startswith(1) ;; s.startswith(['H']) ;; s.endswith('o', 0, 5)
s.replace('o', '0') ;; s.replace('o', '0', 1) ;; s.replace('', '-') ;; s.replace('', '-', 2) ;; ''.replace('', 'x') ;; s.replace('nope', '')
s.replace('o') ;; u.replace('ü', 'ue') ;; s.find('o') ;; s.find('o', 5) ;; s.find('x') ;; u.find('日') ;; s.rfind('o') ;; s.index('W') ;; s.index('x')
s.rindex('o') ;; s.count('o') ;; s.count('') ;; 'aaaa'.count('aa') ;; s.find('', 99) ;; s.find('') ;; ', '.join(['a', 'b']) ;; ''.join([])
','.join('abc') ;; ','.join([1]) ;; ','.join(names) ;; '-'.join(d) ;; 'a'.join(5) ;; '{}-{}'.format(1, 'x') ;; '{0}{1}{0}'.format('a', 'b')
'{x} {y[0]} {z.a}'.format(x=1, y=[2], z={'a': 3}) ;; '{:>5}|{:<5}|{:^5}|'.format('a', 'b', 'c')
'{:05d} {:+} {:,} {:x} {:#x} {:b}'.format(42, 5, 1234567, 255, 255, 5)
'{:.2f} {:e} {:g} {:%} {:10.3f} {:.0f} {:.3}'.format(3.14159, 1234.5, 0.00001, 0.25, 2.5, 2.5, 'abcdef') ;; '{{}} {!r} {!s}'.format('a', 'b')
'{'.format() ;; '}'.format() ;; '{} {}'.format(1) ;; '{nope}'.format() ;; '{:*^9}'.format('mid') ;; '{:d}'.format('a') ;; '{:s}'.format(1)
'{:>{w}}'.format('x', w=4) ;; '{} {0}'.format(1) ;; '{:_}'.format(1234567) ;; '12'.isdigit() ;; ''.isdigit() ;; '1²'.isdigit() ;; '1²'.isdecimal()
'½'.isnumeric() ;; 'ab1'.isalnum() ;; 'ab'.isalpha() ;; 'é'.isalpha() ;; 'a b'.isalpha() ;; ' \t'.isspace() ;; 'aB'.islower() ;; 'ab1'.islower()
'AB'.isupper() ;; '1'.isupper() ;; 'é'.isascii() ;; ''.isascii() ;; 'a'.isascii() ;; 'a-b-c'.partition('-') ;; 'a-b-c'.rpartition('-')
'abc'.partition('-') ;; 'abc'.rpartition('-') ;; 'abc'.removeprefix('a') ;; 'abc'.removeprefix('b') ;; 'abc'.removesuffix('bc') ;; 'a'.ljust(3) ~ '|'
'a'.rjust(3, '.') ;; '-5'.zfill(4) ;; '5'.zfill(3) ;; '+'.zfill(3) ;; s.upper().lower().title() ;; s.nope() ;; 'a'.ljust('b') ;; 'ab'.casefold()
length is defined ;; s.encode is callable ;; s.split('o')[0].strip().upper() ;; 'a'.replace('a', none) ;; u.encode is defined''',
    'other methods': r'''
d.keys() ;; d.values() ;; d.items() ;; d.keys()|list ;; d['items']|list ;; d.items()|list ;; d.get('a') ;; d.get('zz') ;; d.get('zz', 5) ;; d.get()
d.get('a', 1, 2) ;; ed.items() ;; ed.keys()|list ;; d.items()|length ;; d.items()|first ;; d.keys()[0] is defined ;; d.copy() ;; l.copy()
l.index(1) ;; l.index(99) ;; l.count(1) ;; (1, 2, 1).count(1) ;; (1, 2).index(2) ;; l.sort() ;; d.values()|list ;; 'a' in d.keys() ;; 1 in d.values()
('b', 1) in d.items() ;; d.get([1]) ;; dict(a=1) ;; dict({'a': 1}, b=2) ;; dict([['a', 1]]) ;; dict() ;; dict(5) ;; dict(pairs) ;; range(3)
range(1, 4)|list ;; range(10, 0, -3)|list ;; range(0)|list ;; range(5)|length ;; range(3)[1] ;; range(100001) ;; range(1, 2, 0) ;; range('a')
range() ;; range(3)|join ;; range(2, 8, 2) ;; namespace(a=1) ;; namespace(a=1).a ;; namespace().x is defined ;; namespace(d).a
namespace({'k': 'v'}).k ;; raise_exception('stop ' ~ n) ;; raise_exception(n) ;; raise_exception() ;; strftime_now('%Y-%m-%d')
strftime_now('%d %b %Y, %A %B %j') ;; strftime_now('') ;; strftime_now('%H:%M') ;; strftime_now('%%') ;; strftime_now('é %d')''',
    'percent': r'''
'%s' % 'a' ;; '%s %s' % ('a', 1) ;; '%s' % [1, 'b'] ;; '%d' % 3.7 ;; '%5d|%-5d|%05d' % (42, 42, 42) ;; '%+d % d' % (1, 2)
'%x %X %o %#x' % (255, 255, 8, 255) ;; '%.2f %e %g %G' % (3.14159, 1234.5, 1e-10, 1e20) ;; '%5.1f|' % 2.25 ;; '%r %s' % ('a', 'b')
'%c%c' % ('a', 66) ;; '%%' % () ;; '%s' % () ;; '%s' % (1, 2) ;; '%(a)s %(b)05d' % {'a': 'x', 'b': 7} ;; '%(no)s' % {'a': 1} ;; '%s' % {'a': 1}
'%d' % 'a' ;; '%z' % 1 ;; '%' % 1 ;; 'abc' % () ;; 'abc' % 1 ;; 'abc' % {} ;; '%*d' % (5, 42) ;; '%.3s|' % 'abcdef' ;; '%5s|%-5s|' % ('a', 'b')
'%s' % none ;; '%s' % true ;; '%d' % true ;; '%i' % 5 ;; '%.3d' % 5 ;; '%s' % u ;; '%5s|' % greek ;; '%.0f' % 0.5 ;; '%.0f' % 1.5''',
    'text filters': r'''
s|upper ;; s|lower ;; 'aBC dEF'|capitalize ;; s|title ;; "foo-bar (baz) [qux] it's <x>"|title ;; n|upper ;; none|upper ;; nosuch|upper ;; w|trim
'xxaxx'|trim('x') ;; nosuch|trim ;; none|trim ;; s|replace('o', '0') ;; s|replace('o', '0', 1) ;; 12321|replace(2, 'x') ;; s|replace('l', '')
nosuch|replace('a', 'b') ;; s|center(20) ;; 'a'|center(4) ;; '%s-%d'|format('a', 5) ;; '%(a)s'|format(a=1) ;; 'x'|format(1) ;; lines|indent
lines|indent(2, true) ;; lines|indent(2, blank=true) ;; lines|indent('> ') ;; lines|indent(width=1, first=true) ;; ''|indent ;; nosuch|indent
5|indent ;; 'a\n\nb'|indent(2) ;; s|string ;; n|string ;; none|string ;; l|string ;; q|escape ;; q ;; e ;; '<'|escape ~ '<' ;; ('<'|safe) + '<'
'<'|safe ;; '<'|escape|escape ;; '<'|forceescape ;; s|wordcount ;; "don't stop, now"|wordcount ;; ''|wordcount ;; s|length ;; u|length ;; s|count
5|length ;; none|length ;; nosuch|length ;; l|length ;; d|length ;; s|first ;; s|last ;; ''|first ;; s|reverse ;; u|reverse ;; s|list
'ab'|join('-') ;; n|abs ;; m|abs ;; -2.5|abs ;; s|abs ;; nosuch|abs ;; true|abs ;; 'a'|nosuchfilter''',
    'number filters': r'''
'42'|int ;; ' 42 '|int ;; '4_2'|int ;; '_4'|int ;; 'x'|int ;; 'x'|int(5) ;; 'x'|int(default=6) ;; '1.9'|int ;; '-1.9'|int ;; '1e3'|int
'ff'|int(0, 16) ;; '0xff'|int(0, 16) ;; '0b11'|int(0, 2) ;; '0x1f'|int(0, 0) ;; 2.9|int ;; -2.9|int ;; true|int ;; none|int ;; nosuch|int ;; []|int
''|int ;; 'inf'|int ;; 'nan'|int ;; '1'|float ;; '1.5'|float ;; 'x'|float ;; 'x'|float(2.5) ;; 'inf'|float ;; '-inf'|float ;; 'nan'|float
'1e5'|float ;; '1_0.5'|float ;; none|float ;; nosuch|float ;; 3|float ;; ' 2.5 '|float ;; '+3'|int ;; '--3'|int ;; 2.5|round ;; 3.5|round
2.675|round(2) ;; 42|round ;; 42.55|round(1) ;; 42.55|round(1, 'floor') ;; 42.1|round(0, 'ceil') ;; 42|round(0, 'floor') ;; 1234.5|round(-2)
1250|round(-2) ;; 1350|round(-2) ;; -2.5|round ;; 1e20|round ;; 'a'|round ;; 2.5|round(0, 'nope') ;; 0.5|round ;; 1.5|round ;; true|round
third|round(3) ;; 1.005|round(2) ;; 123.456|round(1) ;; [1, 2]|sum ;; l|sum ;; []|sum ;; [1.5, 2]|sum ;; ['a']|sum ;; [[1], [2]]|sum(start=[])
people|sum(attribute='age') ;; people|sum('age', 100) ;; l|min ;; l|max ;; names|min ;; names|max ;; names|max(case_sensitive=true) ;; []|min
[1, 'a']|max ;; people|min(attribute='age') ;; s|max''',
    'list filters': r'''
l|join ;; l|join(', ') ;; names|join(', ') ;; mixed|join('|') ;; people|join(', ', attribute='name') ;; people|join(attribute='age', d='-')
none|join ;; nosuch|join ;; d|join(',') ;; 5|join ;; l|first ;; l|last ;; []|first ;; []|last ;; []|first is defined ;; d|first ;; d|last
range(3)|last ;; none|first ;; l|list ;; d|list ;; s|list ;; none|list ;; nosuch|list ;; l|reverse|list ;; l|reverse|join ;; d|reverse|list ;; l|sort
names|sort ;; names|sort(case_sensitive=true) ;; l|sort(reverse=true) ;; people|sort(attribute='age')|map(attribute='name')|list
people|sort(attribute='age,name', reverse=true)|map(attribute='name')|list ;; people|sort(attribute='name')|map(attribute='name')|join ;; mixed|sort
[]|sort ;; d|sort ;; 'banana'|sort|join ;; [true, 0, 2.5, -1]|sort ;; [[2], [1, 5], [1]]|sort ;; [none]|sort ;; [none, none]|sort ;; names|unique|list
names|unique(case_sensitive=true)|list ;; [1, 1.0, true, 2]|unique|list ;; people|unique(attribute='age')|map(attribute='name')|list
[[1]]|unique|list ;; 'abAB'|unique|join ;; d|dictsort ;; d|dictsort(by='value') ;; {'b': 2, 'a': 3, 'C': 1}|dictsort
{'b': 2, 'a': 3, 'C': 1}|dictsort(true) ;; {'b': 2, 'a': 3}|dictsort(by='value') ;; {'b': 2, 'a': 3}|dictsort(reverse=true) ;; d|dictsort(by='x')
l|dictsort ;; d|items|list ;; l|items|list ;; nosuch|items|list ;; l|batch(2)|list ;; l|batch(2, 0)|list ;; range(7)|batch(3, 'x')|list
l|slice(2)|list ;; range(7)|slice(3)|list ;; range(7)|slice(3, 'x')|list ;; people|groupby('age') ;; people|groupby('age')|map('first')|list
people|groupby('age')|map('last')|map('length')|list ;; people|groupby('nope', default=1)|length ;; s|default('x') ;; nosuch|default('x')
nosuch|default ;; nosuch|d('y') ;; e|default('x') ;; e|default('x', true) ;; none|default('x') ;; none|default('x', true) ;; nosuch.y|default('x')
d.nope|default('x') ;; 0|default(5, boolean=true) ;; nosuch|default(none) ;; nosuch|default(default_value='k') ;; d|attr('keys') is defined
d|attr('a') is defined ;; namespace(k=3)|attr('k') ;; people[0]|attr('nope') is defined''',
    'choice filters': r'''
names|map('upper')|list ;; names|map('upper')|join(' ') ;; people|map(attribute='name')|list ;; people|map(attribute='tags')|list|length
people|map(attribute='nope', default='-')|list ;; people[:1]|map(attribute='tags.0')|first ;; [['a', 'b']]|map('join', '+')|first
names|map('replace', 'a', 'A')|list ;; ['1', '2']|map('int')|sum ;; names|map|list ;; names|map('nope')|list ;; none|map('upper')|list
nosuch|map('upper')|list ;; l|select|list ;; [0, 1, '', 'a', none]|select|list ;; [0, 1, '', 'a', none]|reject|list ;; l|select('odd')|list
l|reject('odd')|list ;; l|select('>', 1)|list ;; l|select('divisibleby', 2)|list ;; names|select('equalto', 'beta')|list
names|select('in', ['beta', 'gamma'])|list ;; mixed|select('string')|list ;; mixed|reject('none')|list|length ;; l|select('nope')|list
people|selectattr('tags')|map(attribute='name')|list ;; people|selectattr('tags', 'defined')|map(attribute='name')|list
people|rejectattr('tags')|map(attribute='name')|list ;; people|selectattr('age', 'equalto', 30)|list|length
people|selectattr('age', '==', 25)|map(attribute='name')|first ;; people|rejectattr('age', 'gt', 26)|list|length
messages|selectattr('role', 'equalto', 'user')|list|length ;; messages|rejectattr('role', 'in', ['system', 'tool'])|map(attribute='role')|join(',')
people|selectattr|list ;; people|map(attribute='name')|map('lower')|sort|join ;; (names|map('upper'))[0] is defined ;; names|map('upper')|length
(names|select('in', 'a')) is defined ;; (el|map('upper')) is defined ;; ('x' if (el|select) else 'y') ;; names|map('length')|sort|list
d|map('upper')|list ;; s|map('upper')|join''',
    'json': r'''
s|tojson ;; q|tojson ;; u|tojson ;; u|tojson(ensure_ascii=true) ;; q|tojson(true) ;; n|tojson ;; f|tojson ;; t|tojson ;; nil|tojson ;; l|tojson
mixed|tojson ;; d|tojson ;; ed|tojson ;; el|tojson ;; nested|tojson(indent=2) ;; nested|tojson(indent=0) ;; mixed|tojson(indent=4)
nested|tojson(indent='\t') ;; tool|tojson ;; tool|tojson(indent=4) ;; d|tojson(separators=(',', ':'))
nested|tojson(indent=1, separators=(';', '=')) ;; d|tojson(sort_keys=true) ;; (1, 2)|tojson ;; {1: 2, none: 3, true: 4, 1.5: 5}|tojson
nosuch|tojson ;; range(2)|tojson ;; d.items()|tojson ;; d.items()|list|tojson ;; namespace()|tojson ;; names|map('upper')|tojson ;; s.upper|tojson
'inf'|float|tojson ;; 'nan'|float|tojson ;; tiny|tojson ;; huge|tojson ;; big|tojson ;; 1.0|tojson ;; messages|tojson ;; {'x': ()}|tojson(indent=2)
[[]]|tojson(indent=2) ;; '\x7f/\u2028'|tojson ;; '\x7f\u2028'|tojson(ensure_ascii=true) ;; {(1, 2): 3}|tojson
messages[2].tool_calls[0].function.arguments|tojson ;; l|tojson(none, 2) ;; d|tojson(indent=none) ;; d|tojson(indent=true)
{'b': 1, 'a': {'d': 1, 'c': 2}}|tojson(sort_keys=true, indent=2) ;; {'a': 1, 2: 3}|tojson(sort_keys=true) ;; l|tojson(nope=1)''',
    'printing': r'''
l ;; d ;; mixed ;; (1,) ;; () ;; tiny ;; huge ;; big ;; third ;; f ;; 1e15 ;; 123456789012345680.0 ;; 1e-4 ;; 0.00001 ;; [0.1, 1e300] ;; ['it\'s']
['"'] ;; ['\'"'] ;; [q] ;; [u] ;; ['\x7f\x80\xa0\u2028\U000e0001\n'] ;; {'a': 'b', 1: none} ;; nested ;; people ;; [nosuch] ;; {'u': nosuch}
[true, none] ;; range(1, 9, 2) ;; namespace(a='x', b=[1]) ;; [namespace(a=1)] ;; ((1, 2), [3]) ;; [()] ;; t ;; nil ;; -0.0 ;; [-0.0] ;; 'inf'|float
d.keys() ;; 1.10 ;; 100.0 ;; 1e2''',
    'tests': r'''
s is defined ;; nosuch is defined ;; nosuch is undefined ;; s is not defined ;; s is string ;; n is string ;; n is number ;; f is number
t is number ;; n is integer ;; t is integer ;; f is integer ;; f is float ;; n is float ;; t is boolean ;; n is boolean ;; t is true ;; 1 is true
no is false ;; 0 is false ;; nil is none ;; nosuch is none ;; d is mapping ;; l is mapping ;; l is sequence ;; s is sequence ;; d is sequence
n is sequence ;; nosuch is sequence ;; l is iterable ;; n is iterable ;; s is iterable ;; nosuch is iterable ;; range(2) is sequence
(l|map('string')) is sequence ;; (l|map('string')) is iterable ;; n is odd ;; n is even ;; z is even ;; s is odd ;; n is divisibleby 7
n is divisibleby(3) ;; n is eq 7 ;; n is equalto(7) ;; n is ne 7 ;; n is gt 3 ;; n is lt 3 ;; n is ge 7 ;; n is le 7 ;; n is greaterthan 3
n is lessthan 3 ;; n is sameas 7 ;; nil is sameas none ;; t is sameas true ;; 1 is sameas true ;; 'a' is in 'abc' ;; 1 is in [1] ;; n is in(l)
'abc' is lower ;; 'ABC' is upper ;; 'aBc' is lower ;; '1' is lower ;; s.upper is callable ;; s is callable ;; range is callable ;; nosuch is callable
'upper' is filter ;; 'nope' is filter ;; 'odd' is test ;; 'nope' is test ;; ('<'|safe) is escaped ;; s is escaped ;; s is nosuchtest
not s is string ;; s is not string ;; n is odd and n is number ;; n is odd or nosuch.x ;; s is string and s|length > 3 ;; n is not divisibleby 2
nil is not none ;; m is odd ;; 2.0 is even ;; d.keys() is sequence ;; d.items() is iterable ;; messages[0].content is string
messages[2].tool_calls is iterable and messages[2].tool_calls|length > 0 ;; (1, 2) is sequence ;; s is eq 'Hello World' ;; n is divisibleby
namespace() is mapping ;; namespace() is defined''',
    'precedence': r'''
1 + 2|string ;; (1 + 2)|string ;; -1|abs ;; -n|abs ;; 'a' ~ 'b'|upper ;; not s|length == 0 ;; s|length + 1 ;; 1 + s|length * 2 ;; 'x' in s|lower
l|first + 1 ;; n is number and f is float ;; 1 if n is odd else 2 ;; d.a|upper ~ d.a ;; (s|upper)[0] ;; s.upper()[0:2] ;; s|upper|lower|first
[1, 2]|join(',') ~ '.' ;; 2 + 3 * 4 ** 2 // 5 % 7 ;; 10 - 2 - 3 ;; 2 * 3 % 4 ;; 1 < 2 == true ;; not 1 < 2 ;; 1 + 1 == 2 and 2 > 1 ;; not none is none
s is string == true ;; n|string is string ;; n ~ n|length ;; -f|round ;; s|replace('l', 'L')|upper|list|length ;; (n, f)|length ;; {'a': 1}['a'] + 1
[1, 2][0]|string + 'x' ;; l|map('string')|join|length ;; n if n > 3 else f if f > 1 else z ;; 'a' 'b'|upper ;; n - -m ;; n--m''',
}

TEMPLATES = {
    'white space': [
        'a{% if t %}b{% endif %}c', 'a\n{% if t %}\nb\n{% endif %}\nc', '  {% if t %}  x  {% endif %}  y', 'a  {%- if t -%}  b  {%- endif -%}  c',
        '\n\n  {%- if t %}\n\nx{% endif %}\n', 'a\n  {%+ if t %}\n  b\n  {%+ endif %}\nc', '{% if t +%}\nx{% endif +%}\ny', '{{ s }}\n{{ s }}\n', ' {{ s }} \n\n',
        '  {{- s -}}  ', 'a {{- s }} b', 'a {{ s -}} b', '{# c #}x', 'a\n{# c #}\nb', 'a  {# c #}  b', '  {# c #}\nb', 'a {#- c -#} b', '{# {{ x }} {% if %} #}y',
        'x\n{#+ c +#}\ny', 'line\r\nline\rline\n', 'end\n\n', '\n', '', 'a\t\t{% set x = 1 %}\t\nb', '{% set x = 1 %}\n\n\nb', '{%-set x = 1-%} b', '{{"}}"}}', '{{ "%}" }}', '{% set x = "%}" %}{{ x }}',
        '{{ {"a": {"b": 1}} }}', '{{ {"a": {"b": 1}}["a"]["b"] }}', '{% raw %}{{ x }} {% if %}{% endraw %}', 'a\n  {% raw %}\n x\n  {% endraw %}\nb', ' {%- raw -%} {{ x }} {%- endraw -%} b', '{% raw %}unclosed', '{# open', '{{ s', '{% if t', '}}', '%}', '#}', '{ { s } }',
        'é {%- if t %} ü {% endif %}', 'a \u2003{%- if t %}b{% endif %}', 'a{% if t %}  \n  b{% endif %}', '   {% if t %}\n   x\n   {% endif %}\n   y', 'x{{ s }}\n  {% for i in l %}\n  {{ i }}\n  {% endfor %}\n',
        '{% for i in l -%}\n{{ i }}\n{%- endfor %}', '{%- for i in l %}\n  {{- i }}\n{%- endfor %}', '{{-1}}', '{{ -1 }}', '{{+1}}', '{%  if   t   %}x{%endif%}', '{%\nif t\n%}x{%\nendif\n%}', '{{\n s\n}}', '{% if t: %}x{% endif %}', 'a{#-#}b', '{##}x', '{# a -#}  \n  b', '  {%- raw %}  x{% endraw %}',
        '{% if t %}\n\n{% endif %}', '{{ "a" -}}\n\n{{- "b" }}', '{{ "a" }}\n\n{{ "b" }}', 'x\n\t {%- set a = 1 %}\n y', 'x   {%+ set a = 1 %} y', '{% set a = 1 %}   \n y',
    ],
    'conditions': [
        '{% if n > 5 %}big{% elif n > 2 %}mid{% else %}small{% endif %}', '{% if no %}a{% elif nosuch %}b{% elif l %}c{% else %}d{% endif %}', '{% if no %}x{% endif %}', '{% if t %}{% if no %}a{% else %}b{% endif %}{% endif %}', '{% if nosuch.x %}a{% endif %}', '{% if %}a{% endif %}', '{% if t %}a',
        '{% if t %}a{% else %}b{% else %}c{% endif %}', '{% endif %}', '{% elif t %}', '{% if t %}a{% endfor %}', '{% if 1, 2 %}tuple{% endif %}', '{% if t and not no or nosuch %}y{% endif %}', '{% if not nosuch is defined %}y{% endif %}', '{% if messages[0]["role"] == "system" %}{{ messages[0].content }}{% endif %}', '{% nope %}', '{% %}', '{% 1 %}',
        '{% if t %}{% set a = 1 %}{% endif %}{{ a }}', '{% if no %}{% set a = 1 %}{% endif %}{{ a is defined }}', '{% if "" %}a{% else %}b{% endif %}', '{% if 0.0 %}a{% else %}b{% endif %}', '{% if [] or {} %}a{% else %}b{% endif %}', '{% include "x" %}', '{% extends "x" %}', '{% import "x" as y %}',
    ],
    'loops': [
        '{% for i in l %}{{ i }},{% endfor %}', '{% for i in [] %}x{% else %}empty{% endfor %}', '{% for i in l %}x{% else %}empty{% endfor %}', '{% for i in nosuch %}x{% else %}none{% endfor %}', '{% for i in nil %}x{% endfor %}', '{% for i in 5 %}x{% endfor %}', '{% for c in s %}{{ c }}.{% endfor %}', '{% for k in d %}{{ k }};{% endfor %}',
        '{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}', '{% for k, v in d|dictsort %}{{ k }};{% endfor %}', '{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}', '{% for a, b in [(1, 2, 3)] %}x{% endfor %}', '{% for a, b in [(1,)] %}x{% endfor %}', '{% for a, b in ["xy"] %}{{ a }}-{{ b }}{% endfor %}', '{% for a, b in [5] %}x{% endfor %}',
        '{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}', '{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }};{% endfor %}', '{% for i in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}', '{% for i in l %}{{ loop.cycle("a", "b") }}{% endfor %}',
        '{% for i in [1, 1, 2, 2, 1] %}{{ loop.changed(i) }} {% endfor %}', '{% for i in l %}{{ loop.cycle() }}{% endfor %}', '{% for i in l %}{{ loop.nope is defined }}{% endfor %}', '{% for i in l if i > 1 %}{{ i }}{{ loop.index }}{{ loop.last }};{% endfor %}', '{% for i in l if i > 9 %}x{% else %}none{% endfor %}', '{% for i in l %}{% for j in l %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}',
        '{% for i in l %}{% set outer = loop %}{% for j in "ab" %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}', '{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}', '{% for i in l %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}', '{% for i in l %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %}', '{% for i in l %}{% for j in l %}{% if j == 1 %}{% break %}{% endif %}{{ j }}{% endfor %}|{% endfor %}', '{% break %}', '{% continue %}',
        '{% for i in l %}{{ i }}{% endfor %}{{ i is defined }}', '{{ loop is defined }}', '{% for i in l %}{% endfor %}{{ loop is defined }}', '{% for i in range(3) %}{{ i }}{% endfor %}', '{% for i in (1, 2) %}{{ i }}{% endfor %}', '{% for i in 1, 2 %}{{ i }}{% endfor %}', '{% for x in l|sort %}{{ x }}{% endfor %}', '{% for x in l|map("string") %}{{ x }}{{ loop.length }}{% endfor %}', '{% for x in l|reverse %}{{ x }}{{ loop.last }}{% endfor %}',
        '{% set g = l|map("string") %}{% for a in g %}{{ a }}{% endfor %}|{% for a in g %}{{ a }}{% endfor %}', '{% set g = l|map("string") %}{{ g|first }}{{ g|list }}{{ g|list }}', '{% set g = l|select %}{{ 1 in g }}{{ 1 in g }}', '{% for m in messages %}{{ loop.index0 }}{{ m.role }}{% if not loop.last %},{% endif %}{% endfor %}', '{% for m in messages[1:] %}{{ m["role"] }} {% endfor %}', '{% for m in messages[::-1] %}{{ m["role"] }} {% endfor %}', '{% for in l %}{% endfor %}', '{% for i l %}{% endfor %}', '{% for i in l %}',
        '{% for 1 in l %}{% endfor %}', '{% for a.b in l %}{% endfor %}', '{% for i in l %}{{ loop|length }}{% endfor %}', '{% for i in l %}{{ loop }}{% break %}{% endfor %}', '{% for l in l %}{{ l }}{% endfor %}{{ l }}', '{% for i in l if i is odd %}{% for j in l if j != i %}{{ i }}{{ j }} {% endfor %}{% endfor %}', '{% for i in l %}{% for j in [loop.index] %}{{ j }}{% endfor %}{% endfor %}', '{% for i in l if no else l %}{{ i }}{% endfor %}', '{% for i in l %}{% if loop.first %}a{% elif loop.last %}z{% else %}m{% endif %}{% endfor %}',
        '{% for i in d.items() %}{{ i[0] }}{{ i|length }}{% endfor %}', '{% for k, v in {} .items() %}x{% else %}none{% endfor %}', '{% for i in l %}{% set loop = 5 %}{{ loop }}{% endfor %}', '{% for i in l %}{{ loop.index is odd }}{{ loop["index"] }}{% endfor %}', '{% for i in lines.splitlines() %}[{{ i }}]{% endfor %}', '{% for i in nested %}{{ nested[i] }}{% endfor %}',
    ],
    'set': [
        '{% set x = 5 %}{{ x }}', '{% set x, y = 1, 2 %}{{ x }}{{ y }}', '{% set x = 1, 2 %}{{ x }}', '{% set (a, b) = [3, 4] %}{{ a }}{{ b }}', '{% set x, y = [1] %}', '{% set x = 1 %}{% set x = x + 1 %}{{ x }}', '{% set ns = namespace(a=1) %}{% set ns.a = ns.a + 1 %}{{ ns.a }}', '{% set ns = namespace() %}{% for i in l %}{% set ns.last = i %}{% endfor %}{{ ns.last }}', '{% set d.a = 1 %}', '{% set nosuch.a = 1 %}',
        '{% set ns = namespace(x=0, y="a") %}{% for i in l %}{% set ns.x = ns.x + i %}{% set ns.y = ns.y ~ i %}{% endfor %}{{ ns.x }}{{ ns.y }}', '{% set x %}block {{ n }}{% endset %}[{{ x }}]', '{% set x | upper %}block {{ s }}{% endset %}{{ x }}', '{% set x | replace("a", "b") | upper %}banana{% endset %}{{ x }}', '{% set x %}{% set y = 1 %}{% endset %}{{ y is defined }}', '{% set x = y = 1 %}', '{% set 1 = 2 %}', '{% set x %}', '{% set none = 1 %}', '{% set x = %}',
        '{% set x = "a" if no else "b" %}{{ x }}', '{% set x = [1, 2] + [3] %}{{ x }}', '{% set x = {"a": [1]} %}{{ x.a[0] }}', '{% set ns = namespace(found=false) %}{% for m in messages %}{% if m.role == "tool" %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.found }}', '{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}', '{% set s = "shadow" %}{{ s }}', '{% for i in l %}{% set s = i %}{% endfor %}{{ s }}', '{% set range = 5 %}{{ range }}', '{% set ns = namespace(a=[]) %}{% for i in l %}{% set ns.a = ns.a + [i * 2] %}{% endfor %}{{ ns.a }}',
        '{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x is defined }}', '{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}', '{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}', '{% print 1, "a", s %}', '{% set ns = namespace(a=1) %}{{ ns["a"] }}{{ ns.zz is defined }}', '{% set x = messages[2].content.split("</think>") %}{{ x[-1] }}|{{ x[0].lstrip("<think>") }}', '{% set ns = namespace(f=1) %}{% macro g() %}{% set ns.f = 2 %}{% endmacro %}{{ g() }}{{ ns.f }}', '{% set ns = namespace() %}{% set ns.self = ns %}{{ ns.self.self is defined }}',
    ],
    'macros': [
        '{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=4, a=5) }}', '{% macro m() %}x{% endmacro %}{{ m(1) }}', '{% macro m() %}x{% endmacro %}{{ m(a=1) }}', '{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m() }}', '{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}', '{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(7) }}', '{% macro m(a) %}{{ varargs }}{% endmacro %}{{ m(1, 2, 3) }}', '{% macro m(a) %}{{ kwargs }}{% endmacro %}{{ m(1, k=3) }}', '{% macro m() %}{{ kwargs.x|default("none") }}{% endmacro %}{{ m() }}{{ m(x=1) }}',
        '{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}in {{ s }}{% endcall %}', '{% macro m() %}{{ caller(1, b=2) }}{% endmacro %}{% call(a, b) m() %}{{ a }}{{ b }}{% endcall %}', '{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}', '{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}', '{% macro m() %}{% if caller %}{{ caller() }}{% else %}no{% endif %}{% endmacro %}{{ m() }}{% call m() %}yes{% endcall %}', '{% macro m(x) %}{{ x }}{% if x > 0 %}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(3) }}', '{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}',
        '{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}', '{% macro m() %}{% set y = 1 %}{% endmacro %}{{ m() }}{{ y is defined }}', '{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}', '{% macro m() %}{{ loop is defined }}{% endmacro %}{% for i in l %}{{ m() }}{% endfor %}', '{{ m() }}{% macro m() %}late{% endmacro %}', '{% macro m() %}  a  {% endmacro %}[{{ m() }}]', '{% macro m() -%}  a  {%- endmacro %}[{{ m() }}]', '{% macro m() %}a{% endmacro %}{{ m()|upper }}{{ m() ~ m() }}{{ m()|length }}{{ m() + "b" }}',
        '{% macro m(a=1, b) %}{% endmacro %}', '{% macro m( %}{% endmacro %}', '{% macro %}{% endmacro %}', '{% macro m() %}', '{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{"a": 3, "b": 4}) }}{{ m(5, **{"b": 6}) }}', '{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}', '{% macro m(l) %}{% for x in l %}{{ x }}{% if x is iterable and x is not string %}({{ m(x) }}){% endif %}{% endfor %}{% endmacro %}{{ m([1, [2, [3]]]) }}', '{% macro outer() %}{% macro inner() %}i{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}{{ inner is defined }}',
        '{% call nosuch() %}x{% endcall %}', '{% call s %}x{% endcall %}', '{% filter upper %}abc {{ s }}{% endfilter %}', '{% filter replace("a", "b") | upper %}banana{% endfilter %}', '{% filter indent(2) %}a\nb\n{% endfilter %}', '{% filter nope %}x{% endfilter %}', '{% generation %}a{{ s }}{% endgeneration %}', '{% generation %}{% set g = 1 %}{% endgeneration %}{{ g is defined }}', '{%- generation -%}  x  {%- endgeneration -%}  y', '{% for m in messages %}{% generation %}{{ m.role }}{% endgeneration %} {% endfor %}', '{% set f = s.upper %}{{ f() }}', '{% set f = range %}{{ f(2)|list }}',
        '{% macro m(a) %}{{ a }}{% endmacro %}{% for i in l %}{{ m(i) }}{% endfor %}', '{% macro m(a, b="x y") %}{{ a|default(b) }}{% endmacro %}{{ m() }}{{ m(none) }}', '{% macro t(x) %}{% if x is mapping %}{{ "{" }}{% for k, v in x.items() %}{{ k }}:{{ t(v) }}{{ "," if not loop.last }}{% endfor %}{{ "}" }}{% elif x is string %}"{{ x }}"{% else %}{{ x }}{% endif %}{% endmacro %}{{ t({"a": {"b": "c"}, "d": 1}) }}', '{% macro m() %}{{ varargs|length }}{{ kwargs|length }}{% endmacro %}{{ m(1, 2, x=3) }}',
    ],
    'syntax errors': [
        '{{ }}', '{{ 1 + }}', '{{ (1 }}', '{{ [1 }}', '{{ {1} }}', '{{ 1 2 }}', '{{ a b }}', '{{ "abc }}', "{{ 'a\\' }}", '{{ 1 | }}', '{{ 1 is }}', '{{ a. }}', '{{ a[ }}', '{{ f(1 }}', '{{ f(a=1, 2) }}', '{{ f(a=1, a=2) }}', '{{ f(*a, *b) }}', '{{ f(**a, *b) }}', '{{ ) }}', '{{ (] }}', '{{ 1 if }}', '{{ 1 if 2 else }}', '{{ not }}', '{{ @ }}', '{{ $x }}', '{{ a ? b : c }}', '{{ a && b }}', '{{ !a }}', '{{ a; b }}', '{{ x is y is z }}', '{% for i in %}{% endfor %}', '{% set %}', '{% if t %}{% endif', '{{ 1 = 1 }}', '{{ "\\x4" }}', '{{ .5 }}', '{{ 5. }}', '{{ a..b }}', '{{ [1,,2] }}', '{{ {"a" 1} }}', '{{ {,} }}', '{{ (,) }}', '{% endmacro %}', '{% macro 1() %}{% endmacro %}', '{{ a.1.2 }}', '{{ 1.upper() }}', '{{ f(,) }}', '{{ f(1,) }}', '{{ x|f. }}', '{{ loop.', '{% raw', '{%', '{{',
    ],
    'real': [
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
        "{%- if messages[0]['role'] == 'system' -%}\n    {%- set sys = messages[0]['content'] | trim + '\\n\\n' -%}\n    {%- set rest = messages[1:] -%}\n{%- else -%}\n    {%- set sys = '' -%}\n    {%- set rest = messages -%}\n{%- endif -%}\n{%- for m in rest -%}\n    {%- if loop.first %}{{ sys }}{% endif -%}\n    {{ '<' ~ m.role ~ '>' }}\n    {%- if m.tool_calls is defined and m.tool_calls %}\n        {%- for c in m.tool_calls %}\n            {{- '\\n<call>' ~ c.function.name ~ ' ' ~ (c.function.arguments | tojson) ~ '</call>' }}\n        {%- endfor %}\n    {%- endif %}\n    {{- m.content | trim }}\n{% endfor -%}",
        "{%- macro render(v, depth=0) %}\n{%- if v is mapping %}\n{%- for k, x in v|items %}\n{{ '  ' * depth }}- {{ k }}:\n{{- render(x, depth + 1) }}\n{%- endfor %}\n{%- elif v is sequence and v is not string %}\n{%- for x in v %}{{ render(x, depth) }}{% if not loop.last %} | {% endif %}{% endfor %}\n{%- else %} {{ v }}{% endif %}\n{%- endmacro %}\n{{ render(tool.function.parameters) }}",
        "{%- set ns = namespace(last=-1, multi=true) %}\n{%- for message in messages[::-1] %}\n{%- set index = (messages|length - 1) - loop.index0 %}\n{%- if ns.multi and message.role == 'user' and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}\n{%- set ns.multi = false %}\n{%- set ns.last = index %}\n{%- endif %}\n{%- endfor %}\n{{ ns.last }}",
        "{%- for m in messages if m.role != 'system' %}\n{%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}\n{{- raise_exception('Roles must alternate: ' ~ m.role) }}\n{%- endif %}\n{{ m.role }}\n{%- endfor %}",
        "{%- if '</think>' in messages[2].content %}{% set thought = messages[2].content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}{% set said = messages[2].content.split('</think>')[-1].lstrip('\\n') %}{% endif %}[{{ thought }}][{{ said }}]",
        "Today is {{ strftime_now('%d %b %Y') }}.{% if tools is not none %}{{ tools|default([])|length }}{% endif %}{{ date_string if date_string is defined else 'x' }}",
        "{{- bos_token }}{%- for t in [tool] %}{{ t | tojson(indent=4) }}{{ '\\n\\n' }}{%- endfor %}{{ tool.function | tojson(separators=(',', ':')) }}",
        "{%- for k, v in tool.function.parameters.properties|dictsort %}{{ k }}: {{ v.type if v.type is string else v.type|join('|') }}{{ ' = ' ~ v.default if v.default is defined }}{{ v.enum|map('tojson')|join(', ') }}{% endfor %}",
        "{%- for message in messages %}{%- if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}{{ part.text }}{% endfor %}{% endif %}{%- if message['tool_calls'] is defined %}{{ message.tool_calls[0]['function']['arguments'].items()|list }}{% endif %}{% endfor %}",
    ],
}



class Tracker(jinja2.ext.Extension):
    """The tag generation, which prints its body."""
    tags = {'generation'}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(['name:endgeneration'], drop_needle=True)
        call = self.call_method('_print')
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _print(self, caller):
        return caller()


class Raised(Exception):
    pass


def environment():
    import datetime

    def raise_exception(message):
        raise Raised(str(message))

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Tracker, jinja2.ext.loopcontrols])
    env.filters['tojson'] = tojson
    env.globals['raise_exception'] = raise_exception
    env.globals['strftime_now'] = lambda form: datetime.datetime.fromisoformat(DAY).strftime(form)
    return env


def case_of(env, group, template):
    case = {'group': group, 'template': template}
    try:
        case['expected'] = env.from_string(template).render(**VARIABLES)
    except Raised as error:
        case['raised'] = str(error)
    except Exception as error:
        case['failed'] = f'{type(error).__name__}: {error}'
    return case


def main():
    env = environment()
    cases = []
    for group, expressions in EXPRESSIONS.items():
        for expression in ' ;; '.join(expressions.strip().splitlines()).split(' ;; '):
            cases.append(case_of(env, group, '{{ ' + expression + ' }}'))
    for group, templates in TEMPLATES.items():
        cases += [case_of(env, group, template) for template in templates]
    made = {'day': DAY, 'variables': VARIABLES, 'cases': cases}
    with open('cases.json', 'w', encoding='utf-8') as file:
        json.dump(made, file, ensure_ascii=False, indent=0)
        file.write('\n')


if __name__ == '__main__':
    main()
