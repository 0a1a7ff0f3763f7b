// SPDX-License-Identifier: Apache-2.0
#include "protocol/identity.hpp"

#include <gtest/gtest.h>

namespace semantic::protocol {
namespace {

std::string agent(const identity_headers& headers) {
    auto id = agent_of(headers);
    EXPECT_TRUE(id) << (id ? "" : id.error().message);
    return id && *id ? (*id)->str() : "";
}

std::string fault(const identity_headers& headers) {
    auto id = agent_of(headers);
    EXPECT_FALSE(id);
    if (id) return "";
    EXPECT_EQ(id.error().code, errc::bad_value);
    return id.error().message;
}

TEST(identity, first_header_that_is_present_decides) {
    EXPECT_EQ(agent({}), "");
    EXPECT_EQ(agent({"alice", {}, {}}), "sess_alice");
    EXPECT_EQ(agent({"alice", "s-1", "a-1"}), "sess_alice");
    EXPECT_EQ(agent({{}, "s-1", {}}), "cc_s-1");
    EXPECT_EQ(agent({{}, "s-1", "a-1"}), "cc_s-1:a-1");
    EXPECT_EQ(agent({{}, {}, "a-1"}), "");
}

TEST(identity, dots_and_every_other_allowed_character_pass) {
    EXPECT_EQ(agent({"a.b_C:9-", {}, {}}), "sess_a.b_C:9-");
}

TEST(identity, bad_characters_are_refused_and_the_header_is_named) {
    for (std::string bad :
         {std::string("a b"), std::string("a/b"), std::string("é"), std::string("a\n"),
          std::string("../x"), std::string("a%2f"), std::string("a\0b", 3)}) {
        EXPECT_EQ(fault({bad, {}, {}}),
                  "header X-Session-ID: may contain only letters, digits and . _ : - (ASCII)");
    }
    EXPECT_EQ(
        fault({{}, "a b", {}}),
        "header x-claude-code-session-id: may contain only letters, digits and . _ - (ASCII)");
    EXPECT_EQ(fault({{}, "s", "a b"}),
              "header x-claude-code-agent-id: may contain only letters, digits and . _ - (ASCII)");
}

TEST(identity, two_claude_code_ids_cannot_be_mistaken_for_another_pair) {
    EXPECT_NE(fault({{}, "s:a", {}}), "");
    EXPECT_NE(fault({{}, "s", "a:b"}), "");
}

TEST(identity, empty_header_is_refused) {
    EXPECT_EQ(fault({"", {}, {}}), "header X-Session-ID: must not be empty");
    EXPECT_EQ(fault({{}, "", {}}), "header x-claude-code-session-id: must not be empty");
    EXPECT_EQ(fault({{}, "s", ""}), "header x-claude-code-agent-id: must not be empty");
}

TEST(identity, a_sub_agent_has_a_parent_and_nobody_else_has) {
    auto parent = [](const identity_headers& headers) {
        auto id = parent_of(headers);
        EXPECT_TRUE(id);
        return id && *id ? (*id)->str() : "";
    };
    EXPECT_EQ(parent({}), "");
    EXPECT_EQ(parent({{}, "s", {}, "p"}), "");
    EXPECT_EQ(parent({{}, {}, "a", "p"}), "");
    EXPECT_EQ(parent({"alice", "s", "a", "p"}), "");
    EXPECT_EQ(parent({{}, "s", "a"}), "cc_s");
    EXPECT_EQ(parent({{}, "s", "a", "p"}), "cc_s:p");
    EXPECT_EQ(parent_of({{}, "s", "a", "p:q"}).error().message,
              "header x-claude-code-parent-agent-id: may contain only letters, digits and . _ - "
              "(ASCII)");
    EXPECT_NE(parent_of({{}, "s", "a", std::string(126, 'p')}).error().message.find("too long"),
              std::string::npos);
}

TEST(identity, longest_id_that_fits_with_its_prefix_passes_and_one_more_is_refused) {
    EXPECT_EQ(agent({std::string(123, 'a'), {}, {}}).size(), 128u);
    EXPECT_EQ(
        fault({std::string(124, 'a'), {}, {}}),
        "header X-Session-ID: too long: an agent id may have 128 characters, this one has 129");
    EXPECT_EQ(agent({{}, std::string(125, 'a'), {}}).size(), 128u);
    EXPECT_NE(fault({{}, std::string(126, 'a'), {}}).find("x-claude-code-session-id: too long"),
              std::string::npos);
    EXPECT_EQ(agent({{}, std::string(100, 'a'), std::string(24, 'b')}).size(), 128u);
    EXPECT_NE(fault({{}, std::string(100, 'a'), std::string(25, 'b')})
                  .find("x-claude-code-agent-id: too long"),
              std::string::npos);
}

TEST(identity, questions_without_tools_are_not_the_main_agents_turns) {
    EXPECT_TRUE(is_side_request({{}, "s", {}}, false));
    EXPECT_FALSE(is_side_request({{}, "s", {}}, true)) << "a turn";
    EXPECT_FALSE(is_side_request({{}, "s", "a"}, false)) << "a sub-agent's turn";
    EXPECT_FALSE(is_side_request({"x", "s", {}}, false)) << "the client chose the agent itself";
    EXPECT_FALSE(is_side_request({}, false));
}

TEST(identity, a_thread_of_codex_is_an_agent_and_a_name_that_cannot_be_one_fails_nothing) {
    identity_headers headers;
    headers.session_id = "s-1";
    EXPECT_EQ(agent(headers), "codex_s-1");
    headers.thread_id = "t-1";
    EXPECT_EQ(agent(headers), "codex_t-1") << "the thread is closer";
    headers.x_session_id = "mine";
    EXPECT_EQ(agent(headers), "sess_mine") << "what names an agent here comes first";
    for (const std::string& odd : {std::string(), std::string("a b"), std::string(200, 'a')}) {
        identity_headers only;
        only.thread_id = odd;
        EXPECT_EQ(agent(only), "") << odd;
        only.session_id = "s-1";
        EXPECT_EQ(agent(only), "codex_s-1") << odd;
    }
}

TEST(identity, a_sub_session_of_opencode_has_its_parent) {
    identity_headers headers;
    headers.x_session_id = "child";
    EXPECT_FALSE(*parent_of(headers));
    headers.x_parent_session_id = "main";
    EXPECT_EQ((*parent_of(headers))->str(), "sess_main");
    headers.x_parent_session_id = "a b";
    EXPECT_EQ(parent_of(headers).error().path, "x-parent-session-id");
}

}  // namespace
}  // namespace semantic::protocol
