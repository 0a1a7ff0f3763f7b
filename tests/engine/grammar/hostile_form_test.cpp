// SPDX-License-Identifier: Apache-2.0
// Schemas, grammars and expressions that are made to cost much: what they may take is counted, and
// what takes more ends in an error that names the limit.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "engine/grammar/forms/answer_grammar.hpp"
#include "engine/grammar/forms/gbnf.hpp"
#include "engine/grammar/forms/text_pattern.hpp"
#include "engine/grammar/json_grammar.hpp"

namespace semantic::engine {
namespace {

using storage::work_budget;
using storage::work_limit_exceeded;

const tokenizer& words() {
    static const tokenizer made =
        *tokenizer::load(std::string(SEMANTIC_SOURCE_DIR) + "/etc/models/semantic-tiny");
    return made;
}

struct cost {
    std::string refused;  // empty: it compiles
    std::uint64_t steps = 0;
    std::size_t bytes = 0;
};

/// Of a strict schema, or one that is not.
cost cost_of(const std::string& schema, bool is_strict = true,
             const work_budget::limits& most = {}) {
    auto budget = std::make_shared<work_budget>(most);
    generation_request request;
    request.form = {.what = output_form::kind::json, .schema_json = schema};
    request.form.is_strict = is_strict;
    request.budget = budget;
    const auto made = answer_grammars(words(), "chatml").compile(request);
    return {made ? "" : made.error().what, budget->steps(), budget->bytes_peak()};
}

std::string repeated(int count, const std::function<std::string(int)>& piece) {
    std::string out;
    for (int i = 0; i < count; ++i) out += (i > 0 ? "," : "") + piece(i);
    return out;
}

std::string numbered(const std::string& name, int i) { return name + std::to_string(i); }

TEST(hostile_form, a_long_property_name_is_an_ordinary_one) {
    const std::string name(20'000, 'a');
    const cost taken = cost_of(R"({"type":"object","properties":{")" + name +
                               R"(":{"type":"string"}},"additionalProperties":true})");
    EXPECT_EQ(taken.refused, "");
    EXPECT_LT(taken.steps, 1'000'000u);
}

TEST(hostile_form, names_longer_than_a_grammar_may_be_are_refused_and_end_nothing) {
    for (const bool is_strict : {true, false})
        for (const char* more : {"true", R"({"type":"integer"})"}) {
            const std::string name(1'000'000, 'a');
            const cost taken =
                cost_of(R"({"type":"object","properties":{")" + name +
                            R"(":{"type":"string"}},"additionalProperties":)" + more + "}",
                        is_strict);
            EXPECT_NE(taken.refused, "");
            EXPECT_LT(taken.bytes, work_budget::bytes_default);
        }
}

