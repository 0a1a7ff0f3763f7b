// SPDX-License-Identifier: Apache-2.0
#include "protocol/responses/kept_response.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include "protocol/wire/json.hpp"

namespace semantic::protocol::responses {
namespace {

namespace json = boost::json;

id_maker counted_ids() {
    return id_maker([n = std::uint64_t{0}]() mutable { return ++n; });
}

kept_response kept(std::string input, std::string output, std::string id = "resp_1") {
    return {std::move(id), "", 7, std::move(input), R"({"output":)" + output + "}"};
}

json::array items_in(const std::string& body) { return json::parse(body).at("data").as_array(); }

TEST(kept_response, a_record_gives_back_what_was_written) {
    const kept_response one{"resp_1", "resp_0", 7, R"([{"id":"msg_1","content":"\u00e9 \" {"}])",
                            R"({"id":"resp_1","output":[]})"};
    const auto read = kept_response_of(record_of(one));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->id, one.id);
    EXPECT_EQ(read->previous, one.previous);
    EXPECT_EQ(read->created_unix, 7);
    EXPECT_EQ(read->input, one.input);
    EXPECT_EQ(read->body, one.body);
}

TEST(kept_response, what_is_no_record_is_refused_and_another_version_too) {
    for (const char* record :
         {"", "{", "[]", "7", R"({"version":1})",
          R"({"version":1,"created":"now","id":"a","previous":"","input":"[]","body":"{}"})",
          R"({"version":2,"created":1,"id":"a","previous":"","input":"[]","body":"{}"})",
          R"({"version":1,"created":1,"id":7,"previous":"","input":"[]","body":"{}"})",
          R"({"version":1,"created":1,"id":"a","previous":"","input":"{}","body":"{}"})"})
        EXPECT_FALSE(kept_response_of(record)) << record;
}

TEST(kept_response, input_becomes_items_that_have_ids_and_types) {
    id_maker ids = counted_ids();
    const json::array text = named_items(json::value("Hi"), ids);
    ASSERT_EQ(text.size(), 1u);
    EXPECT_EQ(text[0].at("type"), "message");
    EXPECT_EQ(text[0].at("role"), "user");
    EXPECT_TRUE(text[0].at("id").as_string().starts_with("msg_"));
    EXPECT_EQ(to_text(text[0].at("content")), R"([{"type":"input_text","text":"Hi"}])");

    const json::array list = named_items(
        json::parse(R"([{"role":"assistant","content":"Yes"},{"type":"function_call","id":"fc_own",
            "call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output",
            "call_id":"c","output":"7","id":null},{"type":"reasoning","summary":[]}])"),
        ids);
    ASSERT_EQ(list.size(), 4u);
    EXPECT_EQ(list[0].at("content").at(0).at("type"), "output_text");
    EXPECT_EQ(list[1].at("id"), "fc_own");
    EXPECT_TRUE(list[2].at("id").as_string().starts_with("fco_"));
    EXPECT_TRUE(list[3].at("id").as_string().starts_with("rs_"));
}

TEST(kept_response, a_conversation_is_what_each_was_asked_and_said_with_half_a_call_too) {
    const auto shared = [](kept_response one) {
        return std::make_shared<const kept_response>(std::move(one));
    };
    const std::shared_ptr<const kept_response> chain[]{
        shared(kept(R"([{"id":"a"}])", R"([{"id":"b","status":"completed"}])")),
        shared(kept(R"([{"id":"c"},{"id":"d"}])",
                    R"([{"id":"e","content":[],"status":"incomplete"},)"
                    R"({"id":"f","type":"function_call","status":"incomplete"}])"))};
    const auto items = items_of(chain);
    ASSERT_TRUE(items) << items.error().message;
    std::string ids;
    for (const json::value& each : *items) ids += each.at("id").as_string();
    EXPECT_EQ(ids, "abcdef");
    const std::shared_ptr<const kept_response> broken[]{shared(kept("[", "[]"))};
    EXPECT_FALSE(items_of(broken));
}

TEST(kept_response, items_are_listed_page_by_page) {
    const kept_response one = kept(R"([{"id":"a"},{"id":"b"},{"id":"c"}])", "[]");
    const auto page = [&](item_page how) { return input_items_body(one, how); };
    const json::value latest = json::parse(*page({}));
    EXPECT_EQ(to_text(latest),
              R"({"object":"list","data":[{"id":"c"},{"id":"b"},{"id":"a"}],"first_id":"c",)"
              R"("last_id":"a","has_more":false})");
    const json::value two = json::parse(*page({.limit = 2, .descending = false}));
    EXPECT_EQ(two.at("last_id"), "b");
    EXPECT_EQ(two.at("has_more"), true);
    const auto rest = page({.limit = 2, .descending = false, .after = "b"});
    EXPECT_EQ(to_text(items_in(*rest)), R"([{"id":"c"}])");
    EXPECT_EQ(to_text(items_in(*page({.after = "a"}))), "[]");
    const auto lost = page({.after = "x"});
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().code, errc::not_found);
}

