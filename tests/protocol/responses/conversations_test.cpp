// SPDX-License-Identifier: Apache-2.0
#include "protocol/responses/conversations.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

namespace semantic::protocol::responses {
namespace {

namespace json = boost::json;

id_maker counting_ids(std::uint64_t from = 0) {
    return id_maker([n = from]() mutable { return ++n; });
}

kept_response made(const std::string& body) {
    auto request = parse_conversation(body, {});
    EXPECT_TRUE(request) << (request ? "" : request.error().message);
    id_maker ids = counting_ids();
    return new_conversation("conv_1", 7, *request, ids);
}

TEST(conversations, one_may_begin_with_nothing) {
    EXPECT_EQ(conversation_body(made("{}")),
              R"({"id":"conv_1","object":"conversation","created_at":7,"metadata":{}})");
}

TEST(conversations, its_items_are_what_a_response_is_asked_with) {
    const kept_response one =
        made(R"({"items":[{"role":"user","content":"Hi"}],"metadata":{"a":"b"}})");
    const std::shared_ptr<const kept_response> kept = std::make_shared<kept_response>(one);
    const auto items = items_of(std::span(&kept, 1));
    ASSERT_TRUE(items);
    ASSERT_EQ(items->size(), 1u);
    EXPECT_TRUE(items->at(0).at("id").as_string().starts_with("msg_"));
    EXPECT_EQ(with_metadata(one, {{"c", "d"}}).body.find(R"("a")"), std::string::npos);
}

TEST(conversations, an_item_that_no_response_could_be_asked_with_is_refused_by_its_place) {
    for (const char* body :
         {R"({"items":[{"type":"function_call"}]})", R"({"items":[{"role":"robot"}]})",
          R"({"items":7})", R"({"items":[7]})", R"({"metadata":[]})", "[]", "{"}) {
        const auto request = parse_conversation(body, {});
        EXPECT_FALSE(request) << body;
    }
    EXPECT_EQ(parse_items(R"({"items":[{"role":"robot"}]})", {}).error().path, "items.0.role");
    EXPECT_TRUE(parse_items(R"({"items":[{"type":"mcp_call"},{"type":"of_tomorrow"}]})", {}))
        << "what another server put there";
    EXPECT_EQ(parse_items("{}", {}).error().code, errc::missing_field);
    EXPECT_EQ(parse_metadata("{}", {}).error().code, errc::missing_field);
    EXPECT_TRUE(parse_metadata(R"({"metadata":null})", {}));
}

TEST(conversations, items_are_added_read_and_removed_by_their_ids) {
    id_maker ids = counting_ids(1'000);
    json::array added;
    const auto two = with_items(made(R"({"items":[{"role":"user","content":"Hi"}]})"),
                                {{{"role", "user"}, {"content", "More"}}}, ids, added);
    ASSERT_TRUE(two);
    ASSERT_EQ(added.size(), 1u);
    const std::string id(added[0].at("id").as_string());
    EXPECT_EQ(json::parse(added_body(added)).at("first_id"), json::value(id));
    EXPECT_EQ(json::parse(*item_body(*two, id)), added[0]);
    const auto one = without_item(*two, id);
    ASSERT_TRUE(one);
    EXPECT_EQ(json::parse(one->input).as_array().size(), 1u);
    EXPECT_EQ(item_body(*one, id).error().code, errc::not_found);
    EXPECT_EQ(without_item(*one, id).error().code, errc::not_found);
}

}  // namespace
}  // namespace semantic::protocol::responses
