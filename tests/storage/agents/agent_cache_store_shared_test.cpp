// SPDX-License-Identifier: Apache-2.0
// Several models' stores open on one directory at once: one lock, one quota, one budget of the
// pool.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <random>
#include <thread>

#include "storage/agents/agent_cache_store.hpp"
#include "storage/disk/record_files.hpp"
#include "tests/storage/agents/store_fixture.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;
using semantic::tests::temp_dir;

constexpr std::size_t frames_of_budget = 120;

/// A model that is loaded: its pool, its store, and what its KV depends on apart from the tokens.
struct loaded_model {
    std::string name;
    std::uint64_t weights;
    std::unique_ptr<block_pool> pool;
    std::unique_ptr<agent_cache_store> store;

    void put(const std::string& id, int tokens, int seed, int last_used = 1000) {
        store->make_room(40, nullptr);
        store->put(make_state(*pool, id, some_tokens(tokens, seed), last_used, weights));
    }
    bool save(const std::string& id, int tokens, int seed, int last_used = 1000) {
        put(id, tokens, seed, last_used);
        const auto saved = store->save(id_of(id));
        EXPECT_TRUE(saved) << saved.error().what;
        return saved.has_value();
    }
    bool is_whole(const std::string& id, int tokens, int seed) {
        return tests::is_whole(*store, pool->layout(), id, some_tokens(tokens, seed), weights);
    }
    bool is_hot(const std::string& id) {
        const auto found = store->inspect(id_of(id));
        return found && found->tier == memory_tier::hot;
    }
};

/// Saves, restores, evicts and erases agents of a model. Returns: how often something was wrong.
int work_at_random(loaded_model& model, unsigned seed, int rounds) {
    int wrong = 0;
    std::minstd_rand chance(seed);
    for (int i = 0; i < rounds; ++i) {
        const auto number = static_cast<int>(chance() % 8);
        const std::string id = model.name + std::to_string(number);
        const auto action = chance() % 5;
        if (action == 0) {
            const auto gone = model.store->erase(id_of(id));
            wrong += !gone && gone.error().code != errc::not_found ? 1 : 0;
        } else if (action == 1) {
            model.store->make_room(60, nullptr);
        } else if (action == 2) {
            const auto state = model.store->find(id_of(id));
            if (state == nullptr) continue;
            const auto pin = model.store->hold(id_of(id));
            const auto back = model.store->restore(*state, 21);
            if (!back || back->tokens < 21) continue;
            const bool is_same = holds(model.pool->layout(), back->blocks, some_tokens(21, number),
                                       21, model.weights);
            wrong += is_same ? 0 : 1;
        } else {
            model.store->make_room(60, nullptr);
            model.store->put(
                make_state(*model.pool, id, some_tokens(21, number), 1000 + i, model.weights));
            (void)model.store->save(id_of(id));
            (void)model.store->list_others();
        }
    }
    return wrong;
}

class agent_cache_store_shared_test : public testing::Test {
  protected:
    result<std::unique_ptr<agent_cache_store>> open_store(const std::string& name,
                                                          block_pool& frames,
                                                          std::uint64_t disk_budget) {
        store_options options = options_for(directory.path());
        options.fingerprint = fingerprint_of(name);
        options.model = "weights of " + name;
        options.model_name = name;
        options.disk_budget_bytes = disk_budget;
        options.record_budget_bytes = 1 + disk_budget / 1000;
        options.share = share;
        return agent_cache_store::open(options, frames);
    }
    loaded_model load(const std::string& name, std::uint64_t disk_budget = 1 << 30) {
        loaded_model made{name, static_cast<std::uint64_t>(name.at(0)), nullptr, nullptr};
        made.pool = std::make_unique<block_pool>(small_layout(name == "B" ? 8 : 4), budget);
        auto store = open_store(name, *made.pool, disk_budget);
        EXPECT_TRUE(store) << store.error().what;
        made.store = std::move(*store);
        return made;
    }
    std::uint64_t bytes_in() { return bytes_below(posix_file_system(), directory.path()).value(); }

