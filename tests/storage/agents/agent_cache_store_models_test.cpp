// SPDX-License-Identifier: Apache-2.0
// Memories of several models side by side in one directory: each model finds its own, all share one
// budget, and an agent is forgotten under all of them or under one.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "storage/agents/agent_cache_store.hpp"
#include "storage/disk/manifest.hpp"
#include "tests/storage/agents/store_test.hpp"
#include "tests/support/bytes.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;
using semantic::tests::appending_to;
using semantic::tests::fault;
using semantic::tests::fault_file_system;
using semantic::tests::lost;
using semantic::tests::temp_dir;
namespace fs = std::filesystem;

/// What a model's KV depends on apart from the tokens: 1 for "A", 2 for "B", and so on.
std::uint64_t weights_of(const std::string& model) {
    return static_cast<std::uint64_t>(model.at(0) - 'A' + 1);
}

std::size_t files_below(const std::string& directory) {
    const auto below = fs::recursive_directory_iterator(directory);
    return static_cast<std::size_t>(std::count_if(
        begin(below), end(below), [](const auto& each) { return each.is_regular_file(); }));
}

std::vector<std::string> names_of(const std::vector<other_memory>& memories) {
    std::vector<std::string> names;
    for (const other_memory& each : memories) names.push_back(each.id.str() + each.model_name);
    std::ranges::sort(names);
    return names;
}

class agent_cache_store_models_test : public store_test {
  protected:
    agent_cache_store_models_test() : store_test(small_layout(), 400) {}

    store_options options_of(const std::string& model, std::uint64_t budget = 1 << 30) {
        store_options options = options_for(directory.path(), files.get());
        options.fingerprint = fingerprint_of(model);
        options.model = "weights of " + model;
        options.model_name = model;
        options.disk_budget_bytes = budget;
        options.record_budget_bytes = 1;
        return options;
    }
    std::unique_ptr<agent_cache_store> open(const std::string& model,
                                            std::uint64_t budget = 1 << 30) {
        return store_test::open(options_of(model, budget));
    }
    void put(agent_cache_store& store, const std::string& model, const std::string& id,
             const std::vector<token_id>& tokens, int last_used = 1000) {
        EXPECT_TRUE(store.make_room(40, nullptr));
        store.put(make_state(pool, id, tokens, last_used, weights_of(model)));
    }
    result<save_report> save(agent_cache_store& store, const std::string& model,
                             const std::string& id, const std::vector<token_id>& tokens,
                             int last_used = 1000) {
        put(store, model, id, tokens, last_used);
        return store.save(id_of(id));
    }
    /// Saves agents under a model that is opened for it.
    void remember(const std::string& model, const std::vector<std::string>& ids, int last_used,
                  int seed = 0) {
        const auto store = open(model);
        for (const std::string& id : ids)
            ASSERT_TRUE(save(*store, model, id, some_tokens(21, seed++), last_used++));
    }
    bool is_whole(agent_cache_store& store, const std::string& model, const std::string& id,
                  const std::vector<token_id>& tokens) {
        return tests::is_whole(store, layout, id, tokens, weights_of(model));
    }
    std::uint64_t bytes_in() { return bytes_below(posix_file_system(), directory.path()).value(); }
    /// What one agent of 21 tokens that shares nothing takes.
    std::uint64_t agent_bytes() {
        const temp_dir elsewhere;
        store_options options = options_of("A");
        options.directory = elsewhere.path();
        const auto store = std::move(*agent_cache_store::open(options, pool));
        put(*store, "A", "x", some_tokens(21));
        return store->save(id_of("x"))->bytes_written;
    }

    // Without real fsyncs, which would make many saves slow.
    std::unique_ptr<fault_file_system> files =
        std::make_unique<fault_file_system>(directory.path());
};

