// SPDX-License-Identifier: Apache-2.0
// Schemas as Zod, Pydantic and their like print them: what a grammar holds of them, and what
// becomes of the rest.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include "engine/grammar/grammar_matcher.hpp"
#include "engine/grammar/json_grammar.hpp"

namespace semantic::engine {
namespace {

using strings = std::vector<std::string>;

bool matches(std::string_view schema, std::string_view text, strings* not_held = nullptr) {
    grammar_builder builder;
    json_grammar made(builder, json_spacing::free);
    boost::json::parse_options options;
    options.max_depth = 200;
    auto root = made.of_schema(boost::json::parse(schema, {}, options), not_held);
    grammar_matcher matcher(std::make_shared<const grammar>(std::move(builder).build(root)));
    auto state = matcher.start();
    for (char c : text) {
        // As an answer does: states of long texts are not all kept.
        if (matcher.memory_bytes() > std::size_t{4} << 20) state = matcher.forget_all_but(state);
        state = matcher.step(state, static_cast<unsigned char>(c));
    }
    return matcher.accepts(state);
}

struct held_keyword {
    const char* schema;
    strings right, wrong;
};
void PrintTo(const held_keyword& c, std::ostream* out) { *out << c.schema; }

class everyday_schema : public ::testing::TestWithParam<held_keyword> {};

TEST_P(everyday_schema, takes_what_is_right_and_nothing_that_is_wrong) {
    for (const std::string& text : GetParam().right)
        EXPECT_TRUE(matches(GetParam().schema, text)) << text;
    for (const std::string& text : GetParam().wrong)
        EXPECT_FALSE(matches(GetParam().schema, text)) << text;
}

INSTANTIATE_TEST_SUITE_P(
    numbers, everyday_schema,
    ::testing::Values(
        held_keyword{R"({"type":"integer","minimum":-9007199254740991,
                         "maximum":9007199254740991})",
                     {"0", "-12", "999999999999999", "-999999999999999"},
                     {"1.5", "9007199254740992", "-9007199254740992", "012", "1e3"}},
        held_keyword{R"({"type":"integer","exclusiveMinimum":0,"maximum":9007199254740991})",
                     {"1", "123456789012345"},
                     {"0", "-1"}},
        held_keyword{R"({"type":"number","minimum":-1e300,"maximum":1.5})",
                     {"1.5", "-99999.25"},
                     {"1.51", "1e9"}},
        held_keyword{R"({"type":"integer","minimum":3,"exclusiveMinimum":3,
                         "exclusiveMaximum":9,"maximum":6})",
                     {"4", "6"},
                     {"3", "7"}},
        held_keyword{R"({"type":"integer","multipleOf":7})",
                     {"0", "7", "-14", "343", "700000000000000"},
                     {"1", "13", "-15", "7.0", "07"}},
        held_keyword{
            R"({"type":"integer","multipleOf":5,"minimum":0})", {"0", "5", "125"}, {"-5", "6"}},
        held_keyword{
            R"({"type":"integer","multipleOf":100})", {"0", "100", "-4300"}, {"10", "150", "000"}},
        held_keyword{R"({"type":"integer","multipleOf":990})", {"0", "990", "1980"}, {"99", "900"}},
        held_keyword{R"({"type":"integer","multipleOf":5,"exclusiveMinimum":0})",
                     {"5", "10"},
                     {"0", "-5", "4"}},
        held_keyword{R"({"type":"integer","multipleOf":15,"minimum":-20,"maximum":50})",
                     {"-15", "0", "45"},
                     {"-30", "60", "50"}},
        held_keyword{R"({"type":"number","multipleOf":0.01,"minimum":0})",
                     {"0", "3.5", "19.99"},
                     {"19.999", "-1"}},
        held_keyword{R"({"type":"number","multipleOf":0.25})",
                     {"0.25", "-1.5", "2", "10.75"},
                     {"0.3", "1.255", "1.1"}},
        held_keyword{R"({"type":"number","multipleOf":0.5,"minimum":0.3,"exclusiveMaximum":2})",
                     {"0.5", "1", "1.5"},
                     {"0", "2", "0.3"}},
        held_keyword{R"({"type":"integer","multipleOf":256})",
                     {"0", "256", "-1024", "25600"},
                     {"128", "255", "1000"}},
        held_keyword{R"({"type":"integer","multipleOf":1})", {"3"}, {"3.5"}}));

