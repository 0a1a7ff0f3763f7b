// SPDX-License-Identifier: Apache-2.0
// The list of servers, and that nothing another one says gets into it unread.

#include "protocol/live/nodes.hpp"

#include <boost/json/parse.hpp>

#include <gtest/gtest.h>

namespace semantic::protocol::live {
namespace {

namespace json = boost::json;

json::value shown(std::string says, std::chrono::milliseconds silent_for = {}) {
    const std::vector<shown_node> nodes{{"id", "http://one", false, silent_for, std::move(says)}};
    return json::parse(nodes_text(nodes)).as_array().at(0);
}

TEST(live_nodes, what_a_node_says_of_itself_is_shown_by_another) {
    node_facts facts{"0.1.0", "ready", {"tiny", "other"}, 1, 2, 3, 4000, 3000, 5, 6, 7};
    const std::string text = node_text(facts);
    EXPECT_EQ(text.find('\n'), text.npos);
    EXPECT_EQ(shown(text), json::parse(R"({"id":"id","url":"http://one","self":false,"silent":false,
        "version":"0.1.0","phase":"ready","models":["tiny","other"],"agents_hot":1,"agents_warm":2,
        "agents_dirty":3,"pool_bytes":4000,"pool_held_bytes":3000,"running":5,"waiting":6,
        "uploads_pending":7})"));
}

TEST(live_nodes, one_that_gives_no_sign_is_silent_after_five_seconds) {
    EXPECT_EQ(shown("{}", std::chrono::milliseconds(5'000)).at("silent"), false);
    EXPECT_EQ(shown("{}", std::chrono::milliseconds(5'001)).at("silent"), true);
}

TEST(live_nodes, what_is_no_text_of_a_node_leaves_the_facts_open) {
    for (const char* says : {"", "hello", "[]", "[[[[[[[[]]]]]]]]", "{\"models\":"}) {
        const json::value node = shown(says);
        EXPECT_TRUE(node.at("phase").is_null()) << says;
        EXPECT_TRUE(node.at("running").is_null()) << says;
        EXPECT_EQ(node.at("url"), "http://one");
    }
}

TEST(live_nodes, fields_that_are_unknown_or_of_another_kind_do_not_pass) {
    const json::value node = shown(R"({"phase":7,"models":["a",{"b":1},"c"],"running":-1,
        "waiting":"many","id":"forged","url":"http://forged","self":true,"script":"<b>"})");
    EXPECT_EQ(node.at("phase"), "");
    EXPECT_EQ(node.at("models"), json::parse(R"(["a","c"])"));
    EXPECT_EQ(node.at("running"), 0);
    EXPECT_EQ(node.at("waiting"), 0);
    EXPECT_EQ(node.at("id"), "id");
    EXPECT_EQ(node.at("self"), false);
    EXPECT_FALSE(node.as_object().contains("script"));
}

TEST(live_nodes, names_and_lists_are_bounded) {
    std::string many = "{\"version\":\"" + std::string(500, 'x') + "\",\"models\":[\"m\"";
    for (int i = 0; i < 40; ++i) many += ",\"m\"";
    const json::value node = shown(many + "]}");
    EXPECT_EQ(node.at("version").as_string().size(), 128u);
    EXPECT_EQ(node.at("models").as_array().size(), 16u);
    // 43 characters of three bytes: the last one would not fit whole.
    std::string euros;
    for (int i = 0; i < 43; ++i) euros += "\xE2\x82\xAC";
    EXPECT_EQ(shown("{\"version\":\"" + euros + "\"}").at("version").as_string(),
              euros.substr(0, 126));
}

}  // namespace
}  // namespace semantic::protocol::live
