// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/save_gate.hpp"

#include <algorithm>

namespace semantic::engine {

save_gate::save_gate(receiver& ends) : ends_(ends), watcher_([this] { watch(); }) {}

save_gate::~save_gate() {
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_one();
    watcher_.join();
    // `saved` is false until end_save() sets it.
    for (auto& [id, entry] : held_) ends_.deliver_end(entry.work, std::move(entry.last));
}

void save_gate::hold(job_ptr work, finished last, std::chrono::steady_clock::time_point until) {
    last.unsaved = unsaved_reason::late;  // unless end_save() comes before `until`
    {
        std::lock_guard lock(mutex_);
        request_id id = work->id;
        if (is_patient_) {
            held_.insert_or_assign(id, held{std::move(work), std::move(last), until});
            changed_.notify_one();
            return;
        }
    }
    ends_.deliver_end(work, std::move(last));
}

void save_gate::set_patient(bool is_patient) {
    std::map<request_id, held> released;
    {
        std::lock_guard lock(mutex_);
        is_patient_ = is_patient;
        if (!is_patient) released.swap(held_);
    }
    for (auto& [id, entry] : released) ends_.deliver_end(entry.work, std::move(entry.last));
}

void save_gate::end_save(request_id id, const outcome& result) {
    std::optional<held> entry;
    {
        std::lock_guard lock(mutex_);
        auto found = held_.find(id);
        if (found == held_.end()) return;
        entry = std::move(found->second);
        held_.erase(found);
    }
    // Delivered after the lock is released, as everywhere here.
    entry->last.saved = result.unsaved == unsaved_reason::none;
    entry->last.unsaved = result.unsaved;
    entry->last.written = result.written;
    ends_.deliver_end(entry->work, std::move(entry->last));
}

void save_gate::watch() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        auto first = std::min_element(held_.begin(), held_.end(), [](const auto& a, const auto& b) {
            return a.second.until < b.second.until;
        });
        if (first == held_.end()) {
            changed_.wait(lock);
            continue;
        }
        if (std::chrono::steady_clock::now() < first->second.until) {
            // A copy: the entry may be gone while this thread sleeps.
            auto until = first->second.until;
            changed_.wait_until(lock, until);
            continue;
        }
        held entry = std::move(first->second);
        held_.erase(first);
        lock.unlock();
        ends_.deliver_end(entry.work, std::move(entry.last));
        lock.lock();
    }
}

}  // namespace semantic::engine
