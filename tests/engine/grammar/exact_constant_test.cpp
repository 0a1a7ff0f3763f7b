// SPDX-License-Identifier: Apache-2.0
// Numbers of a schema that no double and no 64 bits hold.

#include <gtest/gtest.h>

#include "engine/grammar/forms/answer_grammar.hpp"
#include "engine/grammar/grammar_matcher.hpp"
#include "engine/types/exact_json.hpp"

namespace semantic::engine {
namespace {

const tokenizer& words() {
    static const tokenizer made =
        *tokenizer::load(std::string(SEMANTIC_SOURCE_DIR) + "/etc/models/semantic-tiny");
    return made;
}

/// Whether an answer that the schema holds may be `text`. Throws where it is refused.
bool lets(const std::string& schema, std::string_view text) {
    generation_request request;
    request.form = {.what = output_form::kind::json, .schema_json = schema};
    auto made = answer_grammars(words(), "chatml").compile(request);
    if (!made) throw std::runtime_error(made.error().what);
    grammar_matcher matcher(made->program);
    auto at = matcher.start();
    for (const char c : text) at = matcher.step(at, static_cast<unsigned char>(c));
    return matcher.accepts(at);
}

TEST(exact_constant, of_a_schema_is_written_digit_for_digit_at_any_length) {
    const std::string long_one(400, '7');
    for (const std::string& number :
         {std::string("12345678901234567"), std::string("123456789012345678901234567890"),
          std::string("-0.12345678901234567890123"), std::string("1.000000000000000000001"),
          std::string("1e400"), long_one}) {
        EXPECT_TRUE(lets("{\"const\":" + number + "}", number));
        EXPECT_FALSE(lets("{\"const\":" + number + "}", number + "0"));
        EXPECT_TRUE(lets("{\"enum\":[1," + number + "]}", number)) << number;
        EXPECT_TRUE(lets("{\"const\":{\"a\":[" + number + "]}}", "{\"a\": [" + number + "]}"));
    }
    EXPECT_FALSE(lets(R"({"const":12345678901234567890123})", "12345678901234567000000"))
        << "what a double makes of it";
}

TEST(exact_constant, is_a_number_and_no_text) {
    EXPECT_TRUE(
        lets(R"({"type":"integer","const":12345678901234567890123})", "12345678901234567890123"));
    EXPECT_TRUE(lets(R"({"type":"number","enum":[0.12345678901234567890123]})",
                     "0.12345678901234567890123"));
    EXPECT_THROW(lets(R"({"type":"integer","const":0.12345678901234567890123})", "0"),
                 std::runtime_error);
    EXPECT_THROW(lets(R"({"type":"string","const":12345678901234567890123})", "0"),
                 std::runtime_error);
    EXPECT_TRUE(is_whole("1.50e1") && is_whole("1e30") && is_whole("-0.0") && !is_whole("1.5"));
}

TEST(exact_constant, elsewhere_a_number_beyond_doubles_is_a_bound_as_before) {
    const std::string bound = "99999999999999999999999999";
    EXPECT_TRUE(lets(R"({"type":"integer","maximum":)" + bound + "}", "17"));
    EXPECT_TRUE(lets(R"({"type":"string","maxLength":)" + bound + "}", R"("a")"));
    EXPECT_TRUE(lets(R"({"type":"object","additionalProperties":false,"required":["const"],
                         "properties":{"const":{"type":"integer","maximum":)" +
                         bound + "}}}",
                     R"({"const": 5})"))
        << "a property of that name is a schema";
}

}  // namespace
}  // namespace semantic::engine
