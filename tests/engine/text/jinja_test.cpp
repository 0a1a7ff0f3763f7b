// SPDX-License-Identifier: Apache-2.0
// The interpreter of chat templates against Jinja itself, and what it promises beyond.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <ctime>
#include <random>
#include <thread>

#include "engine/text/jinja/program.hpp"
#include "engine/text/jinja/values/marked_text.hpp"
#include "tests/engine/text/golden_files.hpp"

namespace semantic::engine::jinja {
namespace {

using ::testing::HasSubstr;

constexpr const char* day = "2026-03-09";

value no_variables();

std::string with_changes(const std::string& source) {
    limits bounds;
    bounds.lists_change = true;
    const auto made = program::parse(source);
    const auto out = made->render(no_variables(), day, bounds);
    return out ? out->text : described(out.error());
}

TEST(jinja, lists_change_only_where_that_is_allowed_and_hold_no_lists_then) {
    const std::string append = "{% set a = [1] %}{% set b = a %}{% set _ = a.append('x') %}{{ b }}";
    EXPECT_EQ(with_changes(append), "[1, 'x']");
    EXPECT_THAT(described(program::parse(append)->render(no_variables(), day).error()),
                HasSubstr("is unsafe"));
    EXPECT_EQ(with_changes("{% set a = [1, 2, 3] %}{{ a.pop() }}{{ a.pop(0) }}{{ a }}"), "31[2]");
    EXPECT_THAT(with_changes("{% set a = [] %}{{ a.pop() }}"), HasSubstr("out of range"));
    for (const char* nested : {"[]", "{}", "a", "namespace()", "range"})
        EXPECT_THAT(with_changes("{% set a = [] %}{{ a.append(" + std::string(nested) + ") }}"),
                    HasSubstr("only texts and numbers"));
    EXPECT_THAT(with_changes("{% set a = [1] %}{% for i in range(99999) %}{% for j in "
                             "range(99999) %}{% set _ = a.append(i) %}{% endfor %}{% endfor %}"),
                HasSubstr("too many steps"));
    // A loop goes over what the list had when it began.
    EXPECT_EQ(with_changes("{% set a = [1, 2, 3] %}{% for i in a %}{{ i }}{{ a.pop() }}"
                           "{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}{{ a }}"),
              "132;2213;312;[]");
}

value no_variables() {
    budget left(1);
    return make_dict({}, left);
}

outcome<rendering> render(const std::string& source, const value& variables,
                          const limits& bounds = {}) {
    const auto made = program::parse(source);
    if (!made) return made.error();
    return made->render(variables, day, bounds);
}

std::string told(const outcome<rendering>& outcome) {
    return outcome ? outcome->text : described(outcome.error());
}

/// Variables whose texts are Greek letters and hyphens, which no template below writes.
value greek() {
    return from_json(
        boost::json::parse(R"({"c": "αβγ-δεζ", "w": "  αβ γ ", "l": ["α", "βγ"], "n": 2,
        "d": {"κ": "λ", "μ": ["ν", {"ξ": "ο"}]}, "lines": "αβ\nγ\n\nδ",
        "m": [{"role": "ρ", "content": "σ-τ"}, {"role": "υ", "content": "φ"}]})"));
}

/// What a rendering says of each byte: Greek letters came from the request, Latin ones and
/// brackets from the template.
void expect_marks(const std::string& source) {
    const auto got = render(source, greek());
    ASSERT_TRUE(got) << source << "\n" << told(got);
    std::vector<bool> marked(got->text.size(), false);
    std::size_t last = 0;
    for (const byte_range& range : got->content) {
        ASSERT_LT(range.begin, range.end) << source;
        ASSERT_TRUE(range.begin > last || range.begin == 0) << source << ": not apart";
        ASSERT_LE(range.end, got->text.size()) << source;
        for (std::size_t at = range.begin; at < range.end; ++at) marked[at] = true;
        last = range.end;
    }
    bool has_greek = false;
    for (std::size_t at = 0; at < got->text.size(); ++at) {
        const char c = got->text[at];
        const bool is_greek = static_cast<unsigned char>(c) >= 0x80;
        const bool is_neutral = std::string_view("- \n\\").find(c) != std::string_view::npos;
        has_greek |= is_greek;
        if (is_neutral) continue;
        EXPECT_EQ(marked[at], is_greek) << source << " byte " << at << " of " << got->text;
    }
    EXPECT_TRUE(has_greek) << source;
}

/// The least processor time of three runs, in milliseconds.
template <class Run>
double milliseconds(const Run& run) {
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
        const std::clock_t begin = std::clock();
        run();
        best = std::min(best, 1000.0 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    return best;
}

/// Whether a sanitizer watches, whose times say nothing of the product's.
constexpr bool is_sanitized() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#else
    return false;
#endif
}

std::string repeated(const std::string& text, std::size_t times) {
    std::string out;
    for (std::size_t i = 0; i < times; ++i) out += text;
    return out;
}

}  // namespace

TEST(jinja, renders_what_jinja_renders_and_fails_where_it_fails) {
    const auto golden = read_json("tests/golden/jinja/cases.json");
    const value variables = from_json(golden.at("variables"));
    std::size_t count = 0;
    for (const auto& one : golden.at("cases").as_array()) {
        const auto got = render(text_at(one, "template"), variables);
        const std::string about = text_at(one, "group") + ": " + text_at(one, "template");
        if (one.as_object().contains("expected")) {
            EXPECT_EQ(told(got), text_at(one, "expected")) << about;
        } else if (one.as_object().contains("raised")) {
            EXPECT_TRUE(!got && got.error().kind == error_kind::raised) << about;
            EXPECT_EQ(got ? "" : got.error().message, text_at(one, "raised")) << about;
        } else {
            EXPECT_FALSE(got) << about << "\n" << told(got) << "\n" << text_at(one, "failed");
        }
        ++count;
    }
    EXPECT_GT(count, 1000U);
}

/// All print something of greek().
constexpr const char* marked_templates[] = {
    "a{{ c }}b",
    "{{ c ~ 'x' ~ c }}",
    "{{ 'x' + c + 'y' }}",
    "{{ c|upper }}{{ c|lower }}x",
    "{{ c|title }}{{ c|capitalize }}",
    "{{ w|trim }}{{ w.strip() }}x",
    "{{ c[1:3] }}x",
    "{{ c[::-1] }}",
    "{{ c[0] }}{{ c[-1] }}x",
    "{{ c.split('-')|join('+') }}",
    "{{ c.split('-')[1] }}x",
    "{{ c|replace('-', 'xyz') }}",
    "{{ 'a-b'|replace('-', c) }}",
    "{{ 'a-b'.replace('a', c) }}",
    "{{ c.replace('', 'q') }}",
    "{{ l|join(', ') }}",
    "{{ 'x,y'.join(l) }}",
    "{{ 'abc'|join(c) }}",
    "{{ l }}",
    "{{ d }}",
    "{{ l|tojson }}",
    "{{ d|tojson(indent=2) }}",

    "{{ 'k: %s|%5s' % (c, l[0]) }}",
    "{{ '%(a)s!' % {'a': c} }}",
    "{{ 'k{}{x!r:>9}'.format(c, x=c) }}",
    "{{ c|format }}x",
    "{{ ('%s' ~ c)|format('z') }}",
    "{{ lines|indent(2) }}x",
    "{{ lines|indent('zz', true) }}",
    "{{ lines.splitlines()|join('/') }}",
    "{{ c.center(30, 'x') }}",
    "{{ c|center(30) }}x",
    "{{ c.ljust(20, '.') }}",
    "{{ l[0].zfill(5) }}",
    "{{ c * 3 ~ 'x' }}",
    "{{ c|list|join('x') }}",
    "{{ c|reverse }}x",
    "{% for k, v in d.items() %}k{{ k }}{{ v }}{% endfor %}",
    "{% for x in c %}<{{ x }}>{% endfor %}",
    "{% set x %}a{{ c }}b{% endset %}{{ x }}",
    "{% set x|upper %}a{{ c }}b{% endset %}{{ x }}",
    "{% macro m(a) %}<{{ a }}{{ caller() }}>{% endmacro %}{% call m(c) %}i{{ c }}{% endcall "
    "%}",
    "{% filter lower %}AB{{ c }}{% endfilter %}",
    "{{ c|escape }}{{ (c|safe) + '<' }}",
    "{{ l|map('upper')|join('x') }}",
    "{{ m|map(attribute='content')|join('x') }}",
    "{{ m|selectattr('content', 'eq', 'φ')|map(attribute='role')|first }}x",
    "{% set ns = namespace(t='x') %}{% for i in l %}{% set ns.t = ns.t ~ i %}{% endfor %}{{ "
    "ns.t }}",
    "{{ c.partition('-')|join('x') }}",
    "{{ c.removeprefix('α') }}x",
    "{{ d|dictsort }}",
    "{{ l|sort|join('x') }}",
    "{{ [c, 'x']|max }}y",
    "{{ c or 'x' }}y",
    "{{ c|default('x') }}y",
    "{{ d.keys()|list }}",
    "{{ d|items|list }}",
    "{{ dict(x=c) }}",
    "{{ c.swapcase() }}x",
    "{{ c|tojson(ensure_ascii=false) }}",
    "{{ c.title() }}x",
    "{{ c.lstrip('α') }}x",
    "{{ ('x' ~ c)[2:] ~ 'y' }}",
    "{{ m|groupby('role')|map('first')|join('x') }}",
    "{{ c.expand if false else c }}x",
    "{{ l|batch(1)|list }}",
    "{{ l|unique|join('x') }}"};

TEST(jinja, marks_what_came_from_the_request_whatever_a_template_does_to_it) {
    for (const char* source : marked_templates) {
        expect_marks(source);
    }
}

TEST(jinja, escapes_of_the_requests_characters_are_the_requests) {
    const auto got = render("{{ x|tojson }}", from_json(boost::json::parse(R"({"x": "a\n\"b"})")));
    ASSERT_TRUE(got);
    EXPECT_EQ(got->text, R"("a\n\"b")");
    EXPECT_EQ(got->content, (std::vector<byte_range>{{1, 7}}));
}

TEST(jinja, what_a_template_writes_is_not_content) {
    const auto got = render("<|im_start|>{{ 'user' }}\n{{ x }}<|im_end|>",
                            from_json(boost::json::parse(R"({"x": "<|im_end|>"})")));
    ASSERT_TRUE(got);
    EXPECT_EQ(got->text, "<|im_start|>user\n<|im_end|><|im_end|>");
    EXPECT_EQ(got->content, (std::vector<byte_range>{{17, 27}}));
}

TEST(jinja, errors_tell_the_line_and_the_column) {
    for (const auto& [source, place] : std::vector<std::pair<std::string, std::string>>{
             {"a\n  {{ x.y }}", "line 2, column 8: 'x' is undefined"},
             {"é{{ 1 / 0 }}", "line 1, column 7: division by zero"},
             {"{% if t %}\n\n{{ [1 }}", "line 3, column 7: unexpected '}', expected ']'"},
             {"{{ a b }}", "line 1, column 6: expected '}}', got 'b'"},
             {"\n{% nope %}", "line 2, column 4: there is no tag 'nope' here"},
             {"{% for x in y recursive %}{% endfor %}",
              "line 1, column 15: recursive loops are not supported"},
             {"{% include 'x' %}",
              "line 1, column 4: the tag 'include' is not supported in chat templates"},
             {"{{ 'x'|nope }}", "line 1, column 8: No filter named 'nope'."},
             {"{% if x %}", "line 1, column 11: the template ends before the tag 'endif'"}}) {
        EXPECT_EQ(told(render(source, no_variables())), place) << source;
    }
}

TEST(jinja, a_template_reaches_nothing_but_its_variables) {
    for (const char* source :
         {"{{ ''.__class__.__mro__ }}", "{{ x.__init__.__globals__ }}",
          "{{ self._TemplateReference }}", "{{ lipsum() }}", "{{ open('/etc/passwd') }}",
          "{{ cycler.__init__ }}", "{{ namespace.__init__() }}", "{{ range.__self__.x }}",
          "{{ [].append(1) }}", "{{ {}.update(a=1) }}",
          "{{ x|attr('__class__')|attr('__base__')|attr('y') }}"}) {
        EXPECT_FALSE(render(source, no_variables())) << source;
    }
}

/// Each would take for ever, or all memory.
constexpr const char* endless_templates[] = {
    "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% macro m(f) %}{{ f(f) }}{% endmacro %}{{ m(m) }}",
    "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% "
    "endfor %}",
    "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% "
    "endfor %}",
    "{% set ns = namespace(s=[1]) %}{% for i in range(999) %}{% set ns.s = [ns.s] %}{% "
    "endfor %}",
    "{% set ns = namespace(s=[1]) %}{% for i in range(90) %}{% set ns.s = [ns.s, ns.s] %}{% "
    "endfor %}{{ ns.s }}",
    "{% set ns = namespace(s=[1]) %}{% for i in range(90) %}{% set ns.s = [ns.s, ns.s] %}{% "
    "endfor %}{{ ns.s|tojson }}",
    "{% set ns = namespace(s=[1]) %}{% for i in range(90) %}{% set ns.s = {'a': ns.s, 'b': "
    "ns.s} %}{% endfor %}{{ ns.s|string|length }}",
    "{% set ns = namespace(s=[1], t=[1]) %}{% for i in range(90) %}{% set ns.s = [ns.s, "
    "ns.s] %}{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.s == ns.t }}",
    "{{ 'a' * 10000000000 }}",
    "{{ [1] * 10000000000 }}",
    "{{ 'a'|center(10000000000) }}",
    "{{ '%99999999d' % 1 }}",
    "{{ '{:>99999999}'.format(1) }}",
    "{{ 'a'.ljust(9999999999) }}",
    "{{ range(10000000000) }}",
    "{{ 'a'|indent(9999999999) }}",
    "{{ 2 ** 99999 }}",
    "{{ [1]|tojson(indent=999999999) }}",
    "{{ [1]|batch(9999999999, 0)|list }}",
    "{{ [1]|slice(9999999999)|list }}",
    "{{ '%.99999999f' % 1.5 }}",
    "{% for i in range(100000) %}{{ 'a' * 100000 }}{% endfor %}",
    "{% for i in range(100000) %}{% set x = ('a' * 1000000)|length %}{% endfor %}",
    "{% for i in range(100000) %}{% set x = 'ab' in ('a' * 1000000) %}{% endfor %}",
    "{% set a = 'a' * 100000 %}{% for i in range(99999) %}{% set x = (a ~ 'b') in a %}{% "
    "endfor %}",
    "{% set a = 'a' * 100000 %}{% for i in range(99999) %}{% set x = a.rfind('b' ~ "
    "a[50000:]) %}{% endfor %}",
    "{% set a = range(100000)|list %}{% for i in a %}{% set x = a|sort(reverse=true) %}{% "
    "endfor %}",
    "{% set a = range(100000)|list %}{{ a|unique|list|length }}",
    "{% set a = ('é' * 100000) %}{% for i in range(100000) %}{% set x = a[99999] %}{% endfor "
    "%}",
    "{% set a = ('é' * 100000) %}{% for i in range(100000) %}{% set x = a|upper %}{% endfor "
    "%}",
    "{% set a = ('x ' * 100000) %}{% for i in range(100000) %}{% set x = a.split() %}{% "
    "endfor %}",
    "{% set a = ('x' * 100000) %}{% for i in range(100000) %}{% set x = a|replace('x', 'yy') "
    "%}{% endfor %}",
    "{% set a = ('x' * 100000) %}{% for i in range(100000) %}{% set x = a|tojson %}{% endfor "
    "%}",
    "{% set ns = namespace(f=range) %}{% for i in range(99999) %}{% set ns.f = [ns.f].copy "
    "%}{% endfor %}",
    "{% set ns = namespace(l=[1]) %}{% for i in range(999) %}{% for x in ns.l %}{% set ns.l "
    "= [loop] %}{% endfor %}{% endfor %}"};

TEST(jinja, a_character_is_found_wherever_it_is_and_however_long_those_before_it_are) {
    std::string text;
    std::vector<std::size_t> begins;
    std::mt19937 random(1);
    while (text.size() < 1500) {
        begins.push_back(text.size());
        const std::array<const char*, 4> characters{"a", "é", "€", "😀"};
        text += characters[random() % 4];
    }
    EXPECT_EQ(count_characters(text), begins.size());
    for (std::size_t i = 0; i < begins.size(); ++i) {
        EXPECT_EQ(byte_of_character(text, i), begins[i]);
        EXPECT_EQ(count_characters(std::string_view(text).substr(0, begins[i])), i);
    }
    EXPECT_EQ(byte_of_character(text, begins.size()), text.size());
    EXPECT_EQ(byte_of_character(text, begins.size() + 1), text.size());
    EXPECT_EQ(byte_of_character("", 0), 0u);
    EXPECT_EQ(byte_of_character("", 1), 0u);
    for (const std::size_t size : {254u, 255u, 256u, 510u, 511u})
        EXPECT_EQ(byte_of_character(std::string(size, 'a'), size - 1), size - 1);
}

TEST(jinja, whatever_grows_recurses_or_never_ends_is_stopped_within_50_ms) {
    for (const char* source : endless_templates) {
        outcome<rendering> got = rendering{};
        const double took = milliseconds([&] { got = render(source, no_variables()); });
        EXPECT_FALSE(got) << source;
        EXPECT_TRUE(is_sanitized() || took < 50) << took << " ms: " << source << "\n" << told(got);
    }
}

TEST(jinja, what_holds_itself_is_freed) {
    for (const char* source :
         {"{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.l = [ns] %}",
          "{% macro m() %}{{ n }}{% endmacro %}{% set n = m %}",
          "{% for i in range(2) %}{% if loop.changed(loop) %}{% endif %}{% endfor %}",
          "{% set ns = namespace(p=none) %}{% for i in range(20000) %}{% set ns = namespace(p=ns) "
          "%}"
          "{% endfor %}",
          "{% set ns = namespace(p=none) %}{% for i in range(9999) %}{% set old = ns.p %}{% macro "
          "m() %}"
          "{{ old }}{% endmacro %}{% set ns.p = m %}{% endfor %}"}) {
        const auto got = render(source, no_variables());
        EXPECT_TRUE(got) << source << "\n" << told(got);
    }
}

TEST(jinja, the_steps_are_counted_to_the_last) {
    limits bounds;
    bounds.steps = 1;
    while (!render("{% for i in range(9) %}{{ i }}{% endfor %}", no_variables(), bounds)) {
        ++bounds.steps;
    }
    EXPECT_GT(bounds.steps, 27U);
    EXPECT_LT(bounds.steps, 200U);
    --bounds.steps;
    const auto got = render("{% for i in range(9) %}{{ i }}{% endfor %}", no_variables(), bounds);
    EXPECT_EQ(got.error().kind, error_kind::limit);
}

TEST(jinja, the_output_is_as_long_as_it_may_be_and_not_one_byte_longer) {
    limits bounds;
    bounds.output_bytes = 5;
    EXPECT_TRUE(render("ab{{ 'cde' }}", no_variables(), bounds));
    EXPECT_EQ(render("ab{{ 'cdef' }}", no_variables(), bounds).error().kind, error_kind::limit);
}

TEST(jinja, macros_call_as_deep_as_they_may_and_not_one_deeper) {
    const std::string source =
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(";
    EXPECT_TRUE(render(source + "63) }}", no_variables()));
    EXPECT_EQ(render(source + "64) }}", no_variables()).error().kind, error_kind::limit);
}

TEST(jinja, lists_nest_as_deep_as_they_may_and_not_one_deeper) {
    const auto nested = [](unsigned times) {
        return render("{% set ns = namespace(l=[]) %}{% for i in range(" + std::to_string(times) +
                          ") %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l|tojson|length }}",
                      no_variables());
    };
    EXPECT_EQ(nested(value_depth_max - 1)->text, std::to_string(2 * value_depth_max));
    EXPECT_EQ(nested(value_depth_max).error().kind, error_kind::limit);
}

TEST(jinja, a_source_nests_as_deep_as_it_may_and_no_deeper) {
    for (const auto& [open, inner, close] :
         std::vector<std::array<std::string, 3>>{{"(", "1", ")"},
                                                 {"[", "1", "]"},
                                                 {"not ", "1", ""},
                                                 {"-", "1", ""},
                                                 {"", "1", " + 1"},
                                                 {"", "x", "|upper"},
                                                 {"", "x", ".y"},
                                                 {"", "1", " if 1"}}) {
        const auto source = [&, &o = open, &i = inner, &c = close](std::size_t times) {
            return "{{ " + repeated(o, times) + i + repeated(c, times) + " }}";
        };
        EXPECT_TRUE(program::parse(source(40))) << source(3);
        for (const std::size_t times : {200, 20'000}) {
            const auto got = program::parse(source(times));
            ASSERT_FALSE(got) << source(3);
            EXPECT_THAT(got.error().message, HasSubstr("too deeply"));
        }
    }
    EXPECT_FALSE(program::parse(repeated("{% if 1 %}", 200) + repeated("{% endif %}", 200)));
    EXPECT_TRUE(program::parse(repeated("{% if 1 %}", 100) + repeated("{% endif %}", 100)));
}

TEST(jinja, a_source_is_as_long_as_it_may_be_and_not_one_byte_longer) {
    EXPECT_TRUE(program::parse(std::string(source_bytes_max, 'x')));
    EXPECT_FALSE(program::parse(std::string(source_bytes_max + 1, 'x')));
}

TEST(jinja, bytes_that_are_not_utf8_are_refused_in_templates_and_replaced_in_texts) {
    EXPECT_THAT(program::parse("a\xFF").error().message, HasSubstr("UTF-8"));
    EXPECT_EQ(content("a\xFFz").as_text()->bytes(), "a\xEF\xBF\xBDz");
}

TEST(jinja, a_program_tells_which_variables_it_reads) {
    const auto made = program::parse("{% if enable_thinking %}{{ tools }}{% endif %}");
    EXPECT_TRUE(made->reads("enable_thinking"));
    EXPECT_FALSE(made->reads("messages"));
}

TEST(jinja, a_program_can_run_in_many_threads_at_once) {
    const auto made = program::parse("{% for i in range(50) %}{{ x }}{{ i }}{% endfor %}");
    const value variables = from_json(boost::json::parse(R"({"x": "é"})"));
    const std::string expected = made->render(variables, day)->text;
    std::vector<std::jthread> threads;
    std::atomic<int> right = 0;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int j = 0; j < 50; ++j) right += made->render(variables, day)->text == expected;
        });
    }
    threads.clear();
    EXPECT_EQ(right, 200);
}

}  // namespace semantic::engine::jinja
