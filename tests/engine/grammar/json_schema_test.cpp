// SPDX-License-Identifier: Apache-2.0
#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <random>

#include "engine/grammar/grammar_matcher.hpp"
#include "engine/grammar/json_grammar.hpp"

namespace semantic::engine {
namespace {

std::shared_ptr<const grammar> compile(std::string_view schema,
                                       json_spacing spacing = json_spacing::free) {
    grammar_builder builder;
    json_grammar made(builder, spacing);
    boost::json::parse_options options;
    options.max_depth = 200;
    auto root = made.of_schema(boost::json::parse(schema, {}, options));
    return std::make_shared<const grammar>(std::move(builder).build(root));
}

bool matches(std::string_view schema, std::string_view text,
             json_spacing spacing = json_spacing::free) {
    grammar_matcher matcher(compile(schema, spacing));
    auto state = matcher.start();
    for (char c : text) state = matcher.step(state, static_cast<unsigned char>(c));
    return matcher.accepts(state);
}

std::string refusal(std::string_view schema) {
    try {
        compile(schema);
    } catch (const unsupported_schema& error) {
        return error.what();
    } catch (const grammar_too_large& error) {
        return error.what();
    }
    return "";
}

struct matching {
    const char* schema;
    const char* text;
    bool match;
};
void PrintTo(const matching& c, std::ostream* out) { *out << c.schema << "  ~  " << c.text; }

class json_schema : public ::testing::TestWithParam<matching> {};

TEST_P(json_schema, lets_through_what_validates_and_nothing_else) {
    EXPECT_EQ(matches(GetParam().schema, GetParam().text), GetParam().match);
}

constexpr const char* person = R"({"type":"object","properties":{"name":{"type":"string"},
    "age":{"type":"integer"}},"required":["name"],"additionalProperties":false})";
constexpr const char* tree = R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":
    {"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/t"},{"type":"null"}]}},
    "required":["v","next"],"additionalProperties":false}}})";

INSTANTIATE_TEST_SUITE_P(
    values, json_schema,
    ::testing::Values(
        matching{R"({"type":"string"})", R"("a")", true},
        matching{R"({"type":"string"})", "\"\xc3\xa9\xf0\x9f\x98\x80\"", true},
        matching{R"({"type":"string"})", "\"\xc3\"", false},
        matching{R"({"type":"string"})", "\"\n\"", false},
        matching{R"({"type":"string"})", R"("\n\u00e9\ud83d\ude00")", true},
        matching{R"({"type":"string"})", R"("\ud83d")", false},
        matching{R"({"type":"string"})", R"("\ude00")", false},
        matching{R"({"type":"string","minLength":2,"maxLength":3})", R"("a")", false},
        matching{R"({"type":"string","minLength":2,"maxLength":3})", R"("ab")", true},
        matching{R"({"type":"string","minLength":2,"maxLength":3})", R"("a\n\u0041")", true},
        matching{R"({"type":"string","minLength":2,"maxLength":3})", R"("abcd")", false},
        matching{R"({"type":"boolean"})", "true", true},
        matching{R"({"type":"boolean"})", "True", false},
        matching{R"({"type":["null","boolean"]})", "null", true},
        matching{R"({"type":"integer"})", "-12", true},
        matching{R"({"type":"integer"})", "012", false},
        matching{R"({"type":"integer"})", "1.0", false},
        matching{R"({"type":"number"})", "-1.5e-3", true},
        matching{R"({"type":"number"})", ".5", false},
        matching{R"({"enum":["a",1,null,{"b":[1]}]})", R"({"b": [1]})", true},
        matching{R"({"enum":["a",1,null]})", "2", false},
        matching{R"({"type":"string","enum":["a",1]})", "1", false},
        matching{R"({"const":"x\"y"})", R"("x\"y")", true},
        matching{R"({})", R"({"a": [1, "b", {}], "c": null})", true}, matching{"true", "[]", true},
        matching{R"({"type":"object"})", R"({"any": {"thing": 1}})", true},
        matching{R"({"type":"object"})", "[]", false}));

