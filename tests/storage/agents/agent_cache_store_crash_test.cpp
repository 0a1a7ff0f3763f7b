// SPDX-License-Identifier: Apache-2.0
// What is acknowledged is whole, or absent: saves that fail at every single operation, power cuts,
// and a killed process.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/agents/agent_cache_store.hpp"
#include "storage/disk/manifest.hpp"
#include "tests/storage/agents/store_fixture.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;
using semantic::tests::fault;
using semantic::tests::fault_file_system;
using semantic::tests::lost;
using semantic::tests::temp_dir;

/// Returns: the number that the environment says, or `usual`.
unsigned count_from(const char* name, unsigned usual) {
    const char* wanted = std::getenv(name);
    return wanted != nullptr ? static_cast<unsigned>(std::atoi(wanted)) : usual;
}

bool has_temporaries(const std::string& directory) {
    const auto below = std::filesystem::recursive_directory_iterator(directory);
    return std::any_of(begin(below), end(below),
                       [](const auto& each) { return each.path().extension() == ".tmp"; });
}

struct trouble {
    fault kind;
    lost loss;
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

/// Something that may fail at any operation, tried on a directory of its own.
struct attempt {
    trouble met;
    int operation;  // of those after arm(), the one that fails
    temp_dir directory{};
    std::optional<fault_file_system> files{};
    bool fired = false;

    void arm() { files->fail_at(operation, met.kind); }
    void restart() {
        fired = files->has_fired();
        files->restart(met.loss, met.seed);
    }
};

/// Calls `body(attempt&)` with each trouble at operation 1, 2, 3, ... until it meets none.
/// `prepare(directory)`: what is there before.
template <class Prepare, class Body>
void with_trouble_anywhere(Prepare prepare, Body body) {
    for (const trouble& each : every_trouble()) {
        bool fired = true;
        for (int n = 1; fired; ++n) {
            SCOPED_TRACE(testing::Message()
                         << "kind " << int(each.kind) << " lost " << int(each.loss) << " seed "
                         << each.seed << " operation " << n);
            attempt now{each, n};
            prepare(now.directory);
            now.files.emplace(now.directory.path());
            body(now);
            if (testing::Test::HasFatalFailure()) return;
            fired = now.fired;
        }
    }
}

void nothing_before(const temp_dir&) {}

/// Models that share a directory; one's KV differs from another's of the same tokens.
constexpr std::array models{"model", "fine-tune", "another"};
std::uint64_t weights_of(std::size_t model) { return model + 1; }

class agent_cache_store_crash_test : public testing::TestWithParam<kv_layout> {
  protected:
    result<std::unique_ptr<agent_cache_store>> open(const temp_dir& directory, file_system* files,
                                                    std::size_t model = 0) {
        store_options options = options_for(directory.path(), files);
        options.fingerprint = fingerprint_of(models[model]);
        return agent_cache_store::open(options, pool);
    }

    /// 13 tokens of "a" and 9 of "other".
    void save_two(agent_cache_store& store) {
        store.put(make_state(pool, "a", some_tokens(13)));
        store.put(make_state(pool, "other", some_tokens(9)));
        ASSERT_TRUE(store.save(id_of("a")));
        ASSERT_TRUE(store.save(id_of("other")));
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
        EXPECT_TRUE(kept_holds(layout, restored->state, some_tokens(count), count));
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
            EXPECT_TRUE(kept_holds(layout, earlier->state, some_tokens(place), place));
        }
        return count;
    }