INSTANTIATE_TEST_SUITE_P(
    strings, everyday_schema,
    ::testing::Values(
        held_keyword{R"({"type":"string","pattern":"^[a-z]+$","minLength":2,"maxLength":4})",
                     {R"("ab")", R"("abcd")"},
                     {R"("a")", R"("abcde")", R"("aB")", R"("")"}},
        held_keyword{R"({"type":"string","pattern":"^\\S","maxLength":3})",
                     {R"("a")", R"("a b")", R"("\"b")"},
                     {R"("")", R"(" ab")", R"("abcd")"}},
        // Readers disagree on whether U+001F is a blank.
        held_keyword{R"({"type":"string","pattern":"^[^@\\s]$"})",
                     {R"("a")", "\"\x7f\""},
                     {R"("@")", R"(" ")", R"("\n")", R"("\u001f")"}},
        held_keyword{R"({"type":"string","pattern":"b","minLength":3})",
                     {R"("abc")", "\"b\xc3\xa9\xc3\xa9\""},
                     {R"("ab")", R"("acd")"}},
        held_keyword{R"({"type":"string","format":"date","pattern":"^2026-"})",
                     {R"("2026-02-28")"},
                     {R"("2025-02-28")", R"("2026-02-30")"}},
        held_keyword{R"({"type":"string","format":"email","maxLength":12})",
                     {R"("a@b.org")", R"("abcd@efg.org")"},
                     {R"("abcde@efg.org")"}},
        // Zod 4 on z.email().
        held_keyword{R"s({"type":"string","format":"email","pattern":
            "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@)s"
                     R"s(([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"})s",
                     {R"("Ada.Lovelace+x@Example.co.uk")", R"("o'neil@x.org")"},
                     {R"(".a@x.org")", R"("a..b@x.org")", R"("a!b@x.org")", R"("a@x")"}},
        held_keyword{R"s({"type":"string","pattern":"^(?=.*[0-9])(?!x)[a-z0-9]{2,4}$"})s",
                     {R"("a1")", R"("12ab")"},
                     {R"("ab")", R"("x1")", R"("a1234")"}},
        held_keyword{R"({"format":"date"})",
                     {R"("2026-01-31")", R"("2026-04-30")", R"("2024-02-29")", R"("2000-02-29")",
                      R"("2026-12-29")"},
                     {R"("2026-04-31")", R"("2026-02-29")", R"("1900-02-29")", R"("2024-02-30")",
                      R"("2026-01-32")", R"("2026-01-00")", R"("0000-01-01")"}},
        held_keyword{R"({"format":"date-time"})",
                     {R"("2026-01-31T23:59:59Z")", R"("2024-02-29T00:00:00+01:00")"},
                     {R"("2026-02-29T00:00:00Z")", R"("2026-01-31")"}},
        held_keyword{R"({"format":"ipv6"})",
                     {R"("2001:db8::8a2e:370:7334")", R"("::")", R"("::1")", R"("fe80::")",
                      R"("1:2:3:4:5:6:7:8")", R"("1:2:3:4:5:6::8")", R"("1::2:3:4:5:6:7")"},
                     {R"("1:2:3:4:5:6:7:8:9")", R"("1::2::3")", R"("12345::")", R"(":1")",
                      R"("g::")", R"("1:2:3:4:5:6:7::8")", R"("")"}},
        // Pydantic on timedelta.
        held_keyword{R"({"format":"duration"})",
                     {R"("P1DT12H")", R"("PT0S")", R"("P3Y6M4DT12H30M5S")", R"("P4W")"},
                     {R"("P")", R"("PT")", R"("P1D2Y")", R"("1D")", R"("P1DT")"}},
        held_keyword{
            R"({"format":"email"})",
            {R"("Ada@Example.ORG")", R"("first.last+tag@sub.example.com")", R"("o'neil_2@x-y.io")"},
            {R"("ada")", R"("a@b")", R"(".a@b.org")", R"("a@-b.org")", R"("a b@c.org")",
             R"("a..b@c.org")"}}));

