// SPDX-License-Identifier: Apache-2.0
#pragma once
// A hint in Redis: the blocks that nodes have lately put in an object store. Where a block is not
// in the hint, it is uploaded without asking the object store first, on the condition that it is
// absent. A wrong answer costs a request or an upload in vain, never a block. Kept in a set a day,
// each for two days. Owner: its opener. Thread: any; calls wait for each other.

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "storage/objects/redis/redis_link.hpp"

namespace semantic::storage {

class uploaded_blocks {
  public:
    /// `today`: days since 1970; empty: the machine's clock, which need not be right.
    uploaded_blocks(redis_address address, std::chrono::milliseconds patience,
                    std::function<long long()> today = {});

    /// Blocks, for at most twice the patience. Returns: for each name whether a node has put it
    /// lately; nothing where Redis does not answer, which is then not asked for a while.
    std::optional<std::vector<bool>> look(const std::vector<std::string>& names);
    /// Blocks likewise. Notes that these blocks are in the object store now.
    void note(const std::vector<std::string>& names);

  private:
    std::optional<redis_reply> call(std::vector<std::string> words);
    std::string key(long long day) const;

    redis_link link_;
    const std::function<long long()> today_;
    std::mutex mutex_;  // guards silent_until_
    std::chrono::steady_clock::time_point silent_until_{};
};

}  // namespace semantic::storage
