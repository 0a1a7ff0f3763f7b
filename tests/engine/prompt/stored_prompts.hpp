// SPDX-License-Identifier: Apache-2.0
#pragma once
// An empty store, with the embedded model's tokenizer and template, and prompts to put into it.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "engine/prompt/resolve.hpp"
#include "storage/pool/block_pool.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine::tests {

using semantic::tests::ask;
using semantic::tests::chat_of;

inline bool nobody_is_busy(const storage::agent_id&) { return false; }

class stored_prompts : public testing::Test {
  protected:
    // What the store holds once `chat` has been read as agent `id`.
    void remember(const resolver& prompts, const std::string& id, const conversation& chat) {
        auto prompt = prompts.resolve(ask(id, chat), nobody_is_busy);
        storage::agent_state state{*storage::agent_id::parse(id)};
        state.tokens = prompt->tokens;
        state.text = prompt->text;
        state.token_ends = prompt->token_ends;
        state.notes = prompt->notes;
        put(std::move(state));
    }
    // With blocks that hold nothing in particular.
    void put(storage::agent_state state) {
        storage::kv_sequence sequence(pool_, {}, 0);
        ASSERT_TRUE(sequence.reserve(static_cast<int>(state.tokens.size())));
        sequence.advance(static_cast<int>(state.tokens.size()));
        state.blocks = sequence.share();
        store_->put(std::move(state));
    }

    const std::string model_ = std::string(SEMANTIC_SOURCE_DIR) + "/etc/models/semantic-tiny";
    semantic::tests::temp_dir dir_;
    storage::block_pool pool_{storage::kv_layout({{1, 64, 64, 0}}, {}, 256), std::size_t{16} << 20};
    tokenizer words_ = *tokenizer::load(model_);
    chat_template chat_ = *chat_template::make("chatml");
    std::unique_ptr<storage::agent_cache_store> store_ = open();

  private:
    std::unique_ptr<storage::agent_cache_store> open() {
        storage::store_options options;
        options.directory = dir_.path();
        return std::move(*storage::agent_cache_store::open(options, pool_));
    }
};

}  // namespace semantic::engine::tests
