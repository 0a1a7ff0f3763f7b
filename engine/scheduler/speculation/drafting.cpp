// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/speculation/drafting.hpp"

#include <algorithm>
#include <utility>

#include "engine/scheduler/speculation/repeat_drafts.hpp"

namespace semantic::engine {

namespace {

// The number of tokens of a guess that are expected to be right.
double expected_tokens(const draft_guess& guess) {
    double chance = 1, sum = 0;
    for (std::size_t i = 0; i < guess.tokens.size(); ++i) {
        chance *= guess.chance;
        sum += chance;
    }
    return sum;
}

}  // namespace

drafting::drafting(std::size_t tokens_expected, std::unique_ptr<form_drafts> form)
    : sources_{std::make_unique<repeat_drafts>(tokens_expected), nullptr}, form_(form.get()) {
    sources_[static_cast<std::size_t>(draft_origin::form)] = std::move(form);
}

void drafting::catch_up(std::span<const storage::token_id> tokens) {
    for (const auto& source : sources_)
        if (source != nullptr) source->catch_up(tokens);
}

draft_view drafting::look(std::span<const storage::token_id> tokens, int most) {
    catch_up(tokens);
    std::array<draft_guess, draft_origin_count> guesses;
    for (std::size_t i = 0; i < guesses.size(); ++i) {
        if (sources_[i] == nullptr) continue;
        guesses[i] = sources_[i]->guess(tokens, most);
        if (form_ != nullptr && form_ != sources_[i].get())
            guesses[i].tokens.resize(form_->count_allowed(guesses[i].tokens));
    }
    std::size_t chosen = 0;
    for (std::size_t i = 1; i < guesses.size(); ++i)
        if (expected_tokens(guesses[i]) > expected_tokens(guesses[chosen])) chosen = i;
    origin_ = static_cast<draft_origin>(chosen);
    draft_ = std::move(guesses[chosen].tokens);
    return {static_cast<int>(draft_.size()), draft_.empty() ? 0 : guesses[chosen].chance};
}

void drafting::begin(storage::token_id latest, int count) {
    running_.assign(1, latest);
    running_.insert(running_.end(), draft_.begin(), draft_.begin() + count);
    taken_ = 0;
}

bool drafting::take(storage::token_id drawn) {
    const auto next = static_cast<std::size_t>(taken_) + 1;
    if (next >= running_.size() || running_[next] != drawn) return false;
    ++taken_;
    return true;
}

drafting::outcome drafting::end() {
    const int run = running_.empty() ? 0 : static_cast<int>(running_.size()) - 1;
    const draft_count count{run, std::exchange(taken_, 0)};
    running_.clear();
    draft_.clear();
    for (std::size_t i = 0; i < sources_.size(); ++i) {
        if (sources_[i] == nullptr) continue;
        // The source whose guess was not chosen learns that none of it ran.
        const bool is_chosen = static_cast<draft_origin>(i) == origin_;
        sources_[i]->learn(is_chosen ? count.drafted : 0, is_chosen ? count.taken : 0);
    }
    usage_.add(origin_, count);
    return {origin_, count};
}

draft_usage drafting::usage() const {
    draft_usage all = usage_;
    const int run = running_.empty() ? 0 : static_cast<int>(running_.size()) - 1;
    all.add(origin_, {run, taken_});
    return all;
}

std::size_t drafting::memory_bytes() const noexcept {
    std::size_t bytes = 0;
    for (const auto& source : sources_)
        if (source != nullptr) bytes += source->memory_bytes();
    return bytes;
}

}  // namespace semantic::engine
