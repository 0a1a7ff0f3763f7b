// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/session_keeper.hpp"

#include <gtest/gtest.h>

#include "tests/protocol/coordination/sessions.hpp"
#include "tests/support/scripted_engine.hpp"

namespace semantic::server {
namespace {

using protocol::coordination::session;
using protocol::coordination::told;
using locked_session = session_registry::locked_session;

const storage::tenant_id somebody;

/// A session of so many lines of so many bytes.
session talkative(const std::string& id, int lines, std::size_t bytes) {
    session s = protocol::coordination::session_with({"participant", "participant"});
    s.id = id;
    for (int i = 0; i < lines; ++i)
        apply(s, told{"m" + std::to_string(i), std::string(bytes, 'x')});
    return s;
}

class session_keeper : public ::testing::Test {
  protected:
    void open(const session& made) {
        ASSERT_TRUE(sessions_.add(somebody, made, {}));
        ASSERT_TRUE(keep_session(sessions_, engine_, somebody, made.id));
    }
    void say(const std::string& id) {
        ASSERT_TRUE(sessions_.run_locked(somebody, id, [](const locked_session& locked) {
            apply(locked.now(), told{"more", "Ahoy"});
            return true;
        }));
    }
    void count_writes() {
        engine_.on_keep_record = [this](const storage::kept_record&) -> storage::result<void> {
            ++writes_;
            return {};
        };
    }
    std::vector<std::string> load(session_registry& later) {
        run_registry runs;
        return load_sessions(later, runs, engine_);
    }

    tests::scripted_engine engine_;
    session_registry sessions_;
    int writes_ = 0;
};

TEST_F(session_keeper, writes_what_has_changed_and_nothing_twice) {
    count_writes();
    open(talkative("s", 1, 10));
    EXPECT_EQ(writes_, 1);
    ASSERT_TRUE(keep_session(sessions_, engine_, somebody, "s"));
    EXPECT_EQ(writes_, 1) << "it was written";
    EXPECT_TRUE(is_kept(sessions_, somebody, "s"));
    say("s");
    EXPECT_FALSE(is_kept(sessions_, somebody, "s"));
    ASSERT_TRUE(keep_session(sessions_, engine_, somebody, "s"));
    EXPECT_EQ(writes_, 2);
    EXPECT_EQ(keep_session(sessions_, engine_, somebody, "none").error().code,
              protocol::errc::not_found)
        << "nothing is acknowledged of a session that is gone";
}

TEST_F(session_keeper, writes_a_long_opening_in_few_files) {
    count_writes();
    open(talkative("s", 30'000, 1));
    EXPECT_LT(writes_, 12) << "not one for each 64 lines";
    session_registry later;
    EXPECT_EQ(load(later), std::vector<std::string>());
    const auto lines = later.look(somebody, "s", [](const session& s) { return s.lines.size(); });
    EXPECT_EQ(*lines, 30'000u);
    EXPECT_EQ(later.bytes(somebody), sessions_.bytes(somebody));
}

TEST_F(session_keeper, a_session_that_leaves_is_not_written_behind_its_end) {
    open(talkative("s", 200, 10));
    say("s");
    auto taken = sessions_.begin(somebody, "s");
    sessions_.leave(*taken);
    ASSERT_TRUE(drop_session(sessions_, engine_, somebody, "s"));
    EXPECT_TRUE(engine_.kept.empty());
    EXPECT_EQ(keep_session(sessions_, engine_, somebody, "s").error().code,
              protocol::errc::conflict);
    EXPECT_TRUE(engine_.kept.empty());
    { const auto stays = std::move(*taken); }
    ASSERT_TRUE(keep_session(sessions_, engine_, somebody, "s"));
    session_registry later;
    EXPECT_EQ(load(later), std::vector<std::string>()) << "whole again";
    EXPECT_EQ(later.count(somebody), 1u);
}

TEST_F(session_keeper, of_sessions_that_are_too_many_the_short_ones_are_loaded) {
    open(talkative("large", 10, 100'000));
    open(talkative("small", 10, 10'000));
    open(talkative("larger", 10, 110'000));
    session_registry later({.tenant_bytes = 400'000});
    const auto faults = load(later);
    EXPECT_EQ(faults.size(), 2u);
    EXPECT_EQ(later.ids(somebody), std::vector<std::string>{"small"});
    for (const char* id : {"large", "larger"})
        EXPECT_TRUE(engine_.kept.contains({somebody, std::string("session:") + id}))
            << "its record stays";
}

TEST_F(session_keeper, parts_of_no_session_are_erased_at_the_start) {
    open(talkative("s", 200, 10));
    const std::size_t before = engine_.kept.size();
    ASSERT_TRUE(engine_.keep_record({somebody, "part:gone:abc", "x"}));
    ASSERT_TRUE(engine_.keep_record({somebody, "part:s:abc", "x"}));
    session_registry later;
    EXPECT_EQ(load(later), std::vector<std::string>());
    EXPECT_EQ(engine_.kept.size(), before);
}

}  // namespace
}  // namespace semantic::server
