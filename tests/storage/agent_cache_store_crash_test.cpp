// What is acknowledged is whole, or absent: saves that fail at every single operation, power cuts,
// and a killed process.

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/agent_cache_store.hpp"
#include "tests/storage/store_fixture.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;
using semantic::tests::fault;
using semantic::tests::fault_file_system;
using semantic::tests::lost;
using semantic::tests::temp_dir;

bool has_temporaries(const std::string& directory) {
    const auto below = std::filesystem::recursive_directory_iterator(directory);
    return std::any_of(begin(below), end(below),
                       [](const auto& each) { return each.path().extension() == ".tmp"; });
}

struct trouble {
    fault kind;
    lost what;
    unsigned seed;
};

std::vector<trouble> every_trouble() {
    std::vector<trouble> all = {
        {fault::io_error, lost::nothing, 1},  {fault::io_error, lost::everything, 1},
        {fault::no_space, lost::nothing, 1},  {fault::torn_write, lost::everything, 1},
        {fault::power_cut, lost::nothing, 1}, {fault::power_cut, lost::everything, 1}};
    for (unsigned seed = 1; seed <= 8; ++seed)
        all.push_back({fault::power_cut, lost::at_random, seed});
    return all;
}

class agent_cache_store_crash_test : public testing::TestWithParam<kv_layout> {
  protected:
    result<std::unique_ptr<agent_cache_store>> open(const temp_dir& directory, file_system* files) {
        return agent_cache_store::open(options_for(directory.path(), files), pool);
    }

    /// Reads the agent back in full. Returns: how many tokens it has, or -1 when it is absent.
    int whole_tokens(agent_cache_store& store, const std::string& id) {
        const auto state = store.find(id_of(id));
        if (state == nullptr) return -1;
        const int count = static_cast<int>(state->tokens.size());
        const auto restored = store.restore(*state, count);
        EXPECT_TRUE(restored);
        EXPECT_EQ(restored->why, shortfall::none) << restored->detail;
        EXPECT_EQ(restored->tokens, count);
        EXPECT_EQ(state->tokens, some_tokens(count));
        EXPECT_TRUE(
            holds(layout, restored->blocks, some_tokens(restored->tokens), restored->tokens));
        return count;
    }
    /// The same; reads it up to earlier places too, as one that parts from it there would.
    int whole_tokens_everywhere(agent_cache_store& store, const std::string& id) {
        const int count = whole_tokens(store, id);
        for (int place = count % 5; place < count; place += 5) {
            const auto earlier = store.restore(*store.find(id_of(id)), place);
            EXPECT_TRUE(earlier);
            EXPECT_EQ(earlier->tokens, place) << earlier->detail;
            EXPECT_TRUE(holds(layout, earlier->blocks, some_tokens(place), place));
        }
        return count;
    }

    const kv_layout layout = GetParam();
    block_pool pool{layout, layout.frame_bytes() * 400};
};

// Method: version 1 is acknowledged; saving version 2 meets trouble at operation 1, 2, 3, ... until
// it meets none.
TEST_P(agent_cache_store_crash_test, a_save_that_fails_anywhere_leaves_the_old_or_the_new_version) {
    for (const trouble& each : every_trouble()) {
        bool fired = true;
        for (int n = 1; fired; ++n) {
            SCOPED_TRACE(testing::Message()
                         << "kind " << int(each.kind) << " lost " << int(each.what) << " seed "
                         << each.seed << " operation " << n);
            const temp_dir directory;
            fault_file_system files(directory.path());
            bool acknowledged = false;
            {
                const auto store = std::move(*open(directory, &files));
                store->put(make_state(pool, "a", some_tokens(13)));
                store->put(make_state(pool, "other", some_tokens(9)));
                ASSERT_TRUE(store->save(id_of("a")));
                ASSERT_TRUE(store->save(id_of("other")));
                store->put(make_state(pool, "a", some_tokens(27)));
                files.fail_at(n, each.kind);
                acknowledged = store->save(id_of("a")).has_value();
                fired = files.has_fired();
                if (!acknowledged) {
                    EXPECT_EQ(store->probe().save_failures, 1u);
                    EXPECT_EQ(store->dirty_agents(), std::vector<agent_id>{id_of("a")});
                }
                EXPECT_EQ(whole_tokens(*store, "a"), 27);  // still usable
            }
            files.restart(each.what, each.seed);
            const auto store = open(directory, &files);
            ASSERT_TRUE(store) << store.error().what;
            const int tokens = whole_tokens_everywhere(**store, "a");
            EXPECT_TRUE(tokens == 27 || (tokens == 13 && !acknowledged)) << tokens;
            EXPECT_EQ(whole_tokens(**store, "other"), 9);
            EXPECT_FALSE(has_temporaries(directory.path()));
            EXPECT_TRUE(acknowledged || fired);
        }
    }
}

TEST_P(agent_cache_store_crash_test, a_first_save_that_fails_anywhere_is_whole_or_absent) {
    for (const trouble& each : every_trouble()) {
        bool fired = true;
        for (int n = 1; fired; ++n) {
            SCOPED_TRACE(testing::Message()
                         << "kind " << int(each.kind) << " lost " << int(each.what) << " seed "
                         << each.seed << " operation " << n);
            const temp_dir directory;
            fault_file_system files(directory.path());
            files.fail_at(n, each.kind);  // opening an empty directory is part of it
            bool acknowledged = false;
            if (auto store = open(directory, &files)) {
                (*store)->put(make_state(pool, "a", some_tokens(21)));
                acknowledged = (*store)->save(id_of("a")).has_value();
            }
            fired = files.has_fired();
            files.restart(each.what, each.seed);
            const auto store = open(directory, &files);
            ASSERT_TRUE(store) << store.error().what;
            const int tokens = whole_tokens_everywhere(**store, "a");
            EXPECT_TRUE(tokens == 21 || (tokens == -1 && !acknowledged)) << tokens;
            EXPECT_FALSE(has_temporaries(directory.path()));
        }
    }
}