INSTANTIATE_TEST_SUITE_P(
    numbers, json_schema,
    ::testing::Values(
        matching{R"({"type":"integer","minimum":3,"maximum":12})", "2", false},
        matching{R"({"type":"integer","minimum":3,"maximum":12})", "3", true},
        matching{R"({"type":"integer","minimum":3,"maximum":12})", "12", true},
        matching{R"({"type":"integer","minimum":3,"maximum":12})", "13", false},
        matching{R"({"type":"integer","minimum":-5,"maximum":5})", "-5", true},
        matching{R"({"type":"integer","minimum":-5,"maximum":5})", "-6", false},
        matching{R"({"type":"integer","minimum":-5,"maximum":5})", "0", true},
        matching{R"({"type":"integer","minimum":-50,"maximum":-7})", "-7", true},
        matching{R"({"type":"integer","minimum":-50,"maximum":-7})", "-6", false},
        matching{R"({"type":"integer","minimum":-50,"maximum":-7})", "-51", false},
        matching{R"({"type":"integer","exclusiveMinimum":3})", "3", false},
        matching{R"({"type":"integer","exclusiveMinimum":3})", "4", true},
        matching{R"({"type":"integer","exclusiveMinimum":3})", "123456", true},
        matching{R"({"type":"integer","exclusiveMaximum":100})", "99", true},
        matching{R"({"type":"integer","exclusiveMaximum":100})", "100", false},
        matching{R"({"type":"integer","exclusiveMaximum":100})", "-1234", true},
        matching{R"({"type":"integer","minimum":0.5})", "0", false},
        matching{R"({"type":"integer","minimum":0.5})", "1", true},
        matching{R"({"type":"number","minimum":0.25,"maximum":9.75})", "0.24", false},
        matching{R"({"type":"number","minimum":0.25,"maximum":9.75})", "0.25", true},
        matching{R"({"type":"number","minimum":0.25,"maximum":9.75})", "0.250", true},
        matching{R"({"type":"number","minimum":0.25,"maximum":9.75})", "0.3", true},
        matching{R"({"type":"number","minimum":0.25,"maximum":9.75})", "0.2", false},
        matching{R"({"type":"number","minimum":0.25,"maximum":9.75})", "9.75", true},
        matching{R"({"type":"number","minimum":0.25,"maximum":9.75})", "9.7500", true},
        matching{R"({"type":"number","minimum":0.25,"maximum":9.75})", "9.751", false},
        matching{R"({"type":"number","exclusiveMinimum":1,"exclusiveMaximum":2})", "1", false},
        matching{R"({"type":"number","exclusiveMinimum":1,"exclusiveMaximum":2})", "1.0", false},
        matching{R"({"type":"number","exclusiveMinimum":1,"exclusiveMaximum":2})", "1.01", true},
        matching{R"({"type":"number","exclusiveMinimum":1,"exclusiveMaximum":2})", "2", false},
        matching{R"({"type":"number","maximum":-0.5})", "-0.5", true},
        matching{R"({"type":"number","maximum":-0.5})", "-0.49", false},
        matching{R"({"type":"number","maximum":-0.5})", "-7.25", true},
        matching{R"({"type":"number","minimum":-1.5,"maximum":1})", "-1.51", false},
        matching{R"({"type":"number","minimum":-1.5,"maximum":1})", "-1.49", true},
        matching{R"({"type":"number","minimum":-1.5,"maximum":1})", "0.999", true}));

INSTANTIATE_TEST_SUITE_P(
    objects_and_arrays, json_schema,
    ::testing::Values(
        matching{person, R"({"name": "Ada", "age": 36})", true},
        matching{person, R"({"name":"Ada"})", true}, matching{person, R"({"age": 36})", false},
        matching{person, R"({"name": "Ada", "x": 1})", false},
        matching{person, "{\n  \"name\": \"Ada\",\n  \"age\": 36\n}", true},
        matching{person, "{\n\n\"name\": \"Ada\"}", false},
        matching{tree, R"({"v": 1, "next": {"v": 2, "next": null}})", true},
        matching{tree, R"({"v": 1, "next": {"v": 2}})", false},
        matching{R"({"properties":{"a":{},"b":{}}})", R"({"b": 1})", true},
        matching{R"({"properties":{"a":{},"b":{}}})", "{}", true},
        matching{R"({"type":"object","properties":{"ab":{"type":"null"}},
                     "additionalProperties":{"type":"integer"}})",
                 R"({"ab": null, "a": 1})", true},
        matching{R"({"type":"object","properties":{"ab":{"type":"null"}},
                     "additionalProperties":{"type":"integer"}})",
                 R"({"abc": 2, "": 3})", true},
        matching{R"({"type":"object","properties":{"ab":{"type":"null"}},
                     "additionalProperties":{"type":"integer"}})",
                 R"({"a": 1, "ab": 1})", false},
        matching{R"({"required":["k"]})", R"({"k": [1]})", true},
        matching{R"({"required":["k"]})", "{}", false},
        matching{R"({"type":"array","items":{"type":"null"},"minItems":1,"maxItems":2})", "[]",
                 false},
        matching{R"({"type":"array","items":{"type":"null"},"minItems":1,"maxItems":2})",
                 "[null, null]", true},
        matching{R"({"type":"array","items":{"type":"null"},"minItems":1,"maxItems":2})",
                 "[null, null, null]", false},
        matching{R"({"type":"array","maxItems":0})", "[]", true},
        matching{R"({"type":"array","maxItems":0})", "[1]", false},
        matching{R"({"prefixItems":[{"type":"null"},{"type":"boolean"}],"items":false})",
                 "[null, true]", true},
        matching{R"({"prefixItems":[{"type":"null"}],"items":{"type":"integer"},"minItems":3})",
                 "[null, 1]", false},
        matching{R"({"prefixItems":[{"type":"null"}],"items":{"type":"integer"},"minItems":3})",
                 "[null, 1, 2]", true},
        matching{R"({"allOf":[{"properties":{"a":{"type":"null"}},"required":["a"]},
                     {"properties":{"b":{"type":"null"}},"required":["b"]}]})",
                 R"({"a": null, "b": null})", true},
        matching{R"({"type":"object","properties":{"k":{"const":1}},"required":["k"],
                     "anyOf":[{"properties":{"x":{"type":"null"}},"required":["x"]},
                              {"properties":{"y":{"type":"null"}},"required":["y"]}]})",
                 R"({"k": 1, "y": null})", true},
        matching{R"({"oneOf":[{"type":"integer"},{"type":"string"}]})", "5", true}));

