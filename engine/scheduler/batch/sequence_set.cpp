// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/batch/sequence_set.hpp"

#include <algorithm>
#include <utility>

namespace semantic::engine {

namespace {

using sequences = std::vector<std::unique_ptr<sequence>>;

// Orders sequences by the arrival of their requests, and within a request by choice.
bool is_older(const sequence& a, const sequence& b) {
    return std::pair(a.work().id, a.choice()) < std::pair(b.work().id, b.choice());
}

bool older(const std::unique_ptr<sequence>& a, const std::unique_ptr<sequence>& b) {
    return is_older(*a, *b);
}

void move_between(sequences& from, sequences& to, const sequence& run) {
    auto found = std::ranges::find(from, &run, &std::unique_ptr<sequence>::get);
    to.push_back(std::move(*found));
    from.erase(found);
}

}  // namespace

bool sequence_set::runs(const job_ptr& work) const {
    return std::ranges::any_of(running_, [&](const auto& run) { return run->work_ptr() == work; });
}

sequence& sequence_set::add(std::unique_ptr<sequence> run) {
    running_.push_back(std::move(run));
    return *running_.back();
}

void sequence_set::add_early(std::unique_ptr<sequence> run,
                             std::shared_ptr<storage::prefix_arrival> prefix) {
    early_.emplace(add(std::move(run)), std::move(prefix));
}

job_ptr sequence_set::revoke_early() {
    job_ptr work = early_->work();
    running_.erase(std::ranges::find(running_, &early_->run(), &std::unique_ptr<sequence>::get));
    early_.reset();
    return work;
}

sequence& sequence_set::youngest_running() const {
    return **std::ranges::max_element(running_, older);
}

void sequence_set::preempt(sequence& run) {
    run.give_back_blocks();
    move_between(running_, preempted_, run);
}

sequence& sequence_set::oldest_preempted() const {
    sequence* oldest = nullptr;
    for (const auto& run : preempted_)
        if (!run->returns && (oldest == nullptr || is_older(*run, *oldest))) oldest = run.get();
    return *oldest;
}

sequence* sequence_set::find_returning(const job_ptr& work) const {
    for (const auto& run : preempted_)
        if (run->returns && run->work_ptr() == work && !has_ended(*run)) return run.get();
    return nullptr;
}

std::size_t sequence_set::count_returning() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(preempted_, [](const auto& run) { return run->returns; }));
}

void sequence_set::resume(sequence& run) { move_between(preempted_, running_, run); }

void sequence_set::end(const sequence& run) {
    if (is_early(run)) early_.reset();
    ended_.insert(&run);
}

void sequence_set::remove_ended() {
    if (ended_.empty()) return;
    for (auto* some : {&running_, &preempted_})
        std::erase_if(*some, [&](const auto& run) { return ended_.contains(run.get()); });
    ended_.clear();
}

}  // namespace semantic::engine