// Each reference to the same place adds nothing, however much that place says.
TEST(hostile_form, a_reference_that_is_made_often_is_merged_once) {
    const std::string names = repeated(3000, [](int i) { return '"' + numbered("name", i) + '"'; });
    for (const std::string& place :
         {R"({"type":"object","required":[)" + names + "]}",
          R"({"type":"string","pattern":")" + std::string(30'000, 'a') + "\"}",
          R"({"type":"object","properties":{)" + repeated(300, [](int i) {
              return '"' + numbered("p", i) + R"(":{"minLength":1})";
          }) + "}}"}) {
        const cost once = cost_of(R"({"$defs":{"x":)" + place +
                                  R"(},"allOf":[{"$ref":"#/$defs/x"},{"$ref":"#/$defs/x"}]})");
        const cost often = cost_of(
            R"({"$defs":{"x":)" + place + R"(},"allOf":[)" +
            repeated(5000, [](int) { return std::string(R"({"$ref":"#/$defs/x"})"); }) + "]}");
        EXPECT_EQ(once.refused, often.refused);
        EXPECT_LT(often.steps, once.steps + 500'000);
        EXPECT_LT(often.bytes, once.bytes + (std::size_t{4} << 20));
    }
}

// Parts that differ are all held, and cost what they say.
TEST(hostile_form, lists_that_many_schemas_name_are_joined_in_linear_work) {
    for (const char* keyword : {"required", "enum"}) {
        const auto schema = [&](int parts) {
            return R"({"type":"object","additionalProperties":false,"allOf":[)" +
                   repeated(parts,
                            [&](int i) {
                                return std::string("{\"") + keyword + "\":[\"a\",\"b\",\"" +
                                       numbered("c", i % 7) + "\"]}";
                            }) +
                   "]}";
        };
        const cost few = cost_of(schema(500), false), many = cost_of(schema(5000), false);
        EXPECT_LT(many.steps, 12 * few.steps) << keyword;
        EXPECT_LT(many.bytes, std::size_t{16} << 20) << keyword;
    }
}

TEST(hostile_form, a_property_that_many_schemas_describe_costs_linear_work) {
    const auto schema = [](int parts) {
        return R"({"allOf":[)" +
               repeated(parts,
                        [](int i) {
                            return R"({"properties":{"a":{"maxLength":)" + std::to_string(i + 1) +
                                   "}}}";
                        }) +
               R"(],"additionalProperties":false})";
    };
    EXPECT_EQ(cost_of(schema(2000)).refused, "");
    EXPECT_LT(cost_of(schema(4000)).steps, 12 * cost_of(schema(400)).steps);
}

TEST(hostile_form, many_alternatives_are_told_apart_in_linear_work) {
    const auto of_types = [](int count) {
        return R"({"oneOf":[)" +
               repeated(count,
                        [](int i) {
                            return R"({"type":"object","additionalProperties":false,)"
                                   R"("required":["kind"],)"
                                   R"("properties":{"kind":{"const":")" +
                                   numbered("k", i) + R"("}}})";
                        }) +
               "]}";
    };
    const auto of_constants = [](int count) {
        return R"({"oneOf":[)" +
               repeated(count, [](int i) { return R"({"const":)" + std::to_string(i) + "}"; }) +
               "]}";
    };
    for (const auto& schema : {std::function<std::string(int)>(of_types),
                               std::function<std::string(int)>(of_constants)}) {
        const cost few = cost_of(schema(150)), many = cost_of(schema(1500));
        EXPECT_EQ(many.refused, "");
        EXPECT_LT(many.steps, 14 * few.steps);
    }
}