TEST_F(agent_cache_store_models_test, a_model_finds_its_own_memory_of_an_agent_and_no_others) {
    const auto tokens = some_tokens(21);
    for (const char* model : {"A", "B", "C"}) ASSERT_TRUE(save(*open(model), model, "a", tokens));
    EXPECT_EQ(files_below(directory / "agents"), 3u);
    EXPECT_EQ(files_below(directory / "blocks"), 9u) << "models share no block";
    for (const char* model : {"C", "A", "B"}) {
        const auto store = open(model);
        EXPECT_TRUE(is_whole(*store, model, "a", tokens)) << model;
        EXPECT_EQ(store->list().size(), 1u);
        EXPECT_EQ(store->inspect_others(id_of("a")).size(), 2u);
    }
    // A later turn under one model changes nothing for the others.
    const auto longer = some_tokens(30);
    { ASSERT_TRUE(save(*open("B"), "B", "a", longer)); }
    EXPECT_TRUE(is_whole(*open("B"), "B", "a", longer));
    EXPECT_TRUE(is_whole(*open("A"), "A", "a", tokens));
}

TEST_F(agent_cache_store_models_test, texts_and_answers_of_another_model_are_not_found) {
    std::string text;
    {
        const auto store = open("A");
        agent_state state = make_state(pool, "a", some_tokens(21), 1000, weights_of("A"));
        state.messages = {{"msg_1", 9, {}}};
        text = state.text;
        store->put(std::move(state));
        ASSERT_TRUE(store->save(id_of("a")));
        EXPECT_TRUE(store->find_message({}, "msg_1"));
    }
    const auto store = open("B");
    EXPECT_FALSE(store->find_message({}, "msg_1"));
    EXPECT_TRUE(store->closest({}, text, 5).empty());
    EXPECT_EQ(store->find(id_of("a")), nullptr);
    ASSERT_TRUE(save(*store, "B", "b", some_tokens(21)));
    EXPECT_EQ(store->closest({}, text, 5).size(), 1u);
    EXPECT_TRUE(is_whole(*store, "B", "b", some_tokens(21))) << "not on A's KV of the same tokens";
}

TEST_F(agent_cache_store_models_test, a_miss_says_whether_other_weights_or_another_form_remember) {
    remember("A", {"a", "b"}, 1000);
    store_options same_weights = options_of("B");
    same_weights.model = "weights of A";
    {
        const auto store = store_test::open(same_weights);
        EXPECT_EQ(store->why_absent(id_of("a")), shortfall::incompatible);
        EXPECT_EQ(store->why_absent(id_of("nobody")), shortfall::none);
        ASSERT_TRUE(save(*store, "B", "a", some_tokens(9)));
        EXPECT_EQ(store->why_absent(id_of("a")), shortfall::none);
    }
    const auto store = open("C");
    EXPECT_EQ(store->why_absent(id_of("a")), shortfall::model_changed);
    ASSERT_TRUE(store->erase(id_of("a"), fingerprint_of("A")));
    EXPECT_EQ(store->why_absent(id_of("a")), shortfall::model_changed) << "B's are A's weights";
    ASSERT_TRUE(store->erase(id_of("a"), fingerprint_of("B")));
    EXPECT_EQ(store->why_absent(id_of("a")), shortfall::none);
    EXPECT_EQ(store->why_absent(id_of("b")), shortfall::model_changed);
}

