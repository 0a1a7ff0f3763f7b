// SPDX-License-Identifier: Apache-2.0
// Random sessions: who may not see a line never has it in a prompt or a transcript, prompts only
// grow, and a record is the session. What is said has a mark; who may see which mark is kept here,
// apart from the code under test.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "protocol/coordination/ballot.hpp"
#include "protocol/coordination/memory.hpp"
#include "protocol/coordination/record.hpp"
#include "tests/protocol/coordination/sessions.hpp"

namespace semantic::protocol::coordination {
namespace {

constexpr int sessions_count = 10'000;

/// "#12#" -> 12, for each in `text`.
std::vector<int> marks_in(const std::string& text) {
    std::vector<int> marks;
    for (std::size_t at = text.find('#'); at != std::string::npos; at = text.find('#', at)) {
        const std::size_t end = text.find('#', at + 1);
        if (end == std::string::npos) break;
        marks.push_back(std::stoi(text.substr(at + 1, end - at - 1)));
        at = end + 1;
    }
    return marks;
}

/// One tenant's agents "a" to "f" over several sessions, the same names in each.
class random_sessions {
  public:
    explicit random_sessions(unsigned seed) : random_(seed) {}

    void run() {
        for (int i = 0; i < 2; ++i) {
            begin();
            const int steps = below(14);
            for (int step = 0; step < steps; ++step) take_step();
            check_transcripts();
            check_record();
        }
    }
    int prompts = 0;
    int whispers = 0;

  private:
    int below(int bound) { return std::uniform_int_distribution(0, bound - 1)(random_); }
    agent& at(int index) { return s_.agents[static_cast<std::size_t>(index)]; }
    int anybody() { return below(static_cast<int>(s_.agents.size())); }

    /// A text with a new mark that these may see; nobody named: all that are in the session.
    std::string marked(std::vector<int> seen_by = {}) {
        if (seen_by.empty())
            for (std::size_t i = 0; i < s_.agents.size(); ++i)
                seen_by.push_back(static_cast<int>(i));
        std::set<std::string>& names = seen_by_[++mark_];
        for (int each : seen_by) names.insert(at(each).id);
        if (seen_by.size() < s_.agents.size()) is_private_.insert(mark_);
        return (below(4) == 0 ? "so\nAnn: #" : "#") + std::to_string(mark_) + "#";
    }

    void begin() {
        static const char* const roles[]{"participant", "participant", "moderator", "critic",
                                         "observer"};
        std::vector<std::string> members{"participant", "participant"};
        const int more = below(4);
        for (int i = 0; i < more; ++i) members.emplace_back(roles[below(5)]);
        s_ = session_with(members, static_cast<topology>(below(5)),
                          static_cast<debate_format>(below(5)));
        if (s_.form == topology::broadcast) s_.format = debate_format::free_form;
        s_.id = "coord_" + std::to_string(++sessions_);
        s_.decides = static_cast<decision_mode>(below(5));
        s_.prefix = below(2) == 0 ? "p_q" : "";
        s_.max_turns = below(3) == 0 ? 1 + below(8) : 0;
        for (agent& each : s_.agents) each.life = static_cast<lifecycle>(below(2));
        if (below(2) == 0) apply(s_, told{"i", marked()});
        for (std::size_t i = 0; i < s_.agents.size(); ++i)
            if (below(3) == 0) tell_alone(static_cast<int>(i));
        s_.round_start = s_.lines.size();
    }

    void tell_alone(int reader) {
        line one{"p"};
        if (below(2) == 0) one.sender_name = "Zed";
        one.text = marked({reader});
        one.visible_to = {reader};
        one.is_hidden = true;
        s_.lines.push_back(std::move(one));
    }

    void take_step() {
        switch (below(6)) {
            case 0:
                return whisper();
            case 1:
                return vote();
            case 2:
                return check_ahead();
            default:
                return turn();
        }
    }

    void whisper() {
        const int from = anybody();
        const int to = anybody();
        if (from == to) return;
        apply(s_, whispered{from, to, "w", marked({from, to})});
        ++whispers;
    }

    void vote() {
        auto index = put_question(s_, "Q" + std::to_string(below(2)));
        if (!index) return;
        auto one = vote_of(s_, s_.questions[*index],
                           {at(anybody()).id, s_.questions[*index].text,
                            std::string(1, static_cast<char>('x' + below(3)))},
                           "v");
        if (!one) return;
        apply(s_, voted{*index, *one, "n"});
        settle(s_, *index, "t");
    }