    const temp_dir directory;
    const std::shared_ptr<directory_share> share = make_directory_share();
    const std::shared_ptr<pool_budget> budget =
        std::make_shared<pool_budget>(small_layout(8).frame_bytes() * frames_of_budget);
};

TEST_F(agent_cache_store_shared_test,
       two_models_remember_one_agent_side_by_side_and_after_a_restart) {
    {
        loaded_model a = load("A");
        loaded_model b = load("B");
        EXPECT_TRUE(a.save("x", 21, 1));
        EXPECT_TRUE(b.save("x", 30, 2));
        EXPECT_TRUE(a.is_whole("x", 21, 1));
        EXPECT_TRUE(b.is_whole("x", 30, 2));
        EXPECT_EQ(a.store->probe().disk_bytes, bytes_in());
        EXPECT_EQ(b.store->probe().disk_bytes, bytes_in());
    }
    loaded_model b = load("B");
    loaded_model a = load("A");
    EXPECT_TRUE(a.is_whole("x", 21, 1));
    EXPECT_TRUE(b.is_whole("x", 30, 2));
    EXPECT_EQ(a.store->probe().disk_bytes, bytes_in());
}

TEST_F(agent_cache_store_shared_test,
       a_model_that_comes_takes_its_memories_over_and_leaves_them_again) {
    loaded_model a = load("A");
    {
        loaded_model b = load("B");
        EXPECT_TRUE(b.save("x", 30, 2));
        EXPECT_TRUE(b.save("y", 13, 3));
    }
    ASSERT_EQ(a.store->list_others().size(), 2u);
    EXPECT_EQ(a.store->list_others()[0].tokens, 30);
    EXPECT_EQ(a.store->list_others()[0].model_name, "B");
    for (int round = 0; round < 3; ++round) {
        loaded_model b = load("B");
        EXPECT_TRUE(b.is_whole("x", 30, 2));
        EXPECT_TRUE(b.is_whole("y", 13, 3));
        EXPECT_EQ(a.store->list_others().size(), 2u) << "a loaded model's are others' as well";
        EXPECT_EQ(a.store->probe().disk_bytes, bytes_in());
    }
    EXPECT_EQ(a.store->list_others().size(), 2u);
    ASSERT_TRUE(a.store->erase(id_of("y")));
    loaded_model b = load("B");
    EXPECT_TRUE(b.is_whole("x", 30, 2));
    EXPECT_EQ(b.store->find(id_of("y")), nullptr);
}

TEST_F(agent_cache_store_shared_test, the_first_model_may_leave_before_the_second) {
    auto a = std::make_unique<loaded_model>(load("A"));
    EXPECT_TRUE(a->save("x", 21, 1));
    loaded_model b = load("B");
    EXPECT_TRUE(b.save("x", 30, 2));
    a->put("unsaved", 21, 5);
    a->store.reset();
    a.reset();
    EXPECT_EQ(b.store->list_others().size(), 1u) << "what was never saved is gone";
    EXPECT_TRUE(b.save("y", 30, 3));
    EXPECT_EQ(b.store->probe().disk_bytes, bytes_in());
    block_pool frames(small_layout(), 1 << 20);
    store_options alone = options_for(directory.path());
    EXPECT_EQ(agent_cache_store::open(alone, frames).error().code, errc::locked)
        << "the directory stays this process's";
    loaded_model again = load("A");
    EXPECT_TRUE(again.is_whole("x", 21, 1));
}

TEST_F(agent_cache_store_shared_test, the_same_model_is_not_opened_twice) {
    loaded_model a = load("A");
    EXPECT_TRUE(a.save("x", 21, 1));
    block_pool frames(small_layout(), budget);
    EXPECT_EQ(open_store("A", frames, 1 << 30).error().code, errc::locked);
    EXPECT_TRUE(a.is_whole("x", 21, 1));
    EXPECT_TRUE(a.save("x", 29, 1));
}

