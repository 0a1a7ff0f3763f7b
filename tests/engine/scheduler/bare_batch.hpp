// SPDX-License-Identifier: Apache-2.0
#pragma once
// A batch step by step, without graph, threads or timing: the test chooses which requests run
// together and which calls fail.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/compute_arena.hpp"
#include "engine/scheduler/batch/batch.hpp"
#include "engine/scheduler/policy/draft_plan.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine::tests {

inline const std::string model_folder =
    std::string(SEMANTIC_SOURCE_DIR) + "/etc/models/semantic-tiny";

struct run_options {
    int threads = 1;
    int max_batch = 16;
    chunk_policy chunks;
    int pool_tokens = 32 * 1024;
    storage::kv_recipe recipe{4, 64};
    draft_rule drafts = draft_rule::never;
    std::string model = model_folder;
    std::shared_ptr<storage::pool_budget> shared{};  // with other pools, in place of pool_tokens
};

/// A batch on the embedded model, and what came out of it for every request.
class bare_batch : public batch_outputs, public storage::room_listener {
  public:
    explicit bare_batch(run_options options)
        : config_(*model_config::load(options.model)),
          words_(*tokenizer::load(options.model)),
          arena_(options.threads),
          pool_(make_kv_layout(config_, options.recipe, 256),
                options.shared ? options.shared
                               : std::make_shared<storage::pool_budget>(pool_bytes(options))),
          store_(open()) {
        arena_.run([&] {
            const int logit_rows = logit_rows_max(options.max_batch, options.drafts);
            transformer_limits limits{options.chunks.max_tokens + logit_rows, logit_rows, false,
                                      draft_rows_max(options.drafts)};
            model_ = std::move(*transformer::load(options.model, config_, pool_.layout(),
                                                  *find_kernels("auto"), limits,
                                                  weight_form::native, {}));
        });
        batch_options made;
        made.chunks = options.chunks;
        made.max_batch = options.max_batch;
        made.drafts = options.drafts;
        made.vocabulary = config_.vocabulary;
        made.answers = {config_.eos_tokens, config_.context_tokens_max, {}};
        batch_.emplace(*model_, words_, pool_, *store_, made, probe_, *this);
    }

    job_ptr add(request_id id, const std::string& prompt, generation_request request) {
        resolved_prompt resolved{agent_of(id).owned_by(request.tenant), prompt};
        resolved.tokens = words_.encode(prompt, resolved.token_ends);
        return add(id, std::move(resolved), std::move(request));
    }
    /// Asks once more, appended to the memory of the agent of request `before`.
    job_ptr go_on_from(request_id before, request_id id, generation_request request) {
        resolved_prompt resolved{agent_of(before)};
        resolved.source = store_->find(resolved.agent);
        resolved.text = resolved.source->text + "!";
        resolved.tokens = resolved.source->tokens;
        resolved.token_ends = resolved.source->token_ends;
        resolved.reuse_tokens = static_cast<int>(resolved.tokens.size());
        resolved.tokens.push_back(words_.encode("!").front());
        resolved.token_ends.push_back(static_cast<std::uint32_t>(resolved.text.size()));
        return add(id, std::move(resolved), std::move(request));
    }
    /// Returns: whether another step can make progress.
    bool step() {
        bool more = false;
        arena_.run([&] { more = batch_->run_step(); });
        return more;
    }
    void run_all() {
        while (step()) {
        }
    }
    int prompt_tokens(const std::string& prompt) const {
        return static_cast<int>(words_.encode(prompt).size());
    }

    /// Has the agent of request `before` on disk only.
    void evict(request_id before) { EXPECT_TRUE(store_->evict(agent_of(before))); }
    /// What a request that waits for its prefix starts from, all of it.
    storage::restored_prefix read_prefix(const job& work) {
        return *store_->restore(*work.prompt->source, work.prompt->reuse_tokens);
    }
    void arriving(const job_ptr& work, storage::restored_prefix begun) {
        batch_->arriving(work, std::move(begun));
    }
    void restored(const job_ptr& work, storage::restored_prefix found) {
        batch_->restored(work, std::move(found));
    }
    storage::block_pool& pool() { return pool_; }
    storage::tenant_id tenant(const std::string& credential) const {
        return store_->tenant(credential);
    }
    /// Called when another pool has left something free that this batch waits for.
    void listen_for_room(int& notices) {
        room_notices_ = &notices;
        pool_.budget().set_listener(pool_, this);
    }
    int layers() const { return pool_.layout().layer_count(); }
    std::shared_ptr<const storage::agent_state> memory_of(request_id id) const {
        return store_->find(agent_of(id));
    }
    int remembered(request_id id) { return store_->inspect(agent_of(id))->tokens; }