INSTANTIATE_TEST_SUITE_P(
    patterns, json_schema,
    ::testing::Values(matching{R"({"pattern":"^a+b?$"})", R"("aab")", true},
                      matching{R"({"pattern":"^a+b?$"})", R"("b")", false},
                      matching{R"({"pattern":"b"})", R"("abc")", true},
                      matching{R"({"pattern":"b"})", R"("ac")", false},
                      matching{R"({"pattern":"^(ab|c){2,3}$"})", R"("abcab")", true},
                      matching{R"({"pattern":"^(ab|c){2,3}$"})", R"("c")", false},
                      matching{R"({"pattern":"^x$|^y"})", R"("yes")", true},
                      matching{R"({"pattern":"^x$|^y"})", R"("xes")", false},
                      matching{R"({"pattern":"^[^a-c]$"})", R"("d")", true},
                      matching{R"({"pattern":"^[^a-c]$"})", R"("b")", false},
                      matching{R"({"pattern":"^[\"\\\\]$"})", R"("\"")", true},
                      matching{R"({"pattern":"^[\"\\\\]$"})", R"("\\")", true},
                      matching{R"({"pattern":"^\\d{3}-\\w+\\.$"})", R"("123-x_9.")", true},
                      matching{R"({"pattern":"^\\s$"})", R"("\n")", true},
                      matching{R"({"pattern":"^.$"})", "\"\xc3\xa9\"", true},
                      matching{R"({"pattern":"^é$"})", "\"\xc3\xa9\"", true},
                      matching{R"({"pattern":"^a{0}$"})", R"("")", true},
                      matching{R"({"format":"date"})", R"("2026-02-28")", true},
                      matching{R"({"format":"date"})", R"("2026-13-01")", false},
                      matching{R"({"format":"ipv4"})", R"("192.168.0.255")", true},
                      matching{R"({"format":"ipv4"})", R"("192.168.0.256")", false},
                      matching{R"({"type":"string","format":"of-my-own"})", R"("anything")",
                               true}));

