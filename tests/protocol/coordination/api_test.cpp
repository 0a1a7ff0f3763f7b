// SPDX-License-Identifier: Apache-2.0
#include "protocol/coordination/api.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include "tests/protocol/coordination/sessions.hpp"

namespace semantic::protocol::coordination {
namespace {

namespace json = boost::json;

TEST(turn_body, may_be_left_out_or_say_how_the_agent_is_asked) {
    auto none = parse_turn(" \n", false);
    ASSERT_TRUE(none);
    EXPECT_EQ(none->answer.max_tokens, 256);
    EXPECT_FALSE(none->wish.agent_id);
    auto all = parse_turn(
        R"({"agent_id":"a","to_agent_id":"b","max_tokens":7,"temperature":0,"thinking":true})",
        false);
    ASSERT_TRUE(all);
    EXPECT_EQ(all->wish.agent_id, "a");
    EXPECT_EQ(all->wish.to_agent_id, "b");
    EXPECT_EQ(all->answer.max_tokens, 7);
    EXPECT_EQ(all->answer.sampling.temperature, 0.0f);
    EXPECT_TRUE(all->answer.thinking);
}

TEST(coordination_bodies, what_is_wrong_is_refused_by_its_path) {
    const auto path_of = [](const auto& parsed) {
        return parsed ? std::string("nothing is wrong") : parsed.error().path;
    };
    EXPECT_EQ(path_of(parse_turn(R"({"max_tokens":0})", false)), "max_tokens");
    EXPECT_EQ(path_of(parse_turn(R"({"agent_id":1})", false)), "agent_id");
    EXPECT_EQ(path_of(parse_turn(R"({"agent_id":"a"})", true)), "agent_id");
    EXPECT_EQ(path_of(parse_turn(R"({"to_agent_id":"a"})", true)), "to_agent_id");
    EXPECT_EQ(path_of(parse_whisper(R"({"from_agent_id":"a","to_agent_id":"b"})")), "content");
    const auto whisper = [](std::size_t length) {
        return parse_whisper(R"({"from_agent_id":"a","to_agent_id":"b","content":")" +
                             std::string(length, 'x') + "\"}");
    };
    EXPECT_TRUE(whisper(whisper_characters_max));
    EXPECT_EQ(path_of(whisper(whisper_characters_max + 1)), "content");
    EXPECT_EQ(path_of(whisper(0)), "content");
    const auto vote = [](std::size_t question, std::size_t choice) {
        return parse_vote(R"({"agent_id":"a","question":")" + std::string(question, 'q') +
                          R"(","choice":")" + std::string(choice, 'c') + "\"}");
    };
    EXPECT_TRUE(vote(question_characters_max, choice_characters_max));
    EXPECT_EQ(path_of(vote(question_characters_max + 1, 1)), "question");
    EXPECT_EQ(path_of(vote(1, choice_characters_max + 1)), "choice");
    EXPECT_EQ(path_of(vote(0, 1)), "question");
    const auto decision = [](std::size_t choices) {
        std::string list;
        for (std::size_t i = 0; i < choices; ++i)
            list += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\"";
        return parse_decision(R"({"question":"q","choices":[)" + list + "]}");
    };
    EXPECT_TRUE(decision(2));
    EXPECT_EQ(path_of(decision(1)), "choices");
    EXPECT_TRUE(decision(choices_max));
    EXPECT_EQ(path_of(decision(choices_max + 1)), "choices");
    EXPECT_EQ(path_of(parse_decision(R"({"question":"q","choices":["a","a"]})")), "choices");
    EXPECT_EQ(path_of(parse_decision(R"({"question":"q","choices":["a",""]})")), "choices.1");
    EXPECT_EQ(path_of(parse_decision(R"({"question":"q"})")), "choices");
}

TEST(whisper_in, needs_two_agents_and_an_active_session) {
    session s = session_with({"participant", "observer"});
    EXPECT_TRUE(whisper_in(s, {"a", "b", "psst"}, "m"));
    EXPECT_EQ(whisper_in(s, {"z", "b", "psst"}, "m").error().path, "from_agent_id");
    EXPECT_EQ(whisper_in(s, {"a", "z", "psst"}, "m").error().code, errc::not_found);
    EXPECT_EQ(whisper_in(s, {"a", "a", "psst"}, "m").error().code, errc::bad_value);
    s.lines.resize(lines_max);
    EXPECT_EQ(whisper_in(s, {"a", "b", "psst"}, "m").error().code, errc::conflict);
    s.lines.clear();
    s.max_turns = 1;
    speakers(s, 1);
    EXPECT_EQ(whisper_in(s, {"a", "b", "psst"}, "m").error().code, errc::conflict);
}

/// As it is made of a long session: some lines at a time.
std::string messages_of(const session& s, int viewer) {
    messages_body body(without_lines(s), viewer);
    for (const line& each : s.lines) body.add(std::span(&each, 1));
    return body.finish();
}