    std::vector<job_ptr> restoring;  // whose prefix is to be read
    bool inbound = false;
    /// Called before an event is kept; may throw.
    std::function<void(const job&, const generation_event&)> on_emit;
    std::map<request_id, std::map<int, std::vector<token_id>>> tokens;  // by choice
    std::map<request_id, prompt_usage> usages;
    std::map<request_id, queued> waits;  // notices to requests that could not begin
    std::map<request_id, finished> finishes;
    std::map<request_id, failed> failures;
    std::map<request_id, int> ends;
    int saves = 0;  // of whole memories: one at each end, and one of each answer that gives way
    engine_probe probe_;

    /// Once nothing is remembered any more.
    std::size_t frames_held() {
        for (const auto& agent : store_->list()) EXPECT_TRUE(store_->erase(agent.id));
        return pool_.held_count();
    }

  private:
    void emit_event(const job_ptr& work, generation_event event) override {
        if (on_emit) on_emit(*work, event);
        keep(work->id, event);
    }
    void commit_end(ended_request ended) override {
        if (ended.remembered)
            save_agent(ended.work->prompt->agent, storage::save_extent::everything);
        ++ends[ended.work->id];
        keep(ended.work->id, ended.last);
        // A test may keep the job for longer than the store lives.
        ended.work->pins.clear();
        ended.work->files.reset();
        ended.work->outdated_files.clear();
    }
    void save_agent(const storage::agent_id& agent, storage::save_extent extent) override {
        if (extent == storage::save_extent::everything) ++saves;
        EXPECT_TRUE(store_->save(agent, extent));
    }
    bool are_blocks_held() const override { return false; }
    void restore_prefix(const job_ptr& work) override { restoring.push_back(work); }
    bool are_requests_arriving() const override { return inbound; }
    void announce_wait(const job_ptr& work, queued place) override { waits[work->id] = place; }
    void notice_room() override { ++*room_notices_; }

    static storage::agent_id agent_of(request_id id) {
        return *storage::agent_id::parse("a" + std::to_string(id));
    }
    job_ptr add(request_id id, resolved_prompt resolved, generation_request request) {
        auto work = std::make_shared<job>();
        work->id = id;
        work->request = std::move(request);
        work->prompt = std::move(resolved);
        batch_->add(work);
        return work;
    }
    /// What the longest conversation of pool_tokens takes.
    std::size_t pool_bytes(const run_options& options) const {
        const auto layout = make_kv_layout(config_, options.recipe, 256);
        return layout.frames_for(options.pool_tokens, 1) * layout.frame_bytes();
    }
    std::unique_ptr<storage::agent_cache_store> open() {
        storage::store_options options;
        options.directory = dir_.path();
        return std::move(*storage::agent_cache_store::open(options, pool_));
    }
    void keep(request_id id, const generation_event& event) {
        if (auto* begin = std::get_if<admitted>(&event)) usages[id] = begin->usage;
        if (auto* token = std::get_if<token_text>(&event))
            tokens[id][token->choice].push_back(token->token);
        if (auto* end = std::get_if<finished>(&event)) finishes[id] = *end;
        if (auto* end = std::get_if<failed>(&event)) failures[id] = *end;
    }

    semantic::tests::temp_dir dir_;
    model_config config_;
    tokenizer words_;
    compute_arena arena_;
    storage::block_pool pool_;
    std::unique_ptr<storage::agent_cache_store> store_;
    std::unique_ptr<transformer> model_;
    std::optional<batch> batch_;
    int* room_notices_ = nullptr;
};

inline std::string turn(const std::string& text) {
    return "<|im_start|>user\n" + text + "<|im_end|>\n<|im_start|>assistant\n";
}

inline std::string notes(int sentences, int variant = 0) {
    std::string text;
    for (int i = 0; i < sentences; ++i)
        text += "On day " + std::to_string(i + variant) + " the gardener moved " +
                std::to_string(i * (7 + variant) % 100) + " pots to the north wall. ";
    return text;
}

/// Never ends by itself before `max_tokens`.
inline generation_request endless(int max_tokens, std::uint64_t seed, float temperature = 1.0f) {
    generation_request request;
    request.max_tokens = max_tokens;
    request.sampling.temperature = temperature;
    request.sampling.seed = seed;
    for (token_id special = 0; special < 4; ++special)
        request.sampling.biases.push_back({special, -100.0f});
    return request;
}

// What a request gives when nothing else runs.
inline std::map<int, std::vector<token_id>> alone(bare_batch& solo, const std::string& prompt,
                                                  const generation_request& request) {
    request_id id = solo.ends.size() + 1;
    solo.add(id, prompt, request);
    solo.run_all();
    EXPECT_TRUE(solo.finishes.contains(id));
    return solo.tokens[id];
}

}  // namespace semantic::engine::tests
