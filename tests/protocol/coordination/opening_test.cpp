// SPDX-License-Identifier: Apache-2.0
#include "protocol/coordination/opening.hpp"

#include <gtest/gtest.h>

#include "protocol/coordination/memory.hpp"

namespace semantic::protocol::coordination {
namespace {

result<opening> parsed(const std::string& body) {
    int made = 0;
    return parse_opening(body, "coord_0123456789ab",
                         [&] { return "agent_" + std::to_string(++made); });
}

session opened(const std::string& body, bool remembers = false) {
    auto wanted = parsed(body);
    EXPECT_TRUE(wanted) << (wanted ? "" : wanted.error().message);
    if (!wanted) return {};
    int made = 0;
    return open_session(
        std::move(*wanted), [&](const agent&) { return remembers; },
        [&] { return "m" + std::to_string(++made); });
}

std::string reads(const session& s, int agent) {
    return reading_of(s, {}, {agent, nobody, "", s.lines.size()});
}

TEST(opening, every_field_arrives_and_the_rest_is_as_documented) {
    const session s = opened(
        R"({"topology":"whisper","debate_format":"structured","decision_mode":"consensus",
            "agents":[{"agent_id":"ada","display_name":"Ada","role":"critic",
                       "system_prompt":"Be brief.","lifecycle":"permanent"},
                      {"display_name":"Bob"}],
            "initial_prompt":"Agree.","per_agent_prompts":{"Bob":"You know more.","Zed":"no"},
            "max_turns":7,"persistent_cache_prefix":"p"})");
    EXPECT_EQ(s.id, "coord_0123456789ab");
    EXPECT_EQ(s.form, topology::whisper);
    EXPECT_EQ(s.format, debate_format::structured);
    EXPECT_EQ(s.decides, decision_mode::consensus);
    EXPECT_EQ(s.agents[0].system_prompt, "Be brief.");
    EXPECT_EQ(s.agents[0].life, lifecycle::permanent);
    EXPECT_EQ(s.agents[1].id, "agent_1");
    EXPECT_EQ(s.agents[1].role, "participant");
    EXPECT_EQ(s.max_turns, 7);
    EXPECT_EQ(s.prefix, "p");
    EXPECT_EQ(s.lines.size(), 2u);
    EXPECT_EQ(s.round_start, 2u);
    EXPECT_TRUE(reads(s, 1).ends_with("Agree.\nYou know more."));
    EXPECT_TRUE(reads(s, 0).ends_with("Agree."));
    EXPECT_EQ(transcript(s).size(), 1u);
    const session plain = opened(R"({"agents":[{"display_name":"Bob"}]})");
    EXPECT_EQ(plain.form, topology::turn_by_turn);
    EXPECT_EQ(plain.format, debate_format::free_form);
    EXPECT_EQ(plain.decides, decision_mode::none);
    EXPECT_EQ(plain.agents[0].life, lifecycle::ephemeral);
    EXPECT_TRUE(plain.lines.empty());
}

TEST(opening, what_an_agent_was_part_of_is_told_to_it_unless_it_remembers) {
    const std::string body =
        R"({"agents":[{"agent_id":"a","display_name":"Ada"},
                      {"agent_id":"b","display_name":"Bob"}],
            "prior_agent_messages":{"a":[
              {"sender_id":"b","sender_name":"Bob","content":"Hi"},
              {"sender_id":"a","sender_name":"Ada","content":"Ho"},
              {"sender_id":"z","sender_name":"Zed","content":"Hm"}],"nobody":[]}})";
    const session s = opened(body);
    EXPECT_EQ(reads(s, 0), "Bob: Hi\nYou: Ho\nZed: Hm");
    EXPECT_EQ(reads(s, 1), "It is your turn to speak.");
    EXPECT_TRUE(transcript(s).empty());
    EXPECT_TRUE(transcript(s, 0).empty());
    EXPECT_EQ(reads(opened(body, true), 0), "It is your turn to speak.");
}