TEST_F(agent_cache_store_models_test, what_other_models_remember_is_listed_by_agent_and_model) {
    remember("A", {"a", "b"}, 1000);
    remember("B", {"a"}, 2000);
    const auto store = open("C");
    ASSERT_TRUE(save(*store, "C", "c", some_tokens(5)));
    EXPECT_EQ(names_of(store->list_others()), (std::vector<std::string>{"aA", "aB", "bA"}));
    EXPECT_EQ(names_of(store->inspect_others(id_of("a"))), (std::vector<std::string>{"aA", "aB"}));
    EXPECT_TRUE(store->inspect_others(id_of("c")).empty());
    const auto b = store->inspect_others(id_of("b"));
    ASSERT_EQ(b.size(), 1u);
    EXPECT_EQ(b[0].fingerprint, fingerprint_of("A"));
    EXPECT_EQ(b[0].tokens, 21);
    EXPECT_EQ(b[0].last_used, std::chrono::system_clock::time_point(std::chrono::seconds(1001)));
    EXPECT_GT(b[0].disk_bytes, 0u);
    EXPECT_FALSE(b[0].in_use);
    const auto held = store->hold(id_of("b"));
    EXPECT_TRUE(store->inspect_others(id_of("b"))[0].in_use);
    const tenant_id other = store->tenant("another");
    EXPECT_TRUE(store->list_others(other).empty());
    EXPECT_TRUE(store->inspect_others(id_of("a").owned_by(other)).empty());
    EXPECT_EQ(store->erase(id_of("a").owned_by(other)).error().code, errc::not_found);
}

TEST_F(agent_cache_store_models_test, usage_counts_each_models_files_once) {
    remember("A", {"a"}, 1000);
    {
        const auto store = open("A");
        ASSERT_TRUE(store->fork(id_of("a"), id_of("twin")));  // shares all blocks
    }
    remember("B", {"a"}, 2000);
    const auto store = open("B");
    const tenant_usage usage = store->usage({});
    ASSERT_EQ(usage.models.size(), 2u);
    EXPECT_EQ(usage.models.at(fingerprint_of("A")).memories, 2u);
    EXPECT_EQ(usage.models.at(fingerprint_of("A")).tokens, 42u);
    EXPECT_EQ(usage.models.at(fingerprint_of("A")).model_name, "A");
    EXPECT_EQ(usage.models.at(fingerprint_of("B")).memories, 1u);
    std::uint64_t marks = 32 + std::string_view("semantic-cache 2\n").size();
    EXPECT_EQ(usage.disk_bytes + marks, bytes_in());
    EXPECT_TRUE(store->usage(store->tenant("another")).models.empty());
}

TEST_F(agent_cache_store_models_test, erasing_forgets_an_agent_under_every_model_and_nobody_else) {
    for (const char* model : {"A", "B"}) remember(model, {"a", "b"}, 1000);
    {
        const auto store = open("C");
        ASSERT_TRUE(save(*store, "C", "a", some_tokens(9)));
        ASSERT_TRUE(store->erase(id_of("a")));
        EXPECT_TRUE(store->inspect_others(id_of("a")).empty());
        EXPECT_EQ(store->find(id_of("a")), nullptr);
        EXPECT_EQ(store->why_absent(id_of("a")), shortfall::none);
        EXPECT_EQ(store->erase(id_of("a")).error().code, errc::not_found);
        EXPECT_EQ(store->probe().disk_bytes, bytes_in());
    }
    for (const char* model : {"A", "B"}) {
        const auto store = open(model);
        EXPECT_EQ(store->find(id_of("a")), nullptr) << model;
        EXPECT_TRUE(is_whole(*store, model, "b", some_tokens(21, 1))) << model;
    }
    EXPECT_EQ(files_below(directory / "agents"), 2u);
    EXPECT_EQ(files_below(directory / "blocks"), 6u);
}

TEST_F(agent_cache_store_models_test, one_models_memory_is_erased_alone) {
    for (const char* model : {"A", "B"}) remember(model, {"a"}, 1000);
    const auto store = open("B");
    ASSERT_TRUE(store->erase(id_of("a"), fingerprint_of("A")));
    EXPECT_EQ(store->erase(id_of("a"), fingerprint_of("A")).error().code, errc::not_found);
    EXPECT_EQ(store->erase(id_of("a"), fingerprint_of("C")).error().code, errc::not_found);
    EXPECT_TRUE(is_whole(*store, "B", "a", some_tokens(21)));
    EXPECT_EQ(files_below(directory / "blocks"), 3u);
    ASSERT_TRUE(store->erase(id_of("a"), fingerprint_of("B")));
    EXPECT_EQ(store->find(id_of("a")), nullptr);
    EXPECT_EQ(files_below(directory / "blocks"), 0u);
    EXPECT_EQ(store->probe().disk_bytes, bytes_in());
}

