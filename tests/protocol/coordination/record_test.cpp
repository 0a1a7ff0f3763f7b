// SPDX-License-Identifier: Apache-2.0
#include "protocol/coordination/record.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "protocol/coordination/ballot.hpp"
#include "tests/protocol/coordination/sessions.hpp"

namespace semantic::protocol::coordination {
namespace {

session busy_session() {
    session s = session_with({"participant", "moderator", "observer"}, topology::whisper,
                             debate_format::structured);
    s.prefix = "p";
    s.agents[0].life = lifecycle::permanent;
    s.agents[1].system_prompt = "Say \"ahoy\"\n\xE2\x82\xAC";
    apply(s, told{"m0", "Talk."});
    speakers(s, 3);
    EXPECT_TRUE(put_question(s, "Q", {"x", "y"}));
    apply(s, voted{0, *vote_of(s, s.questions[0], {"a", "Q", "", {"y", "x"}}, "v1"), "m9"});
    return s;
}

std::string replaced(std::string record, const std::string& from, const std::string& to) {
    const std::size_t at = record.find(from);
    EXPECT_NE(at, std::string::npos) << from << " in " << record;
    return at == std::string::npos ? record : record.replace(at, from.size(), to);
}

TEST(record, comes_back_as_it_was) {
    const std::string record = to_record(busy_session());
    auto again = session_of(record);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(to_record(*again), record);
    EXPECT_EQ(again->agents[1].system_prompt, busy_session().agents[1].system_prompt);
    EXPECT_EQ(again->owes_answer, busy_session().owes_answer);
    const memory m{"You are.", {{"Hi\n", " \"Ahoy\" "}, {"x", "y"}}, false};
    EXPECT_EQ(to_record(*memory_of(to_record(m))), to_record(m));
}

TEST(record, of_all_that_is_kept_comes_back_as_it_was) {
    const kept_session all{
        busy_session(),
        {{"persist_p_a", {"You are.", {{"Hi\n", "Ahoy"}}, true}}, {"coord_coord_1_b", {}}},
        {{"k1", "/turn\n{}", "{\"a\":1}"}}};
    const std::string record = to_record(all);
    const auto again = kept_session_of(record);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(to_record(*again), record);
    EXPECT_TRUE(again->memories[0].second.has_older);
    EXPECT_EQ(again->replies[0].digest, "/turn\n{}");
    for (std::size_t bytes = 0; bytes < record.size(); ++bytes)
        ASSERT_FALSE(kept_session_of(record.substr(0, bytes))) << bytes;
    EXPECT_FALSE(kept_session_of(to_record(all.now))) << "another kind";
    EXPECT_FALSE(kept_session_of(replaced(record, "\"turn\":3", "\"turn\":-1")));
}

TEST(record, of_a_stream_that_was_kept_comes_back_as_it_was) {
    kept_session all{busy_session()};
    streamed_turn turn{1, "start"};
    turn.add_token("Ah");
    turn.add_token("oy");
    turn.complete = "complete";
    all.replies.push_back({"k1", "what", "end", {turn}});
    const std::string record = to_record(all);
    const auto again = kept_session_of(record);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(to_record(*again), record);
    EXPECT_EQ(again->replies[0].turns[0].sizes, (std::vector<std::uint32_t>{2, 2}));
    EXPECT_FALSE(kept_session_of(replaced(record, "[2,2]", "[2,3]"))) << "more than the text has";
    EXPECT_FALSE(
        kept_session_of(replaced(record, "\"agent\":1,\"start\"", "\"agent\":9,\"start\"")));
}

TEST(record, has_parts_of_any_number_of_items_and_those_of_an_earlier_server) {
    session all = session_with({"participant"});
    for (std::size_t i = 0; i < part_items + 3; ++i) apply(all, told{"m" + std::to_string(i), "x"});
    const std::map<std::string, std::string> parts{
        {"p1", lines_part({all.lines.begin(), all.lines.begin() + part_items})},
        {"p2", lines_part({all.lines.begin() + part_items, all.lines.end() - 1})}};
    kept_head head{without_lines(all), {{"p1"}, {"p2", 2}}};
    head.now.lines = {all.lines.back()};
    const std::string record = to_record(head);
    EXPECT_NE(record.find(R"("line_parts":["p1",{"name":"p2","items":2}])"), std::string::npos);
    const auto reader = [&](const std::string& name) -> std::optional<std::string> {
        const auto found = parts.find(name);
        return found == parts.end() ? std::nullopt : std::optional(found->second);
    };
    const auto again = kept_session_of(record, reader);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(to_record(again->now), to_record(all));
    EXPECT_EQ(bytes_of(again->now), bytes_of(all));
    EXPECT_EQ(again->now.agents[0].messages, part_items + 3);
    EXPECT_FALSE(kept_session_of(replaced(record, "\"items\":2", "\"items\":3"), reader));
}

TEST(record, without_lines_has_all_else) {
    session all = busy_session();
    const session copy = without_lines(all);
    all.lines.clear();
    EXPECT_EQ(to_record(copy), to_record(all));
}

TEST(record, that_is_not_whole_is_refused) {
    const std::string record = to_record(busy_session());
    for (std::size_t bytes = 0; bytes < record.size(); ++bytes)
        ASSERT_FALSE(session_of(record.substr(0, bytes))) << bytes;
    const std::string kept = to_record(memory{"You are.", {{"x", "y"}}});
    for (std::size_t bytes = 0; bytes < kept.size(); ++bytes)
        ASSERT_FALSE(memory_of(kept.substr(0, bytes))) << bytes;
    EXPECT_FALSE(session_of(kept)) << "another kind";
    EXPECT_FALSE(memory_of(record));
}

TEST(record, that_no_session_can_have_is_refused_by_its_path) {
    const std::string record = to_record(busy_session());
    struct row {
        const char *from, *to, *path;
    };
    for (const row& r : {
             row{"\"format\":1", "\"format\":2", "format"},
             row{"\"topology\":\"whisper\"", "\"topology\":\"shout\"", "topology"},
             row{"\"id\":\"b\"", "\"id\":\"a\"", "agents"},
             row{"\"id\":\"b\"", "\"id\":\"b/c\"", "agents.1.id"},
             row{"\"lines_read\":1", "\"lines_read\":99", "agents"},
             row{"\"last_turn\":0", "\"last_turn\":7", "agents"},
             row{"\"sender\":0", "\"sender\":3", "lines.1.sender"},
             row{"\"visible_to\":[0,1]", "\"visible_to\":[1,0]", "lines.1.visible_to"},
             row{"\"visible_to\":[0,1]", "\"visible_to\":[0,3]", "lines.1.visible_to.1"},
             row{"\"choice\":\"y\"", "\"choice\":\"z\"", "questions"},
             row{"\"agent\":0", "\"agent\":2", "questions"},  // an observer
             row{"\"agent\":0", "\"agent\":3", "questions.0.votes.0.agent"},
             row{"[\"y\",\"x\"]}]", "[\"y\",\"y\"]}]", "questions"},
             row{"[\"y\",\"x\"]}]", "[\"x\",\"y\"]}]", "questions"},
             row{"[\"y\",\"x\"]}]", "[\"y\",\"z\"]}]", "questions"},
             row{"\"winner\":\"\"", "\"winner\":\"x\"", "questions"},  // of an open one
             row{"\"place\":1", "\"place\":2", "place"},
             row{"\"round_start\":", "\"round_start\":9", "round_start"},
             row{"\"owes_answer\":", "\"owes_answer\":3", "owes_answer"},
             row{"\"max_turns\":0", "\"max_turns\":-1", "max_turns"},
         }) {
        auto read = session_of(replaced(record, r.from, r.to));
        ASSERT_FALSE(read) << r.to;
        EXPECT_EQ(read.error().path, r.path) << r.to;
    }
}

TEST(record, that_is_damaged_is_refused_or_another_session_that_can_be) {
    const std::string record = to_record(busy_session());
    std::mt19937 random(7);
    int refused = 0;
    for (int i = 0; i < 3'000; ++i) {
        std::string damaged = record;
        damaged[random() % damaged.size()] = static_cast<char>(random());
        auto read = session_of(damaged);
        if (!read) {
            ++refused;
            continue;
        }
        EXPECT_TRUE(session_of(to_record(*read)));
        for (std::size_t a = 0; a < read->agents.size(); ++a)
            reading_of(*read, {}, {static_cast<int>(a), nobody, "", read->lines.size()});
        next_turn(*read, {});
    }
    EXPECT_GT(refused, 1'000);
    EXPECT_LT(refused, 3'000);
}

}  // namespace
}  // namespace semantic::protocol::coordination
