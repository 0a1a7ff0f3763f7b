// SPDX-License-Identifier: Apache-2.0
// Goal: a response says how much of its prompt was remembered since an earlier one, and what
// changed.

#include "protocol/responses/cache_diagnostics.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <string>

#include "protocol/responses/request.hpp"
#include "protocol/responses/response_stream.hpp"

namespace semantic::protocol::responses {
namespace {

namespace json = boost::json;

engine::prompt_usage usage(int prompt, int reused,
                           engine::miss_reason why = engine::miss_reason::none) {
    engine::prompt_usage made;
    made.prompt_tokens = prompt;
    made.reused_tokens = reused;
    made.why = why;
    return made;
}

/// A response to a request with these fields.
json::object earlier(json::object fields = {}) {
    json::object made{{"model", "m"}, {"usage", json::object{{"input_tokens", 100}}}};
    for (auto& [key, value] : fields) made[key] = value;
    return made;
}

TEST(cache_diagnostics, is_a_hit_where_all_but_the_last_token_was_there) {
    const cache_comparison same = compare_with(earlier(), "m", {}, false);
    EXPECT_EQ(diagnostics_of(same, usage(150, 99)), (json::object{{"type", "cache_hit"}}));
    const json::object miss = diagnostics_of(same, usage(150, 98));
    EXPECT_EQ(miss.at("type"), "cache_miss");
    EXPECT_EQ(miss.at("reason"), "input_changed");
    EXPECT_EQ(miss.at("cache_missed_tokens"), 52);
    EXPECT_EQ(miss.at("comparison_reusable_tokens"), 98);
    EXPECT_EQ(diagnostics_of(same, usage(50, 49)).at("type"), "cache_hit") << "a shorter prompt";
}

TEST(cache_diagnostics, names_each_reason_in_the_vendors_words) {
    struct row {
        json::object before, now;
        const char* reason;
    };
    const auto effort = [](const char* word) {
        return json::object{{"reasoning", json::object{{"effort", word}}}};
    };
    const auto text = [](const char* key, const char* word) {
        return json::object{{"text", json::object{{key, word}}}};
    };
    for (const row& each :
         {row{{{"tools", json::array{1}}}, {{"tools", json::array{2}}}, "tools_changed"},
          row{text("format", "a"), text("format", "b"), "text_format_changed"},
          row{effort("low"), effort("high"), "reasoning_effort_changed"},
          row{text("verbosity", "low"), text("verbosity", "high"), "verbosity_changed"},
          row{{{"service_tier", "a"}}, {{"service_tier", "b"}}, "service_tier_changed"},
          row{{{"prompt_cache_key", "a"}}, {}, "prompt_cache_key_changed"}}) {
        const auto compared = compare_with(earlier(each.before), "m", each.now, false);
        EXPECT_EQ(diagnostics_of(compared, usage(150, 0)).at("reason"), each.reason);
    }
    EXPECT_EQ(compare_with(earlier(), "other", {}, false).changed, "model_changed");
    EXPECT_EQ(compare_with(earlier(), "m", {}, true).changed, "context_compacted");
    const cache_comparison same = compare_with(earlier(), "m", {}, false);
    using enum engine::miss_reason;
    EXPECT_EQ(diagnostics_of(same, usage(150, 0, tools_changed)).at("reason"), "tools_changed");
    EXPECT_EQ(diagnostics_of(same, usage(150, 0, system_changed)).at("reason"), "input_changed");
    EXPECT_EQ(diagnostics_of(same, usage(150, 0, evicted)).at("type"), "unavailable");
    EXPECT_EQ(diagnostics_of({}, usage(150, 0)).at("type"), "comparison_response_not_found");
}

TEST(cache_diagnostics, are_asked_for_by_an_earlier_response) {
    kept_sources kept;
    kept.response_of = [](const std::string& id) -> std::optional<json::object> {
        if (id != "resp_1") return std::nullopt;
        return earlier();
    };
    const auto asked = [&](const std::string& id) {
        auto request = parse_response(R"({"model":"m","input":"Hi","prompt_cache_options":)"
                                      R"({"comparison_response_id":")" +
                                          id + R"("}})",
                                      {}, kept);
        EXPECT_TRUE(request) << request.error().message;
        return request->compared;
    };
    ASSERT_TRUE(asked("resp_1"));
    EXPECT_TRUE(asked("resp_1")->is_found);
    EXPECT_EQ(asked("resp_1")->earlier_tokens, 100);
    EXPECT_FALSE(asked("resp_2")->is_found);
    EXPECT_FALSE(parse_response(R"({"model":"m","input":"Hi"})")->compared);

    id_maker ids([] { return std::uint64_t{7}; });
    reply_options options;
    options.compared = asked("resp_2");
    response_stream stream(std::move(options), ids);
    stream.on_admitted({*storage::agent_id::parse("a"), usage(3, 0)});
    EXPECT_EQ(stream.response().at("prompt_cache_diagnostics").at("type"),
              "comparison_response_not_found");
}

TEST(prewarming, reads_and_answers_nothing) {
    const auto request = parse_response(
        R"({"model":"m","input":"Hi","generate":true,"prompt_cache_options":{"prewarm":true}})");
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_FALSE(request->generates);
    EXPECT_TRUE(
        parse_response(R"({"model":"m","input":"Hi","prompt_cache_options":{}})")->generates);
}

}  // namespace
}  // namespace semantic::protocol::responses