    /// Reads the agent back in full. Returns: its tokens; none when it is absent.
    std::vector<token_id> tokens_if_whole(agent_cache_store& store, std::size_t model,
                                          const std::string& id) {
        const auto state = store.find(id_of(id));
        if (state == nullptr) return {};
        const int count = static_cast<int>(state->tokens.size());
        for (const int place : {count, count / 2}) {
            const auto restored = store.restore(*state, place);
            EXPECT_TRUE(restored);
            EXPECT_EQ(restored->tokens, place) << restored->detail;
            EXPECT_TRUE(holds(layout, restored->blocks, state->tokens, place, weights_of(model)));
            EXPECT_TRUE(
                kept_holds(layout, restored->state, state->tokens, place, weights_of(model)));
        }
        return state->tokens;
    }
    /// Longer, or parted somewhere, or something else.
    static std::vector<token_id> next_tokens(std::vector<token_id> tokens, std::mt19937& random) {
        if (tokens.empty()) tokens = some_tokens(20, static_cast<int>(random() % 2));
        if (random() % 3 == 0) tokens.resize(1 + random() % tokens.size());
        const std::size_t longest = 60;
        for (auto more = 1 + random() % 20; more > 0 && tokens.size() < longest; --more)
            tokens.push_back(static_cast<token_id>(random() % 3));
        return tokens;
    }
    /// What a model remembers: which one, and the tokens.
    using memories = std::set<std::pair<std::size_t, std::vector<token_id>>>;
    /// Of block files, those of these memories are there and no others.
    void expect_only_what_is_needed(const std::string& directory, const memories& expected) {
        std::set<std::string> needed, there;
        for (const auto& [model, tokens] : expected) {
            for (const block_hash& name :
                 block_names(fingerprint_of(models[model]), "salt", tokens, block_tokens))
                needed.insert(name.hex());
            if (!layout.has_states()) continue;
            for (const int place : kept_places(static_cast<int>(tokens.size())))
                needed.insert(kept_name(tokens, place, models[model]).hex());
        }
        for (const auto& each :
             std::filesystem::recursive_directory_iterator(directory + "/blocks"))
            if (each.is_regular_file()) there.insert(each.path().filename().string().substr(0, 32));
        EXPECT_EQ(there, needed);
    }

    /// What was done to a directory's agents, and what of them an opening may find.
    struct history {
        std::mt19937 random;
        using of_model = std::pair<std::size_t, std::string>;               // and agent
        std::map<of_model, std::vector<std::vector<token_id>>> possible{};  // no tokens: absent
        std::size_t model = 0;                                              // the loaded one
        int acknowledged = 0;

        std::size_t below(std::size_t count) { return random() % count; }
        std::string some_agent() { return "agent" + std::to_string(below(4)); }
        void tried(const std::string& id, const std::vector<token_id>& tokens, bool success) {
            tried({model, id}, tokens, success);
            acknowledged += success ? 1 : 0;
        }
        void tried(const of_model& owner, const std::vector<token_id>& tokens, bool success) {
            auto& versions = possible[owner];
            if (success) versions.clear();
            if (std::ranges::count(versions, tokens) == 0) versions.push_back(tokens);
        }
        void tried_to_erase(const std::string& id, bool success) {
            for (std::size_t each = 0; each < models.size(); ++each)
                if (possible.contains({each, id})) tried({each, id}, {}, success);
            acknowledged += success ? 1 : 0;
        }
    };
    /// Opens the directory with each model. Returns: what was found; from now on that is what there
    /// is.
    memories expect_possible(const temp_dir& directory, file_system* files, history& past) {
        memories found;
        for (std::size_t model = 0; model < models.size(); ++model) {
            auto store = open(directory, files, model);
            EXPECT_TRUE(store) << store.error().what;
            if (!store) return found;
            EXPECT_FALSE(has_temporaries(directory.path()));
            for (int i = 0; i < 4; ++i) {
                const std::string id = "agent" + std::to_string(i);
                auto& versions = past.possible.try_emplace({model, id}, 1).first->second;
                const auto tokens = tokens_if_whole(**store, model, id);
                EXPECT_EQ(std::ranges::count(versions, tokens), 1) << id << " of " << model;
                versions = {tokens};
                if (!tokens.empty()) found.emplace(model, tokens);
            }
        }
        return found;
    }
    void take_a_step(agent_cache_store& store, history& past) {
        const std::string id = past.some_agent();
        const auto newest = store.find(id_of(id));
        const std::vector<token_id> now = newest ? newest->tokens : std::vector<token_id>();
        const auto state_of = [&](const std::vector<token_id>& tokens) {
            return make_state(pool, id, tokens, 1000, weights_of(past.model));
        };
        const auto action = past.below(7);
        if (action == 0) {
            store.evict(id_of(id));
        } else if (action == 1 && newest) {
            past.tried_to_erase(id, store.erase(id_of(id)).has_value());
        } else if (action == 2) {
            const std::string to = past.some_agent();
            if (newest == nullptr || store.find(id_of(to)) != nullptr) return;
            if (!store.inspect_others(id_of(to)).empty()) return;
            past.tried(to, now, store.fork(id_of(id), id_of(to)).has_value());
        } else if (action == 3) {  // an answer that is being made
            auto longer = next_tokens(now, past.random);
            longer.resize(longer.size() / block_tokens * block_tokens);
            store.put_unfinished(state_of(longer));
            const auto kept = store.find(id_of(id))->tokens;
            past.tried(id, kept, store.save(id_of(id)).has_value());
        } else {
            const auto next = next_tokens(now, past.random);
            store.put(state_of(next));
            past.tried(id, next, store.save(id_of(id)).has_value());
        }
    }