TEST(session_bodies, have_the_fields_that_clients_know) {
    session s = session_with({"participant", "moderator"});
    apply(s, told{"m0", "Talk."});
    EXPECT_EQ(status_body(s),
              R"({"session_id":"coord_1","current_turn":0,"current_round":0,"is_active":true,)"
              R"("next_speaker":"a","agent_states":[{"agent_id":"a","display_name":"Ann",)"
              R"("role":"participant","message_count":1,"lifecycle":"ephemeral"},)"
              R"({"agent_id":"b","display_name":"Bob","role":"moderator","message_count":1,)"
              R"("lifecycle":"ephemeral"}]})");
    turn_report report{{0, nobody, 1, "m1", "Ahoy!"}, 0};
    apply(s, report.event);
    const json::value body = json::parse(turn_body(s, report));
    EXPECT_EQ(json::serialize(body.at("message")),
              R"({"message_id":"m1","sender_id":"a","sender_name":"Ann","content":"Ahoy!",)"
              R"("turn_number":0,"channel_type":"public","is_interrupted":false})");
    EXPECT_EQ(body.at("session_status").at("next_speaker").as_string(), "b");
    EXPECT_EQ(messages_of(s, nobody),
              R"({"session_id":"coord_1","messages":[{"message_id":"m0","sender_id":"system",)"
              R"("sender_name":"System","content":"Talk.","turn_number":0,)"
              R"("channel_type":"public","is_interrupted":false},)" +
                  json::serialize(body.at("message")) + "]}");
    report.event.text.clear();
    EXPECT_EQ(json::parse(turn_body(s, report)).at("message").at("message_id").as_string(), "")
        << "nothing was said";
}

TEST(session_bodies, a_whisper_is_shown_to_its_two_alone) {
    session s = session_with({"participant", "participant", "participant"});
    apply(s, whispered{0, 2, "w", "psst"});
    EXPECT_NE(whisper_body(s).find(R"("channel_type":"whisper")"), std::string::npos);
    const auto count = [&](int viewer) {
        return json::parse(messages_of(s, viewer)).at("messages").as_array().size();
    };
    EXPECT_EQ(count(nobody), 0u);
    EXPECT_EQ(count(0), 1u);
    EXPECT_EQ(count(1), 0u);
    EXPECT_EQ(count(2), 1u);
}

TEST(session_events, tell_of_a_turn_by_the_number_that_its_message_has) {
    session s = session_with({"participant", "participant"});
    speakers(s, 3);
    EXPECT_EQ(
        turn_start_event(s, *next_turn(s, {}), s.turn),
        "event: turn_start\ndata: {\"agent_id\":\"b\",\"agent_name\":\"Bob\",\"turn\":3}\n\n");
    EXPECT_EQ(token_event({"b", "Bob"}, "oy", "Ahoy"),
              "event: token\ndata: {\"agent_id\":\"b\",\"agent_name\":\"Bob\",\"text\":\"oy\","
              "\"accumulated\":\"Ahoy\"}\n\n");
    turn_report report{{1, nobody, 3, "m3", "Ahoy"}, 3};
    apply(s, report.event);
    EXPECT_NE(turn_complete_event(s, report).find("\"content\":\"Ahoy\",\"turn\":3,"),
              std::string::npos);
}

TEST(session_events, of_a_kept_stream_are_those_that_were_sent) {
    kept_reply kept{"k", "what", "event: round_complete\ndata: {}\n\n"};
    std::string sent;
    for (const int agent : {1, 0}) {
        const shown_agent speaker{agent == 0 ? "a" : "b", agent == 0 ? "Ann" : "Bob"};
        streamed_turn turn{agent, "event: turn_start\ndata: {}\n\n"};
        sent += turn.start;
        std::string so_far;
        for (const char* token : {"Ah", "oy", "", " \xE2\x82\xAC"}) {
            so_far += token;
            turn.add_token(token);
            sent += token_event(speaker, token, so_far);
        }
        turn.complete = "event: turn_complete\ndata: {}\n\n";
        sent += turn.complete;
        kept.turns.push_back(std::move(turn));
    }
    sent += kept.reply;
    replayed_events events(kept, {{"a", "Ann"}, {"b", "Bob"}});
    std::string again;
    while (auto event = events.next()) again += *event;
    EXPECT_EQ(again, sent);
    // What an earlier server kept has all events in one.
    const kept_reply old{"k", "what", sent};
    replayed_events whole(old, {});
    EXPECT_EQ(whole.next(), sent);
    EXPECT_EQ(whole.next(), std::nullopt);
}

TEST(session_events, of_a_kept_stream_take_no_more_than_its_text) {
    streamed_turn turn;
    for (int i = 0; i < 4'000; ++i) turn.add_token("ab");
    const std::size_t bytes = bytes_of(kept_reply{"k", "what", "", {turn}});
    EXPECT_LT(bytes, 4'000u * (2 + sizeof(std::uint32_t)) + 2'000);
}

}  // namespace
}  // namespace semantic::protocol::coordination