TEST_F(agent_cache_store_models_test, a_name_is_taken_whatever_model_remembers_it) {
    remember("A", {"a"}, 1000);
    auto store = open("B");
    EXPECT_EQ(store->create(id_of("a")).error().code, errc::bad_value);
    ASSERT_TRUE(save(*store, "B", "b", some_tokens(9)));
    EXPECT_EQ(store->fork(id_of("b"), id_of("a")).error().code, errc::bad_value);
    // What acts on a memory acts on the loaded model's.
    EXPECT_EQ(store->fork(id_of("a"), id_of("c")).error().code, errc::not_found);
    std::string bytes;
    EXPECT_EQ(store->export_agent(id_of("a"), appending_to(bytes)).error().code, errc::not_found);
    EXPECT_FALSE(store->evict(id_of("a")));
    store.reset();
    EXPECT_TRUE(is_whole(*open("A"), "A", "a", some_tokens(21)));
}

// Goal: the least recently used memory goes first, whatever its model; blocks go with their memory.
TEST_F(agent_cache_store_models_test, the_least_recently_used_memory_goes_first_of_all_models) {
    remember("A", {"a0", "a1", "a2"}, 1000);
    remember("B", {"b0"}, 500, 10);
    std::vector<std::string> by_age{"b0B", "a0A", "a1A", "a2A"};
    const auto store = open("B", agent_bytes() * 6);
    for (int i = 1; i <= 8; ++i) {
        const std::string id = "b" + std::to_string(i);
        ASSERT_TRUE(save(*store, "B", id, some_tokens(21, 10 + i), 3000 + i));
        by_age.push_back(id + "B");
        auto there = names_of(store->list_others());
        for (const agent_summary& each : store->list()) there.push_back(each.id.str() + "B");
        ASSERT_GE(there.size(), 4u);
        const auto youngest = by_age.end() - static_cast<std::ptrdiff_t>(there.size());
        std::ranges::sort(there);
        std::vector<std::string> expected(youngest, by_age.end());
        std::ranges::sort(expected);
        EXPECT_EQ(there, expected);
        EXPECT_EQ(store->probe().disk_removals + there.size(), by_age.size());
        EXPECT_EQ(store->probe().disk_bytes, bytes_in());
        EXPECT_EQ(files_below(directory / "blocks"), there.size() * 3);
    }
    EXPECT_EQ(store->probe().incompatible_removals, 0u);
    EXPECT_TRUE(store->list_others().empty());
    EXPECT_EQ(store->why_absent(id_of("b0")), shortfall::evicted);
    EXPECT_TRUE(is_whole(*store, "B", "b8", some_tokens(21, 18)));
}

TEST_F(agent_cache_store_models_test, a_budget_that_shrank_is_kept_over_all_models_when_opening) {
    remember("A", {"a0", "a1"}, 1000);
    remember("B", {"b0", "b1"}, 900, 10);
    const std::uint64_t budget = agent_bytes() * 5 / 2;
    {
        const auto store = open("C", budget);
        EXPECT_LE(bytes_in(), budget);
        EXPECT_EQ(names_of(store->list_others()), (std::vector<std::string>{"a0A", "a1A"}));
    }
    EXPECT_TRUE(is_whole(*open("A"), "A", "a1", some_tokens(21, 1)));
}

