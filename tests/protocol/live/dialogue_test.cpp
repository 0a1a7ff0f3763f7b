// SPDX-License-Identifier: Apache-2.0
// What a client of /ws may say, as a table.

#include "protocol/live/dialogue.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace semantic::protocol::live {
namespace {

using namespace std::chrono_literals;

const dialogue::time start{1h};

dialogue in_stage(stage wanted) {
    dialogue made;
    made.opened(wanted == stage::watching, start);
    if (wanted == stage::judging) made.said(R"({"type":"authenticate"})", start);
    if (wanted == stage::closed) made.refused("no");
    return made;
}

struct row {
    const char* name;
    stage before;
    std::function<answer(dialogue&)> input;
    stage after;
    std::string says;  // part of the message that is sent; empty: nothing is sent
    std::optional<close_code> close{};
    bool judges = false;
    bool snapshot = false;
};

std::function<answer(dialogue&)> say(std::string text) {
    return [text](dialogue& to) { return to.said(text, start); };
}

const char* keys = R"({"type":"authenticate","api_key":"k"})";
const auto binary = [](dialogue& to) { return to.said_binary(); };
const auto late = [](dialogue& to) { return to.waited(); };
const auto welcome = [](dialogue& to) { return to.welcomed(true); };
const auto refuse = [](dialogue& to) { return to.refused("wrong key"); };

using enum stage;
using code = close_code;

const row rows[] = {
    {"opened unknown", greeting, [](dialogue& to) { return to.opened(false, start); }, greeting,
     R"("type":"authenticate")"},
    {"opened known",
     greeting,
     [](dialogue& to) { return to.opened(true, start); },
     watching,
     R"({"type":"welcome","admin":false})",
     {},
     false,
     true},
    {"keys", greeting, say(keys), judging, "", {}, true},
    {"keys again while they are judged", judging, say(keys), closed, "unauthorized",
     code::unauthorized},
    {"good keys", judging, welcome, watching, R"("admin":true)", {}, false, true},
    {"bad keys", judging, refuse, closed, "wrong key", code::unauthorized},
    {"other keys later", watching, say(keys), judging, "", {}, true},
    {"no keys in time", greeting, late, closed, "unauthorized", code::unauthorized},
    {"time passes for who is known", watching, late, watching, ""},
    {"a snapshot before keys", greeting, say(R"({"type":"snapshot"})"), closed, "unauthorized",
     code::unauthorized},
    {"a snapshot", watching, say(R"({"type":"snapshot"})"), watching, "", {}, false, true},
    {"ping", watching, say(R"({"type":"ping"})"), watching, R"({"type":"pong"})"},
    {"ping before keys", greeting, say(R"({"type":"ping"})"), greeting, R"({"type":"pong"})"},
    {"an unknown type", watching, say(R"({"type":"x"})"), watching, "unknown_type"},
    {"no JSON", watching, say("hello"), closed, "malformed", code::policy},
    {"no object", watching, say("[]"), closed, "malformed", code::policy},
    {"no type", watching, say("{}"), closed, "malformed", code::policy},
    {"a type that is no text", watching, say(R"({"type":1})"), closed, "malformed", code::policy},
    {"a key that is no text", greeting, say(R"({"type":"authenticate","api_key":1})"), closed,
     "malformed", code::policy},
    {"deep nesting", watching, say(R"({"type":"ping","a":[[[[[1]]]]]})"), closed, "malformed",
     code::policy},
    {"binary", watching, binary, closed, "binary", code::unsupported},
    {"anything after the end", closed, say(R"({"type":"ping"})"), closed, ""},
};

TEST(live_dialogue, follows_its_table) {
    for (const row& each : rows) {
        SCOPED_TRACE(each.name);
        dialogue talk =
            std::string(each.name).starts_with("opened") ? dialogue() : in_stage(each.before);
        const answer found = each.input(talk);
        EXPECT_EQ(talk.now(), each.after);
        if (each.says.empty())
            EXPECT_EQ(found.send, "");
        else
            EXPECT_NE(found.send.find(each.says), std::string::npos) << found.send;
        EXPECT_EQ(found.close, each.close);
        EXPECT_EQ(found.judge.has_value(), each.judges);
        EXPECT_EQ(found.wants_snapshot, each.snapshot);
    }
}

TEST(live_dialogue, hands_over_the_keys_that_were_shown) {
    dialogue talk = in_stage(greeting);
    const answer asks = talk.said(R"({"type":"authenticate","api_key":"","admin_key":"b"})", start);
    ASSERT_TRUE(asks.judge);
    EXPECT_FALSE(asks.judge->api_key);
    EXPECT_EQ(asks.judge->admin_key, "b");
}

TEST(live_dialogue, takes_twenty_messages_at_once_and_two_a_second) {
    dialogue talk = in_stage(watching);
    const char* ping = R"({"type":"ping"})";
    for (int i = 0; i < 20; ++i) ASSERT_FALSE(talk.said(ping, start).close) << i;
    for (int i = 0; i < 4; ++i) ASSERT_FALSE(talk.said(ping, start + 500ms * (i + 1)).close) << i;
    const answer last = talk.said(ping, start + 2001ms);
    EXPECT_EQ(last.close, close_code::policy);
    EXPECT_NE(last.send.find("too_many"), std::string::npos);
}

TEST(live_dialogue, takes_a_key_of_1024_bytes_and_none_of_one_more) {
    const auto shown = [](std::size_t bytes) {
        dialogue talk = in_stage(greeting);
        const std::string key(bytes, 'k');
        return talk.said(R"({"type":"authenticate","api_key":")" + key + R"("})", start);
    };
    EXPECT_TRUE(shown(key_bytes_max).judge);
    EXPECT_EQ(shown(key_bytes_max + 1).close, close_code::policy);
}

}  // namespace
}  // namespace semantic::protocol::live
