// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sequences without a model: their tokens count as computed once they are said to be.

#include <map>
#include <memory>
#include <vector>

#include "engine/scheduler/batch/sequence_set.hpp"
#include "tests/engine/prompt/stored_prompts.hpp"

namespace semantic::engine::tests {

class bare_sequences : public stored_prompts {
  protected:
    /// Request `id` of agent "a" with a prompt of `tokens` tokens, the same at every call.
    const job_ptr& job_of(request_id id, int tokens) {
        job_ptr& work = works_[id];
        if (!work) {
            work = std::make_shared<job>();
            work->id = id;
            work->prompt = resolved_prompt{*storage::agent_id::parse("a")};
            for (int i = 0; i < tokens; ++i) {
                work->prompt->text += "a";
                work->prompt->tokens.push_back(words_.encode("a").front());
                work->prompt->token_ends.push_back(static_cast<std::uint32_t>(i + 1));
            }
        }
        return work;
    }
    std::unique_ptr<sequence> make(request_id id, int tokens, int choice = 0) {
        return std::make_unique<sequence>(job_of(id, tokens), choice,
                                          std::vector<storage::kv_block_parts>(), 0, pool_, words_,
                                          rules_, 1);
    }
    sequence& add(request_id id, int tokens, int choice = 0) {
        return set_.add(make(id, tokens, choice));
    }
    /// The same, its prompt computed.
    sequence& add_computed(request_id id, int tokens, int choice = 0) {
        sequence& added = add(id, tokens, choice);
        EXPECT_TRUE(added.cache().reserve(tokens));
        added.cache().advance(tokens);
        return added;
    }

    const answer_rules rules_{{}, 100'000, {}};
    std::map<request_id, job_ptr> works_;
    sequence_set set_;
};

}  // namespace semantic::engine::tests