TEST_F(agent_cache_store_models_test, what_no_model_can_use_goes_before_any_memory) {
    remember("A", {"a0", "a1", "moved"}, 1000);
    const std::string leftover = directory / manifest_path("salt", "b", fingerprint_of("A"));
    fs::rename(directory / manifest_path("salt", "moved", fingerprint_of("A")), leftover);
    files = std::make_unique<fault_file_system>(directory.path());
    const auto store = open("B", bytes_in() + 3 * agent_bytes() / 2);
    EXPECT_EQ(store->probe().manifests_incompatible, 1u) << "under another name it is nobody's";
    EXPECT_EQ(store->list_others().size(), 2u);
    EXPECT_TRUE(fs::exists(leftover));
    ASSERT_TRUE(save(*store, "B", "b0", some_tokens(21, 10), 1));
    EXPECT_FALSE(fs::exists(leftover));
    EXPECT_EQ(store->probe().incompatible_removals, 1u);
    EXPECT_EQ(store->probe().disk_removals, 0u);
    EXPECT_EQ(store->list_others().size(), 2u);
    EXPECT_EQ(store->probe().disk_bytes, bytes_in());
}

TEST_F(agent_cache_store_models_test, an_empty_memory_of_another_model_keeps_no_orphans) {
    { ASSERT_TRUE(open("A")->create(id_of("empty"))); }
    remember("B", {"gone", "b"}, 1000);
    fs::remove(directory / manifest_path("salt", "gone", fingerprint_of("B")));
    const auto store = open("B");
    EXPECT_EQ(files_below(directory / "blocks"), 3u);
    EXPECT_EQ(store->inspect_others(id_of("empty")).at(0).tokens, 0);
}

// Method: an agent of three models is erased with trouble at operation 1, 2, 3, ... of that.
TEST_F(agent_cache_store_models_test, an_erasure_that_is_cut_off_leaves_whole_memories_or_none) {
    for (const lost loss : {lost::everything, lost::nothing, lost::at_random}) {
        bool fired = true;
        for (int n = 1; fired; ++n) {
            SCOPED_TRACE(testing::Message() << "lost " << int(loss) << " operation " << n);
            for (const char* model : {"A", "B", "C"}) remember(model, {"a", "b"}, 1000);
            files->reset();
            bool acknowledged = false;
            {
                const auto store = open("B");
                files->fail_at(n, fault::power_cut);
                acknowledged = store->erase(id_of("a")).has_value();
                fired = files->has_fired();
            }
            files->restart(loss, static_cast<unsigned>(n));
            for (const char* model : {"A", "B", "C"}) {
                const auto store = open(model);
                const bool is_there = store->find(id_of("a")) != nullptr;
                EXPECT_FALSE(is_there && acknowledged);
                EXPECT_TRUE(!is_there || is_whole(*store, model, "a", some_tokens(21)));
                EXPECT_TRUE(is_whole(*store, model, "b", some_tokens(21, 1)));
                EXPECT_EQ(store->probe().disk_bytes, bytes_in());
            }
            EXPECT_TRUE(acknowledged || fired);
        }
    }
}

// Goal: many agents of many models. Method: 200 agents, of which each model knows some, with one
// opening of the directory after another.
TEST_F(agent_cache_store_models_test, two_hundred_agents_under_three_models_are_each_found) {
    const std::vector<std::string> models{"A", "B", "C"};
    const auto knows = [](std::size_t model, int agent) {
        return static_cast<std::size_t>(agent) % 4 != model;  // one in four knows all but one
    };
    const auto tokens_of = [](std::size_t model, int agent) {
        return some_tokens(9 + agent % 13, agent + (agent % 2 == 0 ? static_cast<int>(model) : 0));
    };
    std::size_t memories = 0;
    for (std::size_t m = 0; m < models.size(); ++m) {
        const auto store = open(models[m]);
        for (int i = 0; i < 200; ++i)
            if (knows(m, i)) {
                ASSERT_TRUE(save(*store, models[m], "agent" + std::to_string(i), tokens_of(m, i)));
                ++memories;
            }
        EXPECT_EQ(store->list().size() + store->list_others().size(), memories);
    }
    for (std::size_t m = 0; m < models.size(); ++m) {
        const auto store = open(models[m]);
        EXPECT_EQ(store->list().size() + store->list_others().size(), memories);
        for (int i = 0; i < 200; ++i) {
            const std::string id = "agent" + std::to_string(i);
            EXPECT_EQ(store->find(id_of(id)) != nullptr, knows(m, i)) << id;
            EXPECT_TRUE(!knows(m, i) || is_whole(*store, models[m], id, tokens_of(m, i))) << id;
            std::size_t others = 0;
            for (std::size_t o = 0; o < models.size(); ++o) others += o != m && knows(o, i) ? 1 : 0;
            EXPECT_EQ(store->inspect_others(id_of(id)).size(), others) << id;
        }
        EXPECT_EQ(store->probe().disk_bytes, bytes_in());
    }
}