    const kv_layout layout = GetParam();
    block_pool pool{layout, layout.frame_bytes() * 400};
};

// Method: version 1 is acknowledged; saving version 2 meets trouble at operation 1, 2, 3, ... until
// it meets none.
TEST_P(agent_cache_store_crash_test, a_save_that_fails_anywhere_leaves_the_old_or_the_new_version) {
    with_trouble_anywhere(nothing_before, [&](attempt& now) {
        bool acknowledged = false;
        {
            const auto store = std::move(*open(now.directory, &*now.files));
            ASSERT_NO_FATAL_FAILURE(save_two(*store));
            store->put(make_state(pool, "a", some_tokens(27)));
            now.arm();
            acknowledged = store->save(id_of("a")).has_value();
            if (!acknowledged) {
                EXPECT_EQ(store->probe().save_failures, 1u);
                EXPECT_EQ(store->dirty_agents(), std::vector<agent_id>{id_of("a")});
            }
            EXPECT_EQ(whole_tokens(*store, "a"), 27);  // still usable
        }
        now.restart();
        const auto store = open(now.directory, &*now.files);
        ASSERT_TRUE(store) << store.error().what;
        const int tokens = whole_tokens_everywhere(**store, "a");
        EXPECT_TRUE(tokens == 27 || (tokens == 13 && !acknowledged)) << tokens;
        EXPECT_EQ(whole_tokens(**store, "other"), 9);
        EXPECT_FALSE(has_temporaries(now.directory.path()));
        EXPECT_TRUE(acknowledged || now.fired);
    });
}

TEST_P(agent_cache_store_crash_test, a_first_save_that_fails_anywhere_is_whole_or_absent) {
    with_trouble_anywhere(nothing_before, [&](attempt& now) {
        now.arm();  // opening an empty directory is part of it
        bool acknowledged = false;
        if (auto store = open(now.directory, &*now.files)) {
            (*store)->put(make_state(pool, "a", some_tokens(21)));
            acknowledged = (*store)->save(id_of("a")).has_value();
        }
        now.restart();
        const auto store = open(now.directory, &*now.files);
        ASSERT_TRUE(store) << store.error().what;
        const int tokens = whole_tokens_everywhere(**store, "a");
        EXPECT_TRUE(tokens == 21 || (tokens == -1 && !acknowledged)) << tokens;
        EXPECT_FALSE(has_temporaries(now.directory.path()));
    });
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
    with_trouble_anywhere(nothing_before, [&](attempt& now) {
        bool acknowledged = false;
        {
            const auto store = std::move(*open(now.directory, &*now.files));
            ASSERT_NO_FATAL_FAILURE(save_two(*store));
            now.arm();
            acknowledged = store->erase(id_of("a")).has_value();
        }
        now.restart();
        const auto store = std::move(*open(now.directory, &*now.files));
        const int tokens = whole_tokens(*store, "a");
        EXPECT_TRUE(tokens == -1 || (tokens == 13 && !acknowledged)) << tokens;
        EXPECT_EQ(whole_tokens(*store, "other"), 9);
    });
}

// Method: a directory with all that an opening removes (temporaries, blocks that no manifest needs,
// a damaged manifest and the blocks of it) is opened with trouble at operation 1, 2, 3, ... of
// that.
TEST_P(agent_cache_store_crash_test, a_collection_that_is_cut_off_anywhere_takes_nothing_needed) {
    const auto litter = [&](const temp_dir& directory) {
        {
            const auto store = std::move(*open(directory, nullptr));
            store->put(make_state(pool, "a", some_tokens(27)));
            auto sibling = some_tokens(16);
            sibling.push_back(5);
            store->put(make_state(pool, "gone", sibling));
            store->put(make_state(pool, "damaged", some_tokens(30, 2)));
            for (const char* id : {"a", "gone", "damaged"}) ASSERT_TRUE(store->save(id_of(id)));
        }
        const auto manifest_of = [&](const char* id) {
            return directory / manifest_path("salt", id, fingerprint_of("model"));
        };
        std::filesystem::remove(manifest_of("gone"));
        std::ofstream(manifest_of("damaged")) << "SEMAGENT and no more";
        std::ofstream(directory / "agents/x.manifest.tmp") << "half";
        const auto names =
            block_names(fingerprint_of("model"), "salt", some_tokens(27), block_tokens);
        std::ofstream(directory / (block_path(names[0], kv_part::full) + ".tmp")) << "half";
    };
    with_trouble_anywhere(litter, [&](attempt& now) {
        now.arm();
        if (auto store = open(now.directory, &*now.files)) {
            EXPECT_EQ(whole_tokens_everywhere(**store, "a"), 27);
        }
        now.restart();
        const auto store = open(now.directory, &*now.files);
        ASSERT_TRUE(store) << store.error().what;
        EXPECT_EQ(whole_tokens_everywhere(**store, "a"), 27);
        EXPECT_EQ((*store)->list().size(), 1u);
        expect_only_what_is_needed(now.directory.path(), {{0, some_tokens(27)}});
    });
}