INSTANTIATE_TEST_SUITE_P(
    lists, everyday_schema,
    ::testing::Values(
        held_keyword{R"({"type":"array","items":[{"type":"string"},{"type":"integer"}]})",
                     {R"(["a", 1])"},
                     {R"([1, "a"])", R"(["a", 1, 2])"}},
        held_keyword{R"({"type":"array","items":[{"type":"string"}],
                         "additionalItems":{"type":"integer"}})",
                     {R"(["a"])", R"(["a", 1, 2])"},
                     {R"(["a", "b"])"}},
        held_keyword{R"({"type":"array","items":[{"type":"string"}],"additionalItems":false})",
                     {R"(["a"])"},
                     {R"(["a", 1])"}},
        // Pydantic on tuple[int, str].
        held_keyword{R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],
                         "minItems":2,"maxItems":2})",
                     {R"([1, "a"])"},
                     {"[1]", R"([1, "a", 2])"}},
        held_keyword{R"({"prefixItems":[{"type":"integer"},{"type":"string"}],"maxItems":1})",
                     {"[1]"},
                     {R"([1, "a"])"}},
        held_keyword{
            R"({"prefixItems":[{"type":"integer"}],"minItems":2})", {R"([1, "a"])"}, {"[1]"}},
        held_keyword{R"({"prefixItems":[{"type":"integer"}],"maxItems":0})", {"[]"}, {"[1]"}},
        // Pydantic on set[Literal["r", "w", "x"]] and set[bool].
        held_keyword{R"({"items":{"enum":["r","w","x"]},"uniqueItems":true})",
                     {"[]", R"(["w"])", R"(["x", "r", "w"])"},
                     {R"(["r", "r"])", R"(["r", "w", "r"])", R"(["q"])"}},
        held_keyword{R"({"items":{"type":"boolean"},"uniqueItems":true,"minItems":1})",
                     {"[true]", "[false, true]"},
                     {"[]", "[true, true]"}},
        held_keyword{R"({"items":{"enum":["a","b","c",1,1.0]},"uniqueItems":true,"minItems":2,
                         "maxItems":3})",
                     {R"(["a", "c"])", R"([1, "c", "a"])"},
                     {R"(["a"])", R"([1, "a", "b", "c"])", "[1, 1.0]"}},
        // More than ten come in the order of the list.
        held_keyword{R"({"items":{"$ref":"#/$defs/n"},"uniqueItems":true,"minItems":2,"maxItems":3,
                         "$defs":{"n":{"enum":[1,2,3,4,5,6,7,8,9,10,11]}}})",
                     {"[1, 11]", "[2, 3, 10]"},
                     {"[3, 3]", "[11]", "[1, 2, 3, 4]", "[3, 2, 3]"}},
        held_keyword{R"({"items":{"type":"integer"},"maxItems":1,"uniqueItems":true})",
                     {"[]", "[1]"},
                     {"[1, 1]"}}));