// Method: as above, but the process lives on and saves again; then the power fails.
TEST_P(agent_cache_store_crash_test, a_save_after_a_failed_one_is_as_lasting_as_any) {
    for (fault kind : {fault::io_error, fault::no_space, fault::torn_write}) {
        bool fired = true;
        for (int n = 1; fired; ++n) {
            SCOPED_TRACE(testing::Message() << "kind " << int(kind) << " operation " << n);
            const temp_dir directory;
            fault_file_system files(directory.path());
            {
                const auto store = std::move(*open(directory, &files));
                store->put(make_state(pool, "a", some_tokens(13)));
                ASSERT_TRUE(store->save(id_of("a")));
                store->put(make_state(pool, "a", some_tokens(27)));
                files.fail_at(n, kind);
                (void)store->save(id_of("a"));
                fired = files.has_fired();
                files.reset();
                store->put(make_state(pool, "a", some_tokens(30)));
                ASSERT_TRUE(store->save(id_of("a")));
            }
            files.restart(lost::everything);
            const auto store = std::move(*open(directory, &files));
            EXPECT_EQ(whole_tokens(*store, "a"), 30);
        }
    }
}

// Goal: agent b relies on a file that a has made but whose directory a could not sync.
TEST_P(agent_cache_store_crash_test, a_shared_file_is_made_lasting_by_whoever_acknowledges_it) {
    bool fired = true;
    for (int n = 1; fired; ++n) {
        const temp_dir directory;
        fault_file_system files(directory.path());
        {
            const auto store = std::move(*open(directory, &files));
            store->put(make_state(pool, "a", some_tokens(16)));
            store->put(make_state(pool, "b", some_tokens(16)));
            files.fail_at(n, fault::io_error);
            (void)store->save(id_of("a"));
            fired = files.has_fired();
            files.reset();
            ASSERT_TRUE(store->save(id_of("b")));
        }
        files.restart(lost::everything);
        const auto store = std::move(*open(directory, &files));
        EXPECT_EQ(whole_tokens(*store, "b"), 16) << n;
    }
}

TEST_P(agent_cache_store_crash_test, an_erase_that_fails_anywhere_leaves_all_or_nothing) {
    for (const trouble& each : every_trouble()) {
        bool fired = true;
        for (int n = 1; fired; ++n) {
            SCOPED_TRACE(testing::Message()
                         << "kind " << int(each.kind) << " lost " << int(each.what) << " seed "
                         << each.seed << " operation " << n);
            const temp_dir directory;
            fault_file_system files(directory.path());
            bool acknowledged = false;
            {
                const auto store = std::move(*open(directory, &files));
                store->put(make_state(pool, "a", some_tokens(13)));
                store->put(make_state(pool, "other", some_tokens(9)));
                ASSERT_TRUE(store->save(id_of("a")));
                ASSERT_TRUE(store->save(id_of("other")));
                files.fail_at(n, each.kind);
                acknowledged = store->erase(id_of("a")).has_value();
                fired = files.has_fired();
            }
            files.restart(each.what, each.seed);
            const auto store = std::move(*open(directory, &files));
            const int tokens = whole_tokens(*store, "a");
            EXPECT_TRUE(tokens == -1 || (tokens == 13 && !acknowledged)) << tokens;
            EXPECT_EQ(whole_tokens(*store, "other"), 9);
        }
    }
}

// Method: a child saves ever longer versions and tells each acknowledged one through a pipe, until
// it is killed.
TEST_P(agent_cache_store_crash_test, a_killed_process_loses_nothing_that_it_acknowledged) {
    const temp_dir directory;
    int acknowledged = 0;
    for (int round = 0; round < 6; ++round) {
        int ends[2];
        ASSERT_EQ(::pipe(ends), 0);
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            const auto store = std::move(*open(directory, nullptr));
            for (int tokens = acknowledged + 1; tokens < 700; ++tokens) {
                store->put(make_state(pool, "a", some_tokens(tokens)));
                if (!store->save(id_of("a"))) ::_exit(1);
                if (::write(ends[1], &tokens, sizeof tokens) != sizeof tokens) ::_exit(2);
            }
            ::_exit(0);
        }
        ::close(ends[1]);
        int told = 0;
        // The kill falls into the middle of some later save.
        for (int i = 0; i < 5 + round && ::read(ends[0], &told, sizeof told) == sizeof told; ++i)
            acknowledged = told;
        ::usleep(static_cast<useconds_t>(700 * round));
        ::kill(child, SIGKILL);
        while (::read(ends[0], &told, sizeof told) == sizeof told) acknowledged = told;
        ::close(ends[0]);
        int status = 0;
        ::waitpid(child, &status, 0);

        const auto store = std::move(*open(directory, nullptr));
        const int tokens = whole_tokens_everywhere(*store, "a");
        EXPECT_GE(tokens, acknowledged);
        EXPECT_LE(tokens, acknowledged + 1);
        EXPECT_FALSE(has_temporaries(directory.path()));
        acknowledged = tokens;
    }
    EXPECT_GT(acknowledged, 30);
}

INSTANTIATE_TEST_SUITE_P(layouts, agent_cache_store_crash_test,
                         testing::Values(small_layout(), sliding_layout()),
                         [](const auto& each) {
                             return std::string(each.param.slides() ? "sliding" : "dense");
                         });

}  // namespace
}  // namespace semantic::storage
