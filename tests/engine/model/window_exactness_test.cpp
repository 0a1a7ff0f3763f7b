// SPDX-License-Identifier: Apache-2.0
// Sliding layers whose passed frames were let go, shared or read back from disk give the bits of a
// fresh run.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "storage/agents/agent_cache_store.hpp"
#include "storage/files/checksum.hpp"
#include "storage/pool/block_frames.hpp"
#include "tests/engine/model/loaded_model.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

using storage::agent_state;
using storage::kv_sequence;
using storage::token_id;
using tests::loaded_model;
using tests::temp_dir;

constexpr int block_tokens = 16, chunk = 48, context = 400;

struct kept_form {
    const char* model;
    const char* recipe;
    int wide_tail;
};

class window_exactness : public testing::TestWithParam<kept_form> {
  protected:
    window_exactness() : model(small_blocks()) {}

    static tests::model_run small_blocks() {
        tests::model_run run;
        run.folder = std::string(SEMANTIC_SOURCE_DIR "/tests/golden/models/") + GetParam().model;
        run.recipe = GetParam().recipe;
        run.wide_tail = GetParam().wide_tail;
        run.threads = 2;
        run.rows_max = 64;
        run.pool_tokens = 8000;
        run.block_tokens = block_tokens;
        return run;
    }
    std::unique_ptr<storage::agent_cache_store> open() {
        auto store = storage::agent_cache_store::open(
            {directory.path(), storage::checksum128("model"), "salt", nullptr}, model.pool());
        EXPECT_TRUE(store) << store.error().what;
        return std::move(*store);
    }
    /// Appends `tokens` to `sequence` and runs them as the scheduler does: chunk by chunk,
    /// published each time the window moves. Returns: their logits.
    std::vector<float> extend(storage::agent_cache_store& store, kv_sequence& sequence,
                              const agent_state& name, std::vector<token_id> tokens) {
        std::vector<float> all;
        while (sequence.token_count() < static_cast<int>(tokens.size())) {
            const int at = sequence.token_count();
            const int count = std::min(chunk, static_cast<int>(tokens.size()) - at);
            const auto part = std::span(tokens).subspan(static_cast<std::size_t>(at),
                                                        static_cast<std::size_t>(count));
            const auto some = model.logits(sequence, part, count);
            all.insert(all.end(), some.begin(), some.end());
            if (!sequence.window_has_moved()) continue;
            publish(store, sequence.share_whole_blocks(), name, tokens);
            EXPECT_TRUE(store.save(name.id));
        }
        publish(store, sequence.share(), name, tokens);
        EXPECT_TRUE(store.save(name.id));
        return all;
    }
    static void publish(storage::agent_cache_store& store,
                        std::vector<storage::kv_block_parts> blocks, agent_state state,
                        std::vector<token_id> tokens) {
        tokens.resize(std::min(tokens.size(), blocks.size() * block_tokens));
        state.token_ends.assign(tokens.size(), 0);
        state.tokens = std::move(tokens);
        state.blocks = std::move(blocks);
        store.put(std::move(state));
    }
    static agent_state named(const std::string& id) {
        return agent_state{.id = storage::agent_id::parse(id).value()};
    }
    /// Logits of tokens[from ...] when all are run again.
    std::vector<float> fresh(const std::vector<token_id>& tokens, int from) {
        const auto all = model.logits(*model.new_sequence(), tokens, 64);
        return {all.begin() + from * std::ptrdiff_t{vocabulary()}, all.end()};
    }

    const storage::kv_layout& layout() { return model.pool().layout(); }
    int vocabulary() const { return model.config().vocabulary; }

    const temp_dir directory;
    loaded_model model;
};

// Method: agents extend their memory, go back, fork from each other, are evicted and restarted at
// random; each answer is compared with a fresh run, bit for bit.
TEST_P(window_exactness, random_resumes_anywhere_give_the_bits_of_a_fresh_run) {
    auto store = open();
    std::mt19937 random(3);
    const auto below = [&](std::size_t count) { return static_cast<int>(random() % count); };
    for (int step = 0; step < 30; ++step) {
        SCOPED_TRACE(step);
        const std::string id = "agent" + std::to_string(below(3));
        const auto source = store->find(named("agent" + std::to_string(below(3))).id);
        const int size = source ? static_cast<int>(source->tokens.size()) : 0;
        const int kept = below(2) == 0 && size < context ? size : below(std::size_t(size) + 1);
        std::vector<token_id> tokens;
        std::vector<storage::kv_block_parts> prefix;
        if (source) {
            if (below(3) == 0) store->evict(source->id);
            const auto restored = store->restore(*store->find(source->id), kept);
            ASSERT_TRUE(restored) << restored.error().what;
            ASSERT_EQ(restored->tokens, kept) << restored->detail;
            prefix = restored->blocks;
            tokens.assign(source->tokens.begin(), source->tokens.begin() + kept);
        }
        kv_sequence sequence(model.pool(), std::move(prefix), kept);
        const int from = sequence.token_count();
        ASSERT_GE(from, layout().group_start(kept));
        if (kept == size) {
            ASSERT_EQ(from, kept) << "the whole memory has all that it goes on with";
        }
        for (int i = below(150) + 1; i-- > 0;) tokens.push_back(below(std::size_t(vocabulary())));
        const auto logits = extend(*store, sequence, named(id), tokens);
        const auto expected = fresh(tokens, from);
        ASSERT_EQ(logits.size(), expected.size());
        EXPECT_EQ(std::memcmp(logits.data(), expected.data(), logits.size() * sizeof(float)), 0);
        if (step % 7 != 6) continue;
        store.reset();
        store = open();
    }
}

TEST_P(window_exactness, a_long_context_holds_no_more_frames_than_its_windows) {
    auto store = open();
    const std::vector<token_id> tokens(context, 7);
    {
        kv_sequence sequence(model.pool(), {}, 0);
        extend(*store, sequence, named("a"), tokens);
        EXPECT_LE(model.pool().held_count(), layout().frames_for(context, chunk));
    }
    EXPECT_LE(model.pool().held_count(), layout().frames_for(context, 0));
    EXPECT_LT(layout().frames_for(context, 0) - layout().wide_frames(),
              std::size_t{context / block_tokens * 2 / 3} * storage::frames_of_block(layout()));
}

INSTANTIATE_TEST_SUITE_P(models, window_exactness,
                         testing::Values(kept_form{"gemma3", "k4v4", 0},
                                         kept_form{"gptoss", "k4v4", 0},
                                         kept_form{"gemma3", "k5s-v4r", 4},
                                         kept_form{"gptoss", "k7s-v5r", 4},
                                         kept_form{"gemma4-published", "k4v4", 0},
                                         kept_form{"gemma4-e-published", "k8v8", 0},
                                         kept_form{"gemma4moe-published", "k16v16", 0},
                                         kept_form{"gemma4-published", "k6s-v5r", 4}),
                         [](const auto& each) {
                             std::string name = each.param.model;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return each.param.wide_tail > 0 ? name + "_wide" : name;
                         });

}  // namespace
}  // namespace semantic::engine