INSTANTIATE_TEST_SUITE_P(
    objects, everyday_schema,
    ::testing::Values(
        // Zod on z.record(z.string(), z.number()).
        held_keyword{R"({"type":"object","propertyNames":{"type":"string"},
                         "additionalProperties":{"type":"number"}})",
                     {R"({"a": 1})", "{}"},
                     {R"({"a": "b"})"}},
        held_keyword{R"({"type":"object","propertyNames":{"enum":["x","y"]},
                         "additionalProperties":{"type":"number"},"required":["x"]})",
                     {R"({"x": 1})", R"({"x": 1, "y": 2})"},
                     {R"({"y": 2})", R"({"x": 1, "z": 2})", R"({"x": "a"})"}},
        held_keyword{R"({"type":"object","propertyNames":{"pattern":"^[a-z]{2}$"}})",
                     {R"({"de": 1})", "{}"},
                     {R"({"deu": 1})", R"({"D": 1})"}},
        held_keyword{R"({"type":"object","properties":{"x":{},"z":{}},
                         "propertyNames":{"enum":["x","y"]},"additionalProperties":false})",
                     {R"({"x": 1})"},
                     {R"({"z": 1})", R"({"y": 1})"}},
        // Pydantic on dict[constr(pattern=...), int].
        held_keyword{R"({"type":"object","patternProperties":{"^k[0-9]$":{"type":"integer"}},
                         "additionalProperties":false})",
                     {R"({"k1": 1, "k2": 2})", "{}"},
                     {R"({"kx": 1})", R"({"k1": "a"})"}},
        held_keyword{R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},
                         "c":{"type":"null"}},"minProperties":2,"additionalProperties":false})",
                     {R"({"a": null, "c": null})", R"({"a": null, "b": null, "c": null})"},
                     {"{}", R"({"b": null})"}},
        held_keyword{R"({"type":"object","minProperties":1,"maxProperties":2,
                         "additionalProperties":{"type":"integer"}})",
                     {R"({"a": 1})", R"({"a": 1, "b": 2})"},
                     {"{}", R"({"a": 1, "b": 2, "c": 3})"}},
        held_keyword{R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},
                         "maxProperties":1})",
                     {"{}", R"({"b": null})"},
                     {R"({"a": null, "b": null})"}},
        held_keyword{R"({"type":"object","properties":{"a":{"type":"null"}},"minProperties":2,
                         "required":["a"],"additionalProperties":{"type":"integer"}})",
                     {R"({"a": null, "x": 1})", R"({"a": null, "x": 1, "y": 2})"},
                     {R"({"a": null})", R"({"x": 1, "y": 2})"}}));

INSTANTIATE_TEST_SUITE_P(
    references, everyday_schema,
    ::testing::Values(
        held_keyword{R"({"$ref":"#/$defs/n","maximum":5,
                         "$defs":{"n":{"type":"integer","minimum":0,"maximum":9}}})",
                     {"0", "5"},
                     {"6", "-1"}},
        held_keyword{R"({"properties":{"v":{"$ref":"#/$defs/n","description":"d","maximum":5}},
                         "required":["v"],"$defs":{"n":{"type":"integer"}}})",
                     {R"({"v": 5})"},
                     {R"({"v": 6})", R"({"v": "a"})"}},
        held_keyword{R"({"allOf":[{"type":"integer","minimum":1},{"minimum":2}]})", {"2"}, {"1"}},
        held_keyword{R"({"allOf":[{"properties":{"a":{"type":"integer","minimum":1}}},
                         {"properties":{"a":{"maximum":5}},"required":["a"]}]})",
                     {R"({"a": 1})", R"({"a": 5})"},
                     {R"({"a": 0})", R"({"a": 6})", "{}"}},
        held_keyword{R"({"allOf":[{"enum":["a","b"]},{"enum":["b","c"]}]})",
                     {R"("b")"},
                     {R"("a")", R"("c")"}},
        // Zod on z.string().startsWith("a").includes("b").endsWith("c").
        held_keyword{R"({"type":"string","allOf":[{"pattern":"^a.*"},{"pattern":"b"},
                         {"pattern":".*c$"}]})",
                     {R"("abc")", R"("axbxc")"},
                     {R"("ac")", R"("bc")", R"("ab")"}},
        held_keyword{R"({"allOf":[{"$ref":"#/$defs/a","required":["x"]}],
                         "$defs":{"a":{"type":"object","properties":{"x":{"type":"null"}}}}})",
                     {R"({"x": null})"},
                     {"{}"}},
        // Schemas that contain themselves, with a keyword next to the reference.
        held_keyword{R"({"$ref":"#/$defs/t","minProperties":1,"$defs":{"t":{"type":"object",
                         "properties":{"t":{"$ref":"#/$defs/t","minProperties":1},
                         "v":{"type":"null"}}}}})",
                     {R"({"v": null})", R"({"t": {"t": {"v": null}}})"},
                     {"{}", R"({"t": {}})"}},
        held_keyword{R"({"enum":["a","b"],"x-order":3})", {R"("a")"}, {R"("c")"}}));