TEST(hostile_form, unique_items_are_counted_before_they_are_compared) {
    const std::string values = repeated(50'000, [](int i) { return std::to_string(i); });
    const cost taken =
        cost_of(R"({"type":"array","uniqueItems":true,"items":{"enum":[)" + values + "]}}");
    EXPECT_NE(taken.refused.find("'uniqueItems' of 50000 values"), std::string::npos)
        << taken.refused;
    EXPECT_LT(taken.steps, 2'000'000u);
}

// Each level names the one before it twice.
TEST(hostile_form, what_doubles_at_each_level_ends_at_a_limit) {
    std::string places = R"("d0":{"type":"string"})";
    for (int i = 1; i < 60; ++i) {
        const std::string before =
            R"({"allOf":[{"$ref":"#/$defs/)" + numbered("d", i - 1) + R"("},{"description":"x"}]})";
        places += ",\"" + numbered("d", i) + R"(":{"type":"object","properties":{"l":)" + before +
                  ",\"r\":" + before + "}}";
    }
    const std::string schema = R"({"$ref":"#/$defs/d59","$defs":{)" + places + "}}";
    EXPECT_NE(cost_of(schema).refused, "");
    const cost taken = cost_of(schema, false);
    EXPECT_LE(taken.steps, work_budget::steps_default);
    EXPECT_LE(taken.bytes, work_budget::bytes_default);
}

TEST(hostile_form, many_expressions_for_one_string_share_one_budget) {
    const cost taken = cost_of(
        R"({"type":"string","allOf":[)" +
        repeated(2000,
                 [](int i) { return R"({"pattern":"(a{900}){20}b)" + std::to_string(i) + "\"}"; }) +
        "]}");
    EXPECT_NE(taken.refused, "");
    EXPECT_LE(taken.bytes, work_budget::bytes_default);
}

// A string that is described like one before is that one.
TEST(hostile_form, what_is_described_alike_is_written_once) {
    const auto schema = [](int count) {
        return R"({"type":"object","additionalProperties":false,"properties":{)" +
               repeated(
                   count,
                   [](int i) {
                       return '"' + numbered("p", i) +
                              R"(":{"type":"object","additionalProperties":false,"properties":{)"
                              R"("when":{"type":"string","format":"date-time"},)"
                              R"("name":{"type":"string","maxLength":255},)"
                              R"("share":{"type":"number","minimum":0,"maximum":1}}})";
                   }) +
               "}}";
    };
    EXPECT_EQ(cost_of(schema(1000)).refused, "");
    EXPECT_LT(cost_of(schema(1000)).steps, 1'500'000u);
}

TEST(hostile_form, the_limit_that_is_exceeded_by_one_is_named) {
    const std::string schema = R"({"type":"object","properties":{"a":{"type":"string"}}})";
    const cost exact = cost_of(schema);
    ASSERT_EQ(exact.refused, "");
    EXPECT_EQ(cost_of(schema, true, {.steps = exact.steps}).refused, "");
    EXPECT_EQ(cost_of(schema, true, {.bytes = exact.bytes}).refused, "");
    EXPECT_EQ(cost_of(schema, true, {.steps = exact.steps - 1}).refused,
              "the schema: it takes more work than the " + std::to_string(exact.steps - 1) +
                  " steps that one request may");
    EXPECT_EQ(cost_of(schema, true, {.bytes = exact.bytes - 1}).refused,
              "the schema: it takes more memory than the 0 MiB that one request may");
}

TEST(hostile_form, a_deadline_and_a_client_that_leaves_end_it) {
    generation_request request;
    request.form = {.what = output_form::kind::json, .schema_json = R"({"type":"string"})"};
    answer_grammars grammars(words(), "chatml");
    request.budget = std::make_shared<work_budget>();
    request.budget->cancel();
    EXPECT_THROW((void)grammars.compile(request), work_limit_exceeded);
    request.budget = nullptr;
    request.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
    EXPECT_THROW((void)grammars.compile(request), work_limit_exceeded);
    request.deadline = std::nullopt;
    EXPECT_TRUE(grammars.compile(request));
}

TEST(hostile_form, tools_are_found_by_name_however_many_there_are) {
    generation_request request;
    request.form = {.what = output_form::kind::calls};
    request.budget = std::make_shared<work_budget>();
    for (int i = 0; i < 1000; ++i)
        request.chat.tools.push_back({numbered("tool_number_", i), "", R"({"type":"object"})"});
    EXPECT_TRUE(answer_grammars(words(), "chatml").compile(request));
    EXPECT_LT(request.budget->steps(), 2'000'000u);
}

TEST(hostile_form, many_sets_of_bytes_are_found_by_hash) {
    // Each class is another set.
    std::string text = "root ::=";
    for (int i = 0; i < 8000; ++i) {
        text += " [";
        for (int bit = 0; bit < 13; ++bit)
            if ((i >> bit & 1) != 0) text += static_cast<char>('a' + bit);
        text += "z]";
        if (text.size() > 60'000) break;
    }
    work_budget budget;
    grammar_builder out(budget);
    const auto root = read_gbnf(out, text);
    const grammar made = std::move(out).build(root);
    EXPECT_GT(made.byte_sets.size(), 3000u);
    EXPECT_LT(budget.steps(), 200'000u);
}

TEST(hostile_form, groups_within_groups_are_read_without_copies_of_copies) {
    std::string pattern(90, '(');
    pattern += std::string(60'000, 'a');
    for (int i = 0; i < 90; ++i) pattern += ")*";
    work_budget budget;
    grammar_builder out(budget);
    EXPECT_NO_THROW(texts_matching(out, pattern));
    EXPECT_LT(budget.bytes_peak(), std::size_t{32} << 20);
}

}  // namespace
}  // namespace semantic::engine