// Goal: models that take turns in a directory with a budget. Method: random saves, forks, erasures
// of everything and of one model's memory; after each step the budget is kept, every memory that is
// there is whole as its model last saved it, and what was erased is gone.
TEST_F(agent_cache_store_models_test, random_agents_of_three_models_share_one_budget) {
    const std::vector<std::string> models{"A", "B", "C"};
    const std::uint64_t budget = agent_bytes() * 12;
    std::map<std::pair<std::string, std::string>, std::vector<token_id>> last;  // by model and id
    std::uint64_t removals = 0;
    int saves = 0, clock = 1000;
    std::mt19937 random(7);
    const auto below = [&](std::size_t count) { return random() % count; };
    for (int life = 0; life < 24; ++life) {
        const std::string model = models[below(3)];
        SCOPED_TRACE(testing::Message() << "life " << life << " of " << model);
        const auto store = open(model, budget);
        for (const agent_summary& each : store->list())
            ASSERT_TRUE(is_whole(*store, model, each.id.str(), last.at({model, each.id.str()})));
        for (int step = 0; step < 20; ++step) {
            const std::string id = "agent" + std::to_string(below(12));
            const auto action = below(8);
            if (action == 0) {
                (void)store->erase(id_of(id));
                for (const std::string& each : models) last.erase({each, id});
                EXPECT_EQ(store->find(id_of(id)), nullptr);
                EXPECT_TRUE(store->inspect_others(id_of(id)).empty());
            } else if (action == 1) {
                const std::string erased = models[below(3)];
                (void)store->erase(id_of(id), fingerprint_of(erased));
                last.erase({erased, id});
            } else if (action == 2) {
                const std::string to = "agent" + std::to_string(below(12));
                if (!store->fork(id_of(id), id_of(to))) continue;
                last[{model, to}] = store->find(id_of(to))->tokens;
            } else {
                auto tokens =
                    some_tokens(static_cast<int>(8 * below(3)), static_cast<int>(below(2)));
                for (auto more = 1 + below(12); more > 0; --more)
                    tokens.push_back(static_cast<token_id>(below(3)));
                ASSERT_TRUE(save(*store, model, id, tokens, clock++));
                last[{model, id}] = tokens;
                ++saves;
            }
            ASSERT_LE(bytes_in(), budget);
            ASSERT_EQ(store->probe().disk_bytes, bytes_in());
            for (const agent_summary& each : store->list())
                ASSERT_EQ(store->find(each.id)->tokens, last.at({model, each.id.str()}));
            for (const other_memory& each : store->list_others()) {
                const auto known = last.find({each.model_name, each.id.str()});
                ASSERT_NE(known, last.end()) << each.id.str() << " under " << each.model_name;
                ASSERT_EQ(static_cast<std::size_t>(each.tokens), known->second.size());
            }
        }
        removals += store->probe().disk_removals;
    }
    EXPECT_GT(removals, 20u) << "the budget was in the way";
    EXPECT_GT(saves, 100);
}

}  // namespace
}  // namespace semantic::storage