/// What is left out, with the rest held.
strings not_held(std::string_view schema, const char* right, const char* wrong) {
    strings out;
    EXPECT_TRUE(matches(schema, right, &out)) << schema;
    strings again;
    EXPECT_FALSE(matches(schema, wrong, &again)) << schema;
    EXPECT_EQ(out, again);
    return out;
}

TEST(long_counts, are_held_to_the_character) {
    auto text = [](std::size_t length) { return '"' + std::string(length, 'a') + '"'; };
    for (std::size_t length : {10'001u, 65'535u}) {
        const std::string bound = std::to_string(length);
        const std::string most = R"({"type":"string","maxLength":)" + bound + "}";
        EXPECT_TRUE(matches(most, text(0)));
        EXPECT_TRUE(matches(most, text(length)));
        EXPECT_FALSE(matches(most, text(length + 1)));
        const std::string both = R"({"minLength":)" + bound + R"(,"maxLength":)" + bound + "}";
        EXPECT_TRUE(matches(both, text(length)));
        EXPECT_FALSE(matches(both, text(length - 1)));
        EXPECT_FALSE(matches(both, text(length + 1)));
    }
    const char* least = R"({"type":"string","minLength":20000})";
    EXPECT_FALSE(matches(least, text(19'999)));
    EXPECT_TRUE(matches(least, text(20'000)));
    EXPECT_TRUE(matches(least, text(50'001)));
    EXPECT_TRUE(matches(R"({"maxLength":2147483647})", text(100)));
}

TEST(lenient_schema, leaves_out_a_keyword_alone_and_names_it) {
    auto in_x = [](const std::string& x) {
        return R"({"type":"object","properties":{"x":)" + x +
               R"(},"required":["x"],"additionalProperties":false})";
    };
    const std::string place = "#/properties/x: ";
    EXPECT_EQ(not_held(in_x(R"({"type":"array","items":{"type":"integer"},"uniqueItems":true})"),
                       R"({"x": [1, 1]})", R"({"x": ["a"]})"),
              strings{place + "'uniqueItems' is not supported"});
    EXPECT_EQ(
        not_held(in_x(R"({"type":"string","not":{"const":"b"}})"), R"({"x": "b"})", R"({"x": 1})"),
        strings{place + "'not' is not supported"});
    EXPECT_EQ(not_held(in_x(R"({"type":"string","maxLength":-1,"minLength":2})"), R"({"x": "ab"})",
                       R"({"x": "a"})"),
              strings{place + "'maxLength' is not a whole number from 0 to 16777216: -1"});
    EXPECT_EQ(not_held(in_x(R"({"type":"string","pattern":"\\bx","minLength":2})"),
                       R"({"x": "ab"})", R"({"x": "a"})"),
              strings{place + "pattern '\\bx': '\\b' is not supported"});
    EXPECT_EQ(not_held(in_x(R"({"type":"integer","multipleOf":257,"minimum":3})"), R"({"x": 3})",
                       R"({"x": 2})"),
              strings{place + "'multipleOf' 257 with these bounds is not supported"});
    EXPECT_EQ(not_held(in_x(R"({"oneOf":[{"type":"integer"},{"type":"number"}]})"), R"({"x": 3})",
                       R"({"x": "a"})")
                  .size(),
              1u);
    EXPECT_EQ(not_held(in_x(R"({"$ref":"#/$defs/none","type":"integer"})"), R"({"x": 3})",
                       R"({"x": "a"})")
                  .size(),
              1u);
    EXPECT_EQ(
        not_held(in_x(R"({"enum":["a","bcd"],"minLength":2})"), R"({"x": "a"})", R"({"x": "b"})")
            .size(),
        1u);
}

TEST(lenient_schema, names_what_is_left_out_once_and_not_without_end) {
    strings out;
    const char* twice = R"({"type":"array","items":{"anyOf":[{"$ref":"#/$defs/a"},
        {"type":"array","items":{"$ref":"#/$defs/a"}}]},"$defs":{"a":{"type":"string",
        "contentEncoding":"x","not":{}}}})";
    EXPECT_TRUE(matches(twice, R"(["a", ["b"]])", &out));
    EXPECT_EQ(out, strings{"#/$defs/a: 'not' is not supported"});
    boost::json::object properties;
    for (int i = 0; i < 65; ++i)
        properties["p" + std::to_string(i)] = {{"type", "null"}, {"not", {{"const", 1}}}};
    auto text = [&] { return serialize(boost::json::object{{"properties", properties}}); };
    out.clear();
    EXPECT_TRUE(matches(text(), R"({"p1": null})", &out));
    ASSERT_EQ(out.size(), 65u);
    EXPECT_EQ(out.back(), "and more");
    properties.erase("p64");
    out.clear();
    EXPECT_TRUE(matches(text(), R"({"p1": null})", &out));
    EXPECT_EQ(out.size(), 64u);
    EXPECT_EQ(out.back(), "#/properties/p63: 'not' is not supported");
}

TEST(lenient_schema, cuts_what_it_names_between_characters) {
    std::string long_pattern = "\\\\b";
    for (int i = 0; i < 40; ++i) long_pattern += "\xc3\xa9";
    strings out;
    EXPECT_TRUE(matches(R"({"type":"string","pattern":")" + long_pattern + "\"}", R"("x")", &out));
    ASSERT_EQ(out.size(), 1u);
    boost::system::error_code error;
    boost::json::parse(serialize(boost::json::value(out[0])), error);
    EXPECT_FALSE(error) << out[0];
    EXPECT_LT(out[0].size(), 120u);
}

TEST(lenient_schema, a_schema_that_nests_without_end_is_bounded) {
    strings out;
    EXPECT_TRUE(matches(R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b","minLength":1},
        "b":{"$ref":"#/$defs/a","maxLength":3}}})",
                        R"("ab")", &out));
    EXPECT_EQ(out.size(), 1u);
    std::string deep = R"({"type":"null"})";
    for (int i = 0; i < 64; ++i) deep = R"({"type":"array","items":)" + deep + "}";
    out.clear();
    EXPECT_TRUE(matches(deep, "[]", &out));
    EXPECT_EQ(out.size(), 1u);
}

// Together they would need more states than an answer can be held to.
TEST(string_automaton, what_is_too_large_or_cannot_be_told_apart_is_refused) {
    auto held = [](int length) {
        return R"({"type":"string","pattern":"^a*b*$","maxLength":)" + std::to_string(length) + "}";
    };
    EXPECT_TRUE(matches(held(4000), R"("aab")"));
    EXPECT_FALSE(matches(held(4000), R"("aba")"));
    EXPECT_THROW(matches(R"({"pattern":"^(a|b)*a(a|b){20}$","maxLength":100})", R"("a")"),
                 unsupported_schema);
    EXPECT_THROW(matches(R"({"pattern":"^((a{1000}){1000})$","maxLength":100})", R"("a")"),
                 unsupported_schema);
    auto groups = [](std::size_t count) {
        return R"({"pattern":")" + std::string(count, '(') + "a" + std::string(count, ')') + "\"}";
    };
    EXPECT_TRUE(matches(groups(100), R"("a")"));
    EXPECT_THROW(matches(groups(101), R"("a")"), unsupported_schema);
    auto steps = [](int most) {
        return R"({"type":"integer","multipleOf":3,"minimum":0,"maximum":)" + std::to_string(most) +
               "}";
    };
    EXPECT_TRUE(matches(steps(2997), "2997"));
    EXPECT_THROW(matches(steps(3000), "3"), unsupported_schema);
    EXPECT_THROW(matches("{\"pattern\":\"^\xc3\xa9$\",\"maxLength\":2}", "\"\xc3\xa9\""),
                 unsupported_schema);
    EXPECT_THROW(matches(R"s({"pattern":"^(?!\\S)x"})s", R"("x")"), unsupported_schema);
    EXPECT_THROW(matches(R"s({"pattern":"^(?!a)b|c$"})s", R"("b")"), unsupported_schema);
}

}  // namespace
}  // namespace semantic::engine
