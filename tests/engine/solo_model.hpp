// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an answer is compared with: the model alone. Token ids in, the tokens that it draws after
// them out; no agent, no memory, no batch. Token ids and not text, because a memory holds what was
// sampled, and that need not be what tokenising its text gives.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/kernels/kernels.hpp"
#include "engine/model/compute_arena.hpp"
#include "engine/model/config/model_config.hpp"
#include "engine/model/sampler.hpp"
#include "engine/model/transformer.hpp"
#include "tests/support/bytes.hpp"

namespace semantic::tests {

class solo_model {
  public:
    /// Of `options` counts what shapes KV and logits. Nothing longer than `tokens_max` is asked.
    solo_model(const engine::engine_options& options, int tokens_max)
        : config_(taken(engine::model_config::load(options.model_directory))),
          tokens_max_(tokens_max),
          arena_(options.compute_threads) {
        storage::kv_recipe recipe = storage::find_kv_recipe(options.kv_recipe).value();
        recipe.group_size = options.kv_group_size;
        const storage::kv_layout layout =
            engine::make_kv_layout(config_, recipe, options.block_tokens);
        pool_ = std::make_unique<storage::block_pool>(
            layout, layout.frames_for(tokens_max, tokens_max) * layout.frame_bytes());
        arena_.run([&] {
            model_ = taken(engine::transformer::load(
                options.model_directory, config_, layout, *engine::find_kernels(options.kernels),
                {tokens_max, tokens_max}, *engine::find_weight_form(options.weights),
                [](double, const auto&) {}));
        });
    }

    /// A pool that just holds a conversation of `tokens_max` tokens.
    std::size_t pool_bytes() const {
        return pool_->layout().frames_for(tokens_max_, 64) * pool_->layout().frame_bytes();
    }

    /// Returns: [answer.size()] the token that is drawn after `prompt` and the part of `answer`
    /// before it. Equal to `answer` when that is what the model says. Requires: a seed, unless
    /// greedy.
    std::vector<storage::token_id> drawn(std::vector<storage::token_id> prompt,
                                         std::span<const storage::token_id> answer,
                                         const engine::sampling_params& sampling) {
        const std::size_t prompt_size = prompt.size();
        engine::sampler sampler(sampling.or_else(config_.sampling),
                                engine::seed_of_choice(sampling.seed.value_or(0), 0),
                                config_.vocabulary, prompt);
        if (answer.empty()) return {};
        prompt.insert(prompt.end(), answer.begin(), answer.end() - 1);
        const int total = static_cast<int>(prompt.size());
        storage::kv_sequence cache(*pool_, {}, 0);
        if (total > tokens_max_ || !cache.reserve(total))
            throw std::runtime_error("the solo model was made for fewer tokens");
        std::vector<int> wanted;
        for (int i = static_cast<int>(prompt_size) - 1; i < total; ++i) wanted.push_back(i);
        const auto vocabulary = static_cast<std::size_t>(config_.vocabulary);
        std::vector<float> logits(wanted.size() * vocabulary);
        engine::sequence_step step{prompt, &cache, wanted, logits.data()};
        arena_.run([&] { model_->forward({&step, 1}); });
        std::vector<storage::token_id> tokens;
        for (std::size_t i = 0; i < answer.size(); ++i) {
            tokens.push_back(sampler.sample(std::span(logits).subspan(i * vocabulary, vocabulary),
                                            prompt_size + i));
            sampler.take(answer[i]);
        }
        return tokens;
    }

  private:
    template <class T>
    static T taken(storage::result<T> from) {
        if (!from) throw std::runtime_error(from.error().what);
        return std::move(*from);
    }

    engine::model_config config_;
    int tokens_max_;
    engine::compute_arena arena_;
    std::unique_ptr<storage::block_pool> pool_;
    std::unique_ptr<engine::transformer> model_;
};

/// Returns: the token ids of an agent's memory as its export has them; none when there is no such
/// agent.
inline std::vector<storage::token_id> memory_of(engine::engine& runner,
                                                const storage::agent_id& agent) {
    std::string file;
    auto written = runner.export_agent(agent, appending_to(file));
    if (!written) {
        ADD_FAILURE() << agent.str() << ": " << written.error().what;
        return {};
    }
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
    const auto header = boost::json::parse(
        std::string_view(file).substr(sizeof header_bytes, static_cast<std::size_t>(header_bytes)));
    const std::string ids(header.at("__metadata__").at("token_ids").as_string());
    std::vector<storage::token_id> tokens;
    for (std::size_t at = 0; at < ids.size(); ++at) {
        tokens.push_back(std::stoi(ids.substr(at)));
        at = std::min(ids.find(',', at), ids.size());
    }
    return tokens;
}

}  // namespace semantic::tests
