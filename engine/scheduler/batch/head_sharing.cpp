// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/batch/head_sharing.hpp"

#include <algorithm>

namespace semantic::engine {

namespace {

// So many agents' tokens are compared with a prompt's, those first whose text has most in common
// with it. More than one, because the same text may consist of other tokens.
constexpr std::size_t neighbours_max = 8;

/// Whether other agents may use the prompt's KV: a private memory has a salt of its own.
bool may_share(const resolved_prompt& prompt) {
    return prompt.private_salt == storage::block_hash{};
}

/// Tokens of the prompt that may come from a memory: all but the last, which always runs.
int shareable_tokens(const resolved_prompt& prompt) {
    return static_cast<int>(prompt.tokens.size()) - 1;
}

/// Tokens from the start that the prompts of `own` and `other` have in common and may share; 0 if
/// they may share nothing.
int count_common(const job& own, const job& other) {
    const resolved_prompt &mine = *own.prompt, &others = *other.prompt;
    if (mine.agent.tenant() != others.agent.tenant() || !may_share(mine) || !may_share(others))
        return 0;
    const int common = own.marks.count_common(mine.tokens, other.marks, others.tokens);
    return std::min(common, shareable_tokens(mine));
}

bool is_reading(const sequence& run) {
    const sequence_view view = run.view();
    return !view.decoding && view.pending > 0;
}

/// The request as policy/shared_heads sees it. `run`: its sequence; null if it has none yet.
head_reader reader_of(const job& work, const sequence* run) {
    if (run == nullptr) return {work.id, 0, work.prompt->reuse_tokens};
    return {work.id, run->choice(), run->view().position};
}

}  // namespace

void head_sharing::plan() {
    make_plan();
    count_waits();
}

// Measures how long requests wait for shared heads: from the first plan in which one waits to the
// first in which it does not.
void head_sharing::count_waits() {
    const auto now = std::chrono::steady_clock::now();
    std::map<request_id, std::chrono::steady_clock::time_point> waits;
    const auto add = [&](request_id id) {
        const auto before = waits_.find(id);
        waits.emplace(id, before == waits_.end() ? now : before->second);
    };
    for (const auto& [work, head] : plan_.jobs) add(work->id);
    for (const sequence* run : plan_.runs) add(run->work().id);
    for (const auto& [id, since] : waits_)
        if (!waits.contains(id))
            probe_.head_wait.observe(std::chrono::duration<double>(now - since).count());
    waits_ = std::move(waits);
    probe_.head_waiting.store(static_cast<std::int64_t>(waits_.size()), std::memory_order_relaxed);
}

// A sequence that waits keeps its slot and runs no chunk; a waiting request gets no slot.
void head_sharing::make_plan() {
    plan_ = {};
    std::vector<holder> holders;
    std::vector<head_reader> readers;
    const auto add = [&](const job& work, const sequence* run) {
        holders.push_back({&work, run});
        readers.push_back(reader_of(work, run));
    };
    for (const auto& run : sequences_.running())
        if (!sequences_.has_ended(*run) && is_reading(*run)) add(run->work(), run.get());
    for (const job_ptr& work : starts_.restoring()) add(*work, nullptr);
    const auto waits = [&](const job& work, const sequence* run) {
        const auto common = [&](std::size_t i) { return count_common(work, *holders[i].work); };
        const auto found = find_head_wait(reader_of(work, run), readers, common);
        if (found && holders[found->reader].run != nullptr)
            plan_.ends[holders[found->reader].run].push_back(found->end);
        return found;
    };
    if (holders.empty()) return;
    for (const holder& each : holders)
        if (each.run != nullptr && waits(*each.work, each.run)) plan_.runs.insert(each.run);
    for (const job_ptr& work : waiting_.jobs())
        if (const auto found = waits(*work, nullptr))
            plan_.jobs[work.get()] = {readers[found->reader].position, found->end};
}

std::optional<head_plan::awaited_head> head_plan::find(const job& work) const {
    const auto found = jobs.find(&work);
    return found == jobs.end() ? std::nullopt : std::optional(found->second);
}

std::span<const int> head_plan::ends_of(const sequence& run) const {
    const auto found = ends.find(&run);
    return found == ends.end() ? std::span<const int>() : found->second;
}

void head_sharing::publish_read(sequence& run) {
    const int position = run.view().position;
    const auto is_new = [&](int end) { return end <= position && end > run.published; };
    if (std::ranges::any_of(plan_.ends_of(run), is_new)) deliver_.publish_read(run);
}

// Publishes the memories of running sequences that have at least head_tokens_min more tokens of the
// request's prompt than the `known` ones.
void head_sharing::publish_for(const job& work, int known) {
    for (const auto& run : sequences_.running()) {
        const int there = std::min(count_common(work, run->work()), run->view().position);
        if (there - known >= head_tokens_min && run->published < there) deliver_.publish_read(*run);
    }
}

head_sharing::remembered head_sharing::find_longest(const resolved_prompt& prompt) const {
    remembered best;
    const std::size_t most = prompt.tokens.size() - 1;
    std::size_t bytes = 0;  // that the best one's tokens spell
    for (storage::prefix_neighbour& other :
         store_.closest(prompt.agent.tenant(), prompt.text, neighbours_max)) {
        // The neighbours come in falling order of common bytes, so no later one is longer.
        if (other.common_bytes <= bytes) break;
        const auto& tokens = other.state->tokens;
        const auto parting = std::ranges::mismatch(tokens, prompt.tokens).in1;
        const auto common = std::min(most, static_cast<std::size_t>(parting - tokens.begin()));
        if (static_cast<int>(common) <= best.tokens) continue;
        bytes = other.state->token_ends[common - 1];
        best = {std::move(other.state), static_cast<int>(common)};
    }
    return best;
}

void head_sharing::look_again(job& work) {
    resolved_prompt& prompt = *work.prompt;
    if (!may_share(prompt) || shareable_tokens(prompt) - prompt.reuse_tokens < head_tokens_min)
        return;
    publish_for(work, prompt.reuse_tokens);
    if (work.looked_at == deliver_.publications()) return;
    work.looked_at = deliver_.publications();
    const remembered found = find_longest(prompt);
    // If its files cannot be pinned the request keeps the source that it has.
    if (found.tokens - prompt.reuse_tokens >= head_tokens_min) take_source(work, found);
}

// Makes a memory the request's source, and pins its files until they are read. The pin on the files
// of the former source is released later, because that may delete files, which may block. Returns:
// false if the memory's files could not be pinned; then nothing has changed.
bool head_sharing::take_source(job& work, const remembered& found) {
    auto files = store_.keep_files(*found.state, found.tokens);
    if (!files) return false;
    if (work.files) work.outdated_files.push_back(std::move(work.files));
    work.files = std::make_shared<storage::agent_cache_store::kept_files>(std::move(*files));
    work.pins.push_back(store_.hold(found.state->id));
    resolved_prompt& prompt = *work.prompt;
    const bool is_all = static_cast<int>(found.state->tokens.size()) == found.tokens;
    prompt.match = is_all ? match_kind::extend : match_kind::diverge;
    prompt.reuse_tokens = found.tokens;
    prompt.source = found.state;
    return true;
}

bool head_sharing::look_again(sequence& run) {
    const resolved_prompt& prompt = *run.work().prompt;
    const int known = run.view().position;
    if (!may_share(prompt) || shareable_tokens(prompt) - known < head_tokens_min) return false;
    if (run.looked_at == deliver_.publications()) return false;
    run.looked_at = deliver_.publications();
    const remembered found = find_longest(prompt);
    if (found.tokens - known < head_tokens_min) return false;
    auto there = store_.restore_hot(*found.state, found.tokens);
    // With recurrent states the memory may end earlier, at its last kept state.
    if (!there || there->tokens - known < head_tokens_min) return false;
    run.go_on_from(std::move(*there), found.state->states);
    return true;
}

void head_sharing::look_again() {
    // A sequence that runs alone shares a head with no other one.
    if (sequences_.running().size() < 2) return;
    for (const auto& run : sequences_.running())
        if (is_reading(*run) && !sequences_.is_early(*run)) look_again(*run);
}

}  // namespace semantic::engine
