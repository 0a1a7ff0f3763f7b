// SPDX-License-Identifier: Apache-2.0
// What was said under a name to other agents, and how it goes with the name on every machine.

#include <gtest/gtest.h>

#include "storage/pool/session_note.hpp"
#include "tests/objects/machine.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;

TEST(shared_agents, what_was_said_under_a_name_goes_everywhere_when_another_machine_erases_it) {
    temp_dir objects, first, second, third;
    machine a(objects.path(), first.path()), b(objects.path(), second.path());
    a.put("ada", some_tokens(30));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    ASSERT_TRUE(b.fetch("ada"));
    const auto branch = [&](const char* name, int seed) {
        agent_state state = make_state(b.pool, name, some_tokens(12, seed));
        state.notes[sessions_note] = add_session("other", "ada");
        b.store->put(std::move(state));
        ASSERT_TRUE(b.store->save(id_of(name)));
        b.shared->note_saved(id_of(name));
    };
    branch("msg_1", 3);
    b.put("bystander", some_tokens(12, 4));
    ASSERT_TRUE(b.shared->wait_until_idle(patience));
    ASSERT_TRUE(a.store->erase(id_of("ada")));
    ASSERT_TRUE(a.shared->forget(id_of("ada")));
    EXPECT_EQ(b.refresh("ada"), freshness::erased);
    EXPECT_EQ(b.store->find(id_of("msg_1")), nullptr);
    EXPECT_TRUE(b.has("bystander", some_tokens(12, 4)));
    machine c(objects.path(), third.path());
    EXPECT_FALSE(c.fetch("msg_1")) << "it left the object store too";
    EXPECT_TRUE(c.fetch("bystander"));
    // What is said under the name from then on is another session's.
    b.put("ada", some_tokens(14, 5));
    branch("msg_2", 6);
    EXPECT_EQ(b.refresh("ada"), freshness::same);
    EXPECT_TRUE(b.has("msg_2", some_tokens(12, 6)));
}

TEST(shared_agents, the_turns_that_gave_way_are_found_by_the_name_they_were_said_under) {
    temp_dir objects, first, second;
    machine a(objects.path(), first.path()), b(objects.path(), second.path());
    a.put("ada", some_tokens(30));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    ASSERT_TRUE(b.fetch("ada"));
    a.put("ada", some_tokens(40));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    b.put("ada", some_tokens(50));
    ASSERT_TRUE(b.shared->wait_until_idle(patience));
    ASSERT_TRUE(b.fetch("ada"));
    EXPECT_EQ(b.store->branches_of(id_of("ada")), std::vector<agent_id>{id_of(b.last_fork)});
    // A fork that somebody asked for is a memory of its own.
    ASSERT_TRUE(b.store->fork(id_of(b.last_fork), id_of("mine")));
    EXPECT_EQ(b.store->branches_of(id_of("ada")).size(), 1u);
}

}  // namespace
}  // namespace semantic::storage
