// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether removing files frees space on a full file system. It does not where snapshots keep
// removed files, where another program takes the space at once, or where the file system reports
// that it is full although it is not. Each save would learn that again at the price of a memory;
// this class remembers it for all saves on a directory. Pure. Owner: open_directory. Thread: not
// safe; its relief_mutex guards it.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "storage/files/file.hpp"

namespace semantic::storage {

class removal_trust {
  public:
    using clock = std::chrono::steady_clock;
    static constexpr clock::duration first_wait = std::chrono::minutes(1);
    static constexpr clock::duration longest_wait = std::chrono::hours(6);

    /// A removal after which the file system had no more room.
    struct removal {
        disk_space after;
        /// How much more room than `after` shows proves that it did give something; nothing: no
        /// figure of the file system does.
        std::optional<std::uint64_t> bytes{}, files{};
        std::uint64_t unmet_bytes = 0;  // what could not be written
    };

    /// Whether a removal may be tried at the time `at`. After one in vain: when the file system, in
    /// the state `now`, shows the room that it should have given, or after a waiting time, which
    /// doubles each time.
    bool may_help(const disk_space& now, clock::time_point at) {
        if (!doubt_) return true;
        const disk_space& then = doubt_->after;
        const bool has_bytes = doubt_->bytes && now.free_bytes >= then.free_bytes + *doubt_->bytes;
        const bool has_files = doubt_->files && now.free_files >= then.free_files + *doubt_->files;
        if (!has_bytes && !has_files) return at >= until_;
        doubt_.reset();
        return true;
    }
    /// Notes a removal that gave no room, at the time `at`.
    void note_in_vain(const removal& vain, clock::time_point at) {
        wait_ = doubt_ ? std::min(wait_ * 2, longest_wait) : first_wait;
        doubt_ = vain;
        until_ = at + wait_;
    }
    /// Notes that `bytes` were written at once. As many as could not be written before prove that
    /// the file system has room again.
    void note_written(std::uint64_t bytes) {
        if (doubt_ && bytes >= doubt_->unmet_bytes) doubt_.reset();
    }

  private:
    // The last removal in vain; none: removals are trusted. `until_` is when the next one may be
    // tried all the same, `wait_` the waiting time that leads there.
    std::optional<removal> doubt_;
    clock::time_point until_{};
    clock::duration wait_ = first_wait;
};

}  // namespace semantic::storage