TEST_F(agent_cache_store_shared_test,
       a_name_is_taken_and_an_erasure_holds_under_every_loaded_model) {
    loaded_model a = load("A");
    loaded_model b = load("B");
    ASSERT_TRUE(a.store->create(id_of("x")));
    EXPECT_EQ(b.store->create(id_of("x")).error().code, errc::bad_value);
    EXPECT_TRUE(b.save("x", 30, 2));
    EXPECT_TRUE(b.save("y", 30, 2));
    EXPECT_EQ(a.store->why_absent(id_of("y")), shortfall::model_changed);
    EXPECT_EQ(a.store->inspect_others(id_of("x")).size(), 1u);
    EXPECT_EQ(a.store->usage({}).models.at(fingerprint_of("B")).memories, 2u);
    ASSERT_TRUE(a.store->erase(id_of("y"), fingerprint_of("B")));
    EXPECT_EQ(b.store->find(id_of("y")), nullptr);
    ASSERT_TRUE(b.store->erase(id_of("x")));
    EXPECT_EQ(a.store->find(id_of("x")), nullptr);
    EXPECT_EQ(b.store->find(id_of("x")), nullptr);
    EXPECT_EQ(a.store->erase(id_of("x")).error().code, errc::not_found);
    EXPECT_EQ(a.store->probe().disk_bytes, bytes_in());
    EXPECT_EQ(budget->held_bytes(), 0u) << "the other pool's frames came back, too";
}

TEST_F(agent_cache_store_shared_test, records_are_seen_by_every_store_and_counted_once) {
    loaded_model a = load("A");
    loaded_model b = load("B");
    ASSERT_TRUE(a.store->records().write({{}, "session:1", std::string(3000, 'a')}));
    ASSERT_TRUE(b.store->records().write({{}, "session:1", std::string(500, 'b')}));
    ASSERT_EQ(a.store->records().read_all().whole.size(), 1u);
    EXPECT_EQ(a.store->records().read_all().whole[0].bytes, std::string(500, 'b'));
    EXPECT_EQ(a.store->probe().disk_bytes, bytes_in());
}

TEST_F(agent_cache_store_shared_test,
       the_quota_takes_the_least_recently_used_of_all_loaded_models) {
    std::uint64_t each = 0;
    {
        loaded_model b = load("B");
        const std::uint64_t before = bytes_in();
        EXPECT_TRUE(b.save("x", 21, 1));
        each = bytes_in() - before;
    }
    loaded_model a = load("A", bytes_in() + 4 * each);
    loaded_model b = load("B");
    EXPECT_TRUE(b.save("held", 21, 2, 900));
    const auto held = b.store->hold(id_of("held"));
    EXPECT_TRUE(b.save("oldest", 21, 3, 1000));
    EXPECT_TRUE(a.save("older", 21, 4, 2000));
    for (int i = 0; i < 6; ++i) {
        const std::string id = "new" + std::to_string(i);
        EXPECT_TRUE((i % 2 == 0 ? a : b).save(id, 21, 10 + i, 3000 + i));
        EXPECT_LE(bytes_in(), a.store->probe().disk_budget_bytes);
        EXPECT_EQ(a.store->probe().disk_bytes, bytes_in());
    }
    EXPECT_EQ(b.store->find(id_of("oldest")), nullptr) << "removed for the other model's save";
    EXPECT_EQ(b.store->why_absent(id_of("oldest")), shortfall::evicted);
    EXPECT_EQ(a.store->find(id_of("older")), nullptr);
    EXPECT_NE(b.store->find(id_of("held")), nullptr) << "somebody holds it";
    EXPECT_TRUE(b.is_whole("new5", 21, 15));
}