TEST(json_schema_refusals, name_the_place_and_the_keyword) {
    EXPECT_EQ(refusal(R"({"type":"object","properties":{"a":{"not":{}}}})"),
              "#/properties/a: 'not' is not supported");
    EXPECT_NE(refusal(R"({"type":"str"})").find("'type' is not known: \"str\""), std::string::npos);
    EXPECT_NE(refusal(R"({"$ref":"#/$defs/no"})").find("#/$defs/no"), std::string::npos);
    EXPECT_NE(refusal(R"({"$ref":"http://x/y"})").find("not a place in this schema"),
              std::string::npos);
    EXPECT_NE(refusal(R"s({"pattern":"(?=a)"})s").find("'(?' other than"), std::string::npos);
    EXPECT_NE(refusal(R"({"pattern":"\\bx"})").find("'\\b'"), std::string::npos);
    EXPECT_NE(refusal(R"({"pattern":"(a"})").find("'(' without ')'"), std::string::npos);
    EXPECT_NE(refusal(R"s({"pattern":"a)"})s").find("')' without '('"), std::string::npos);
    EXPECT_NE(refusal(R"({"oneOf":[{"type":"integer"},{"type":"number"}]})").find("oneOf"),
              std::string::npos);
    EXPECT_NE(refusal("false"), "");
    EXPECT_NE(refusal("[1]"), "");
    EXPECT_NE(refusal(R"({"allOf":[{"format":"date"},{"format":"time"}]})")
                  .find("'format' is given twice"),
              std::string::npos);
    EXPECT_EQ(refusal(R"({"uniqueItems":true})"), "#: 'uniqueItems' is not supported");
    EXPECT_NE(refusal(R"({"type":"integer","multipleOf":257})").find("'multipleOf' 257"),
              std::string::npos);
    EXPECT_NE(refusal(R"({"type":"number","multipleOf":0})").find("not above 0"),
              std::string::npos);
    EXPECT_NE(refusal(R"({"properties":{"a":{}},"minProperties":2501,"additionalProperties":{}})")
                  .find("'minProperties'"),
              std::string::npos);
    EXPECT_NE(refusal(R"({"oneOf":[]})").find("not a list with something in it"),
              std::string::npos);
    EXPECT_NE(refusal(R"({"type":"string","minLength":16777217})").find("16777216"),
              std::string::npos);
    EXPECT_NE(refusal(R"({"type":"string","maxLength":1.5})").find("whole number"),
              std::string::npos);
    EXPECT_EQ(refusal(R"({"type":"string","minLength":16777216})"), "");
    EXPECT_EQ(refusal(R"({"type":"string","maxLength":1e300})"), "");
    EXPECT_NE(refusal(R"({"type":"number","minimum":1e15})").find("15 digits"), std::string::npos);
    EXPECT_EQ(refusal(R"({"type":"number","minimum":999999999999999})"), "");
    EXPECT_NE(refusal(R"({"required":["b"],"properties":{"a":{}},"additionalProperties":false})")
                  .find("'b'"),
              std::string::npos);
}

TEST(json_schema_refusals, size_is_bounded) {
    EXPECT_EQ(refusal(R"({"type":"array","maxItems":10000})"), "");
    EXPECT_NE(refusal(R"({"const":")" + std::string(410'000, 'a') + "\"}").find("more than"),
              std::string::npos);
    std::string deep = R"({"type":"null"})";
    for (int i = 0; i < 63; ++i) deep = R"({"type":"array","items":)" + deep + "}";
    EXPECT_EQ(refusal(deep), "");
    EXPECT_NE(refusal(R"({"type":"array","items":)" + deep + "}").find("64 deep"),
              std::string::npos);
}

// A schema that only an endless value satisfies leaves a grammar in which nothing begins.
TEST(json_schema_refusals, what_no_finite_value_satisfies_matches_nothing) {
    auto rules = compile(R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":
        {"n":{"$ref":"#/$defs/t"}},"required":["n"]}}})");
    EXPECT_TRUE(rules->rules[rules->root].empty());
    rules = compile(R"({"type":"integer","minimum":3,"maximum":2})");
    EXPECT_TRUE(rules->rules[rules->root].empty());
}

TEST(json_grammar, templates_spacing_is_exact) {
    EXPECT_TRUE(matches(person, R"({"name": "Ada", "age": 36})", json_spacing::templates));
    EXPECT_FALSE(matches(person, R"({"name":"Ada"})", json_spacing::templates));
    EXPECT_FALSE(matches(person, "{ \"name\": \"Ada\"}", json_spacing::templates));
}

// Whatever has been written, an end can be reached: a walk that always takes a random next byte
// never gets stuck, and what it wrote is JSON.
TEST(json_grammar, random_walks_never_get_stuck_and_end_as_json) {
    std::mt19937 random(7);
    for (const char* schema :
         {person, tree, R"({"pattern":"^(a|bc){1,3}[x-z]?$"})",
          R"({"type":"array","items":{"type":"number","minimum":-2.5,"exclusiveMaximum":3}})",
          R"({"type":"object","additionalProperties":{"type":"boolean"}})", "{}"}) {
        auto rules = compile(schema);
        for (int walk = 0; walk < 40; ++walk) {
            grammar_matcher matcher(rules);
            auto state = matcher.start();
            std::string text;
            while (!(matcher.accepts(state) && (!matcher.goes_on(state) || text.size() > 200))) {
                std::vector<unsigned char> possible;
                for (int byte = 0; byte < 256; ++byte)
                    if (matcher.step(state, static_cast<unsigned char>(byte)) !=
                        grammar_matcher::dead)
                        possible.push_back(static_cast<unsigned char>(byte));
                ASSERT_FALSE(possible.empty()) << schema << " after " << text;
                // Long texts take what closes, so that the walk ends.
                unsigned char byte = possible[random() % possible.size()];
                if (text.size() > 100)
                    for (char close : {']', '}', '"'})
                        if (matcher.step(state, static_cast<unsigned char>(close)) !=
                            grammar_matcher::dead)
                            byte = static_cast<unsigned char>(close);
                text += static_cast<char>(byte);
                state = matcher.step(state, byte);
                ASSERT_LT(text.size(), 5000u) << schema;
            }
            boost::system::error_code error;
            boost::json::parse(text, error);
            ASSERT_FALSE(error) << schema << ": " << text;
        }
    }
}

}  // namespace
}  // namespace semantic::engine