// Goal: what agents do to each other's files over many crashes. Method: agents with common
// prefixes, of models that take turns in one directory, grow, part, fork, are evicted, taken up,
// saved early and whole, and erased under all models; operations fail and the power does, at random
// places; after each opening each model has of an agent its last acknowledged version or one that
// was tried later, and no other model's.
TEST_P(agent_cache_store_crash_test, whatever_agents_share_survives_power_cuts_at_random_places) {
    const unsigned seeds = count_from("SEMANTIC_CRASH_SEEDS", 12);
    int cuts = 0, acknowledged = 0;
    for (unsigned seed = 1; seed <= seeds; ++seed) {
        const temp_dir directory;
        fault_file_system files(directory.path());
        history past{std::mt19937(seed)};
        for (unsigned life = 0; life < 8; ++life) {
            SCOPED_TRACE(testing::Message() << "seed " << seed << " life " << life);
            expect_only_what_is_needed(directory.path(), expect_possible(directory, &files, past));
            past.model = past.below(models.size());
            const auto store = std::move(*open(directory, &files, past.model));
            const bool cut = past.below(4) != 0;
            files.fail_at(static_cast<int>(1 + past.below(60)),
                          cut ? fault::power_cut : every_trouble()[past.below(4)].kind);
            for (int step = 0; step < 16; ++step) {
                take_a_step(*store, past);
                for (const agent_summary& each : store->list()) {
                    const auto state = store->find(each.id);
                    const int count = static_cast<int>(past.below(state->tokens.size() + 1));
                    const auto restored = store->restore(*state, count);
                    ASSERT_TRUE(restored);
                    EXPECT_TRUE(holds(layout, restored->blocks, state->tokens, restored->tokens,
                                      weights_of(past.model)));
                    EXPECT_TRUE(kept_holds(layout, restored->state, state->tokens, restored->tokens,
                                           weights_of(past.model)));
                }
            }
            cuts += cut && files.has_fired() ? 1 : 0;
            files.restart(lost::at_random, seed * 100 + life);
        }
        acknowledged += past.acknowledged;
    }
    EXPECT_GT(cuts, static_cast<int>(seeds));
    EXPECT_GT(acknowledged, static_cast<int>(seeds) * 10);
}

// Method: a child saves ever longer versions and reports each acknowledged one through a pipe,
// until it is killed.
TEST_P(agent_cache_store_crash_test, a_killed_process_loses_nothing_that_it_acknowledged) {
    constexpr int rounds_of_directory = 12;
    const int kills = static_cast<int>(count_from("SEMANTIC_CRASH_KILLS", 6));
    std::optional<temp_dir> made;
    int acknowledged = 0;
    for (int trial = 0; trial < kills; ++trial) {
        const int round = trial % rounds_of_directory;
        if (round == 0) {
            made.emplace();
            acknowledged = 0;
        }
        const temp_dir& directory = *made;
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
    EXPECT_GT(acknowledged, 5 * (1 + (kills - 1) % rounds_of_directory));
}

INSTANTIATE_TEST_SUITE_P(layouts, agent_cache_store_crash_test,
                         testing::Values(small_layout(), sliding_layout(), latent_layout(),
                                         wide_layout(), recurrent_layout(), frame_sharing_layout()),
                         [](const auto& each) {
                             return std::string(each.param.has_states()      ? "recurrent"
                                                : each.param.has_wide_tail() ? "wide"
                                                : each.param == frame_sharing_layout()
                                                    ? "frame_sharing"
                                                : each.param.slides()           ? "sliding"
                                                : each.param == latent_layout() ? "latent"
                                                                                : "dense");
                         });

}  // namespace
}  // namespace semantic::storage