TEST(opening, what_is_wrong_is_refused_by_its_path) {
    struct row {
        std::string body;
        errc code;
        std::string path;
    };
    const std::string two = R"("agents":[{"display_name":"A"},{"display_name":"B"}])";
    const auto agent = [](const std::string& fields) {
        return R"({"agents":[{"display_name":"A","agent_id":"a"},{)" + fields + "}]}";
    };
    for (const row& r : {
             row{"{}", errc::missing_field, "agents"},
             row{R"({"agents":[]})", errc::bad_value, "agents"},
             row{R"({"agents":{}})", errc::bad_value, "agents"},
             row{"{" + two + R"(,"topology":"zzz"})", errc::bad_value, "topology"},
             row{"{" + two + R"(,"debate_format":"zzz"})", errc::bad_value, "debate_format"},
             row{"{" + two + R"(,"decision_mode":"zzz"})", errc::bad_value, "decision_mode"},
             row{"{" + two + R"(,"max_turns":-1})", errc::bad_value, "max_turns"},
             row{"{" + two + R"(,"max_turns":1001})", errc::bad_value, "max_turns"},
             row{"{" + two + R"(,"persistent_cache_prefix":"a/b"})", errc::bad_value,
                 "persistent_cache_prefix"},
             row{"{" + two + R"(,"per_agent_prompts":[]})", errc::bad_value, "per_agent_prompts"},
             row{"{" + two + R"(,"per_agent_prompts":{"A":1}})", errc::bad_value,
                 "per_agent_prompts.A"},
             row{"{" + two + R"(,"prior_agent_messages":{"x":[{}]}})", errc::missing_field,
                 "prior_agent_messages.x.0.sender_name"},
             row{"{" + two + R"(,"topology":"broadcast","debate_format":"socratic"})",
                 errc::bad_value, "debate_format"},
             row{R"({"topology":"whisper","agents":[{"display_name":"A"}]})", errc::bad_value,
                 "agents"},
             row{R"({"agents":[{"display_name":"A","role":"observer"}]})", errc::bad_value,
                 "agents"},
             row{agent(""), errc::missing_field, "agents.1.display_name"},
             row{agent(R"("display_name":"A")"), errc::bad_value, "agents.1.display_name"},
             row{agent(R"("display_name":"You")"), errc::bad_value, "agents.1.display_name"},
             row{agent(R"("display_name":"B\nA")"), errc::bad_value, "agents.1.display_name"},
             row{agent(R"("display_name":"B: A")"), errc::bad_value, "agents.1.display_name"},
             row{agent(R"("display_name":" B")"), errc::bad_value, "agents.1.display_name"},
             row{agent(R"("display_name":"B","agent_id":"a")"), errc::bad_value,
                 "agents.1.agent_id"},
             row{agent(R"("display_name":"B","agent_id":"")"), errc::bad_value,
                 "agents.1.agent_id"},
             row{agent(R"("display_name":"B","agent_id":"b/c")"), errc::bad_value,
                 "agents.1.agent_id"},
             row{agent(R"("display_name":"B","lifecycle":"eternal")"), errc::bad_value,
                 "agents.1.lifecycle"},
             row{R"({"persistent_cache_prefix":"p","agents":[{"display_name":"A",)"
                 R"("agent_id":"_a","lifecycle":"permanent"}]})",
                 errc::bad_value, "agents.0.agent_id"},
         }) {
        auto wanted = parsed(r.body);
        ASSERT_FALSE(wanted) << r.body;
        EXPECT_EQ(wanted.error().code, r.code) << r.body;
        EXPECT_EQ(wanted.error().path, r.path) << r.body;
    }
}

TEST(opening, each_limit_is_met_and_exceeded_by_one) {
    struct row {
        std::string head, tail;
        std::size_t max;
    };
    const std::string agent = R"({"agents":[{"display_name":"A")";
    // "é" is one character of two bytes.
    for (const row& r : {
             row{R"({"agents":[{"display_name":")", "\"}]}", name_characters_max},
             row{agent + R"(,"system_prompt":")", "\"}]}", system_characters_max},
             row{agent + R"(}],"initial_prompt":")", "\"}", prompt_characters_max},
             row{agent + R"(}],"per_agent_prompts":{"A":")", "\"}}", prompt_characters_max},
         }) {
        std::string text;
        for (std::size_t i = 0; i < r.max; ++i) text += "\xC3\xA9";
        EXPECT_TRUE(parsed(r.head + text + r.tail)) << r.head;
        EXPECT_FALSE(parsed(r.head + text + "x" + r.tail)) << r.head;
    }
    const auto agents = [](std::size_t count) {
        std::string list;
        for (std::size_t i = 0; i < count; ++i)
            list += (i == 0 ? "" : ",") + std::string(R"({"display_name":"A)") + std::to_string(i) +
                    "\"}";
        return "{\"agents\":[" + list + "]}";
    };
    EXPECT_TRUE(parsed(agents(agents_max)));
    EXPECT_FALSE(parsed(agents(agents_max + 1)));
    const auto prior = [&](std::size_t count) {
        std::string list;
        for (std::size_t i = 0; i < count; ++i)
            list += (i == 0 ? "" : ",") + std::string(R"({"sender_name":"B","content":""})");
        return agent + R"(}],"prior_agent_messages":{"x":[)" + list + "]}}";
    };
    EXPECT_TRUE(parsed(prior(prior_messages_max)));
    EXPECT_FALSE(parsed(prior(prior_messages_max + 1)));
    // coord_coord_0123456789ab_ is 25 characters.
    const auto named = [](std::size_t length) {
        return R"({"agents":[{"display_name":"A","agent_id":")" + std::string(length, 'a') +
               "\"}]}";
    };
    EXPECT_TRUE(parsed(named(128 - 25)));
    EXPECT_FALSE(parsed(named(128 - 24)));
    const auto prefixed = [&](std::size_t length) {
        return agent + R"(}],"persistent_cache_prefix":")" + std::string(length, 'p') + "\"}";
    };
    EXPECT_TRUE(parsed(prefixed(prefix_bytes_max)));
    EXPECT_FALSE(parsed(prefixed(prefix_bytes_max + 1)));
    const auto role = [&](std::size_t length) {
        return agent + R"(,"role":")" + std::string(length, 'r') + "\"}]}";
    };
    EXPECT_TRUE(parsed(role(role_bytes_max)));
    EXPECT_FALSE(parsed(role(role_bytes_max + 1)));
}

}  // namespace
}  // namespace semantic::protocol::coordination