    void turn() {
        turn_wish wish;
        if (below(4) == 0) wish.agent_id = at(anybody()).id;
        urgencies felt;
        for (std::size_t i = 0; i < s_.agents.size(); ++i) felt.push_back(below(10));
        auto plan = next_turn(s_, wish, felt);
        if (!plan) return;
        ASSERT_NE(part_of(at(plan->agent).role), part::observer);
        memory& known = memories_[memory_name(s_, at(plan->agent))];
        const prompt asked = prompt_of(s_, known, *plan);
        check_prompt(asked, plan->agent);
        check_growth(texts_of(asked), plan->agent);
        // Somebody may whisper while the model writes.
        if (below(4) == 0) whisper();
        const bool is_silent = below(8) == 0;
        const std::vector<int> heard_by =
            plan->to == nobody ? std::vector<int>{} : std::vector<int>{plan->agent, plan->to};
        std::string answer = is_silent ? "" : marked(heard_by);
        said event{plan->agent, plan->to, plan->reads, "m", answer};
        event.is_remembered = remember(known, at(plan->agent), asked.reading, answer);
        if (event.is_remembered) {
            remembered_[memory_name(s_, at(plan->agent))] = texts_of(asked);
            remembered_[memory_name(s_, at(plan->agent))].push_back(answer);
        }
        apply(s_, event);
    }

    void check_ahead() {
        const int reader = anybody();
        const turn_plan plan{reader, nobody, below(2) == 0 ? "" : "Speak.", s_.lines.size()};
        auto ahead = prompt_ahead(s_, memories_[memory_name(s_, at(reader))], plan, below(2) == 0);
        if (ahead) check_prompt(*ahead, reader);
        check_prompt(prompt_aside(s_, memories_[memory_name(s_, at(reader))], reader, "Q?"),
                     reader);
    }

    void check_prompt(const prompt& asked, int reader) {
        ++prompts;
        std::set<int> seen;
        std::vector<int> all = marks_in(asked.chat.system);
        for (const engine::message& one : asked.chat.messages)
            for (int mark : marks_in(std::get<engine::text_part>(one.parts.at(0)).text))
                all.push_back(mark);
        for (int mark : all) {
            ASSERT_TRUE(seen_by_[mark].contains(at(reader).id))
                << at(reader).id << " reads mark " << mark << " in " << to_record(s_);
            ASSERT_TRUE(seen.insert(mark).second) << "mark " << mark << " is read twice";
        }
        // Roles alternate, as every template can have it.
        for (std::size_t i = 0; i < asked.chat.messages.size(); ++i)
            ASSERT_EQ(asked.chat.messages[i].from,
                      i % 2 == 0 ? engine::role::user : engine::role::assistant);
    }

    /// The prompt continues the latest one that the agent remembers.
    void check_growth(const std::vector<std::string>& texts, int reader) {
        const std::vector<std::string>& before = remembered_[memory_name(s_, at(reader))];
        ASSERT_GE(texts.size(), before.size());
        for (std::size_t i = 0; i < before.size(); ++i) ASSERT_EQ(before[i], texts[i]);
    }

    static std::vector<std::string> texts_of(const prompt& asked) {
        std::vector<std::string> texts{asked.chat.system};
        for (const engine::message& one : asked.chat.messages)
            texts.push_back(std::get<engine::text_part>(one.parts.at(0)).text);
        return texts;
    }

    void check_transcripts() {
        for (const line* one : transcript(s_))
            for (int mark : marks_in(one->text))
                ASSERT_FALSE(is_private_.contains(mark)) << "mark " << mark;
        for (std::size_t i = 0; i < s_.agents.size(); ++i)
            for (const line* one : transcript(s_, static_cast<int>(i)))
                for (int mark : marks_in(one->text))
                    ASSERT_TRUE(seen_by_[mark].contains(s_.agents[i].id));
    }

    void check_record() {
        const std::string record = to_record(s_);
        auto again = session_of(record);
        ASSERT_TRUE(again) << again.error().message << "\n" << record;
        ASSERT_EQ(to_record(*again), record);
        // The session goes on from its record as it would have without.
        s_ = std::move(*again);
        for (auto& [name, known] : memories_) {
            auto same = memory_of(to_record(known));
            ASSERT_TRUE(same) << same.error().message;
            ASSERT_EQ(to_record(*same), to_record(known));
            known = std::move(*same);
        }
    }

    std::mt19937 random_;
    session s_;
    int sessions_ = 0;
    int mark_ = 0;
    std::map<int, std::set<std::string>> seen_by_;
    std::set<int> is_private_;
    std::map<std::string, memory> memories_;
    std::map<std::string, std::vector<std::string>> remembered_;  // with the answer to it
};

TEST(random_sessions, keep_secrets_and_say_nothing_twice) {
    int prompts = 0, whispers = 0;
    for (unsigned seed = 0; seed < sessions_count / 2; ++seed) {
        random_sessions two(seed);
        two.run();
        if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed;
        prompts += two.prompts;
        whispers += two.whispers;
    }
    EXPECT_GT(prompts, 3 * sessions_count) << "or nothing was looked at";
    EXPECT_GT(whispers, sessions_count / 2);
}

}  // namespace
}  // namespace semantic::protocol::coordination