TEST_F(agent_cache_store_shared_test,
       idle_memory_of_one_model_gives_way_to_the_other_and_comes_back) {
    loaded_model a = load("A");
    loaded_model b = load("B");
    for (int i = 0; i < 6; ++i) EXPECT_TRUE(a.save("a" + std::to_string(i), 40, i, 1000 + i));
    ASSERT_TRUE(a.is_hot("a0"));
    const std::size_t bytes = budget->bytes();
    for (int i = 0; i < 12; ++i) {
        EXPECT_TRUE(b.save("b" + std::to_string(i), 40, 100 + i, 2000 + i));
        EXPECT_LE(budget->held_bytes(), bytes);
        EXPECT_LE(budget->touched_bytes(), bytes);
    }
    for (int i = 0; i < 6; ++i) EXPECT_FALSE(a.is_hot("a" + std::to_string(i)));
    EXPECT_TRUE(b.is_hot("b11"));
    for (int i = 0; i < 6; ++i) EXPECT_TRUE(a.is_whole("a" + std::to_string(i), 40, i));
    for (int i = 0; i < 12; ++i) EXPECT_TRUE(b.is_whole("b" + std::to_string(i), 40, 100 + i));
    EXPECT_LE(budget->touched_bytes(), bytes);
}

TEST_F(agent_cache_store_shared_test, what_is_not_saved_yet_is_not_evicted_for_another_model) {
    loaded_model a = load("A");
    loaded_model b = load("B");
    a.put("dirty", 40, 1);
    ASSERT_TRUE(a.is_hot("dirty"));
    EXPECT_FALSE(b.store->make_room(b.pool->frame_count(), nullptr));
    EXPECT_TRUE(a.is_hot("dirty"));
    ASSERT_TRUE(a.store->save(id_of("dirty")));
    EXPECT_TRUE(b.store->make_room(b.pool->frame_count(), nullptr));
    EXPECT_FALSE(a.is_hot("dirty"));
    EXPECT_TRUE(a.is_whole("dirty", 40, 1));
}

TEST_F(agent_cache_store_shared_test,
       a_directory_that_is_taken_away_is_written_again_by_all_models) {
    loaded_model a = load("A");
    loaded_model b = load("B");
    EXPECT_TRUE(a.save("x", 21, 1));
    EXPECT_TRUE(b.save("y", 21, 2));
    std::filesystem::remove_all(directory.path());
    EXPECT_TRUE(a.save("x", 29, 1));
    EXPECT_EQ(b.store->dirty_agents(), std::vector{id_of("y")});
    ASSERT_TRUE(b.store->save(id_of("y")));
    EXPECT_EQ(a.store->probe().disk_bytes, bytes_in());
    EXPECT_TRUE(b.store->evict(id_of("y")));
    EXPECT_TRUE(b.is_whole("y", 21, 2));
}

// For the thread sanitizer too: three models save, evict, erase and remove under one budget while
// one of them comes and goes.
TEST_F(agent_cache_store_shared_test, models_that_work_at_once_keep_every_byte_and_both_budgets) {
    std::uint64_t each = 0;
    {
        loaded_model b = load("B");
        const std::uint64_t before = bytes_in();
        EXPECT_TRUE(b.save("B1", 21, 1));
        each = bytes_in() - before;
    }
    const std::uint64_t disk = bytes_in() + 20 * each;
    loaded_model a = load("A", disk);
    loaded_model b = load("B");
    std::atomic<int> wrong{0};
    std::thread first([&] { wrong += work_at_random(a, 1, 150); });
    std::thread second([&] { wrong += work_at_random(b, 2, 150); });
    std::thread third([&] {
        for (unsigned i = 0; i < 8; ++i) {
            loaded_model c = load("C");
            wrong += work_at_random(c, 3 + i, 10);
        }
    });
    first.join();
    second.join();
    third.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(a.store->probe().disk_bytes, bytes_in());
    EXPECT_LE(bytes_in(), disk);
    EXPECT_LE(budget->held_bytes(), budget->bytes());
    for (const loaded_model* model : {&a, &b})
        for (const agent_summary& agent : model->store->list()) {
            const int seed = std::stoi(agent.id.str().substr(1));
            EXPECT_TRUE(tests::is_whole(*model->store, model->pool->layout(), agent.id.str(),
                                        some_tokens(21, seed), model->weights))
                << agent.id.str();
        }
}

}  // namespace
}  // namespace semantic::storage
