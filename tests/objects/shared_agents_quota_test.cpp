// SPDX-License-Identifier: Apache-2.0
// What the disk quota does with agents that are not in the object store yet.

#include <gtest/gtest.h>

#include "tests/objects/machine.hpp"
#include "tests/support/fault_file_system.hpp"

namespace semantic::storage {
namespace {

using semantic::tests::fault_file_system;
using namespace tests;

TEST(shared_agents, the_disk_quota_spares_what_waits_for_its_upload) {
    temp_dir objects, first, second;
    fault_file_system faults(objects.path());
    machine a(objects.path(), first.path(), small_layout(), &faults);
    a.put("there", some_tokens(40, 1));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    faults.set_read_only(true);
    // Unused for longer than the one in the store, so that it would go first.
    a.store->put(make_state(a.pool, "waits", some_tokens(40, 2), 500));
    ASSERT_TRUE(a.store->save(id_of("waits")));
    a.shared->note_saved(id_of("waits"));
    const std::uint64_t two = a.store->probe().disk_bytes;
    a.shared.reset();
    a.store.reset();
    store_options options = options_for(first.path());
    options.disk_budget_bytes = two * 7 / 4;  // a save asks for twice what it writes
    options.record_budget_bytes = 1;
    a.store = std::move(*agent_cache_store::open(options, a.pool));
    a.share();
    EXPECT_EQ(a.shared->counts().pending, 1U);
    a.store->put(make_state(a.pool, "third", some_tokens(40, 3), 9000));
    ASSERT_TRUE(a.store->save(id_of("third")));
    EXPECT_TRUE(a.has("waits", some_tokens(40, 2)));
    EXPECT_EQ(a.store->find(id_of("there")), nullptr);
    faults.set_read_only(false);
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    machine b(objects.path(), second.path());
    ASSERT_TRUE(b.fetch("waits"));
    ASSERT_TRUE(b.fetch("there"));
    EXPECT_TRUE(b.has("waits", some_tokens(40, 2)));
}

}  // namespace
}  // namespace semantic::storage