TEST(kept_response, a_page_has_one_to_a_hundred_items) {
    using some = std::optional<std::string>;
    EXPECT_EQ(parse_item_page(some("1"), {}, {})->limit, 1u);
    EXPECT_EQ(parse_item_page(some("100"), some("asc"), some("x"))->limit, 100u);
    for (const char* limit : {"0", "101", "-1", "", "x", "1x", "99999999999999999999"}) {
        const auto page = parse_item_page(some(limit), {}, {});
        ASSERT_FALSE(page) << limit;
        EXPECT_EQ(page.error().path, "limit");
    }
    EXPECT_EQ(parse_item_page({}, some("up"), {}).error().path, "order");
}

TEST(kept_response, items_are_put_behind_others_as_text) {
    EXPECT_EQ(joined_items("[]", "[]"), "[]");
    EXPECT_EQ(joined_items("[]", R"([{"id":"a"}])"), R"([{"id":"a"}])");
    EXPECT_EQ(joined_items(R"([{"id":"a"}])", "[]"), R"([{"id":"a"}])");
    EXPECT_EQ(joined_items(R"([{"id":"a"}])", "[7,8]"), R"([{"id":"a"},7,8])");
    const std::string output = R"([{"id":"b","content":[],"status":"incomplete"},)"
                               R"({"id":"c","type":"function_call","status":"incomplete"}])";
    const std::string said =
        said_items_text(json::parse(R"({"output":)" + output + "}").as_object());
    EXPECT_EQ(said, output) << "half a call too";
    EXPECT_EQ(said_items_text({}), "[]");
    const auto one = std::make_shared<const kept_response>(kept(R"([{"id":"a"}])", said));
    const std::shared_ptr<const kept_response> chain[]{one, one};
    const auto text = items_text_of(chain);
    ASSERT_TRUE(text);
    EXPECT_EQ(json::parse(*text).as_array(), items_of(chain).value());
}

TEST(kept_response, an_item_is_found_by_its_id_in_what_was_said_and_asked) {
    const kept_response one =
        kept(R"([{"id":"a","n":1},{"id":"r","type":"item_reference"}])", R"([{"id":"b","n":2}])");
    const kept_response other = kept(R"([{"id":"c","n":3}])", "[]", "resp_2");
    storage::work_budget budget;
    item_finder finder(&budget);
    for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(finder.find(one, "a")->at("n"), 1);
        EXPECT_EQ(finder.find(one, "b")->at("n"), 2);
        EXPECT_EQ(finder.find(other, "c")->at("n"), 3);
        EXPECT_EQ(finder.find(one, "c"), nullptr);
        EXPECT_EQ(finder.find(one, "r"), nullptr);
    }
    EXPECT_GT(budget.bytes(), 0u);
    EXPECT_LT(budget.bytes(), 4'000u) << "the last lists alone are kept read";
    EXPECT_GT(budget.steps(), 0u);
}

TEST(kept_response, what_is_read_is_paid_for_as_long_as_it_is) {
    std::string input = "[";
    for (int i = 0; i < 1'000; ++i) input += R"({"id":"a"},)";
    input.back() = ']';
    const kept_response one = kept(input, "[]");
    storage::work_budget enough;
    int items = 0;
    EXPECT_TRUE(read_items(
        one, [&](const json::value&) { ++items; }, &enough));
    EXPECT_EQ(items, 1'000);
    EXPECT_EQ(enough.bytes(), 0u);
    const std::size_t needed = enough.bytes_peak();
    storage::work_budget exact({.bytes = needed});
    EXPECT_TRUE(read_items(
        one, [](const json::value&) {}, &exact));
    storage::work_budget less({.bytes = needed - 1});
    EXPECT_THROW(static_cast<void>(read_items(
                     one, [](const json::value&) {}, &less)),
                 storage::work_limit_exceeded);
}

TEST(kept_response, text_that_looks_like_json_is_paid_for_as_the_text_that_it_is) {
    const std::string text =
        R"([{"id":"a","content":"{\"[{\\\",:,[{)" + std::string(100'000, '[') + R"("},{"id":"b"}])";
    const kept_response one = kept(text, "[]");
    storage::work_budget budget;
    int items = 0;
    EXPECT_TRUE(read_items(
        one, [&](const json::value&) { ++items; }, &budget));
    EXPECT_EQ(items, 2);
    EXPECT_LT(budget.bytes_peak(), text.size() + 1'000);
}

TEST(kept_response, one_that_a_stop_broke_off_has_failed_and_can_be_followed) {
    for (const char* status : {"queued", "in_progress"}) {
        kept_response one;
        one.id = "resp_1";
        one.body = R"({"status":")" + std::string(status) + R"(","background":true,"output":[]})";
        EXPECT_EQ(check_has_ended(one).error().path, "previous_response_id") << status;
        EXPECT_TRUE(was_in_background(one));
        EXPECT_TRUE(end_broken_off(one));
        EXPECT_EQ(json::parse(one.body).at("status"), "failed");
        EXPECT_NE(one.body.find("the server stopped"), std::string::npos);
        EXPECT_FALSE(end_broken_off(one)) << "once";
        EXPECT_TRUE(check_has_ended(one)) << "what was asked stands";
    }
    for (const char* status : {"completed", "incomplete", "cancelled"}) {
        kept_response one;
        one.body = R"({"status":")" + std::string(status) + R"(","output":[]})";
        EXPECT_TRUE(check_has_ended(one)) << status;
        EXPECT_FALSE(end_broken_off(one));
    }
}

}  // namespace
}  // namespace semantic::protocol::responses
