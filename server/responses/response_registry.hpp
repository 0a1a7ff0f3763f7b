// SPDX-License-Identifier: Apache-2.0
#pragma once
// The responses of all tenants that can be continued or read by their id, in RAM, and
// conversations, which are kept alike. Beyond a bound on their bytes, and one on their number,
// those that were used least lately are let go of, of the tenant that has most. Owner: app. Thread:
// any; nothing waits under a lock but under lock_record()'s.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/responses/kept_response.hpp"
#include "protocol/wire/errc.hpp"
#include "server/responses/background_runs.hpp"
#include "server/runtime/task_group.hpp"
#include "storage/types/ids.hpp"

namespace semantic::server {

/// How many of each kind there may be, and what one takes in addition to its texts.
inline constexpr std::size_t responses_bytes_max = std::size_t{64} << 20;
inline constexpr std::size_t responses_max = 16'384;
inline constexpr std::size_t response_own_bytes = 512;
inline constexpr std::size_t item_own_bytes = 128;

class kept_responses {
  public:
    using kept_response = protocol::responses::kept_response;
    using kept = std::shared_ptr<const kept_response>;
    using key = std::pair<storage::tenant_id, std::string>;

    /// One that may be kept.
    struct listed {
        kept response;
        std::vector<std::string> items;  // their ids
        std::size_t bytes = 0;
    };

    explicit kept_responses(std::size_t bytes_max = responses_bytes_max,
                            std::size_t count_max = responses_max)
        : bytes_max_(bytes_max), count_max_(count_max) {}

    /// Returns: nothing where it may not be kept: one takes a quarter of the bound at most, and can
    /// be read again.
    std::optional<listed> list(kept one) const;
    /// Returns: what was let go of for it, whose records are to be removed. It is used now, and so
    /// are those that it follows.
    std::vector<key> add(const storage::tenant_id& tenant, listed one);
    /// Likewise, without a look at what it takes.
    std::vector<key> add(const storage::tenant_id& tenant, kept one);
    /// Held by the writer or remover of this response's record: the registry and the disk
    /// change in one order. Blocks, for the time of a write. One at a time may be held.
    std::unique_lock<std::mutex> lock_record(const storage::tenant_id& tenant,
                                             const std::string& id) const;
    /// Null where there is none.
    kept find(const storage::tenant_id& tenant, const std::string& id) const;
    /// The latest response that was asked or said the item of this id. Null where there is none.
    kept find_item(const storage::tenant_id& tenant, const std::string& item) const;
    /// The conversation that ends with this response, the oldest first; all of it is used now.
    /// Errors: not_found, with the vendor's code, also when one of it is not kept any more.
    protocol::result<std::vector<kept>> chain(const storage::tenant_id& tenant,
                                              const std::string& id);
    /// Returns: whether there was one.
    bool remove(const storage::tenant_id& tenant, const std::string& id);
    /// The bytes of all tenants together.
    std::size_t bytes() const;

  private:
    struct entry {
        kept response;
        std::size_t bytes = 0;
        std::uint64_t last_used = 0;
        std::vector<std::string> items{};
    };
    using entries = std::map<key, entry>;
    struct sums {
        std::size_t bytes = 0;
        std::size_t count = 0;
    };
    using sums_of_tenants = std::map<storage::tenant_id, sums>;

    /// The response and those that it follows, as far as they are there.
    std::vector<entries::iterator> followed(const storage::tenant_id& tenant, std::string id);
    void use(const std::vector<entries::iterator>& chain);
    void erase(entries::iterator position);
    entries::iterator least_lately_used(const storage::tenant_id& tenant);
    /// Lets go of one of the tenant who has most, by what `measure` says.
    key let_go(std::size_t sums::*measure);

    const std::size_t bytes_max_;
    const std::size_t count_max_;
    mutable std::array<std::mutex, 64> record_locks_;  // by a hash of the key
    mutable std::mutex mutex_;
    entries all_;                       // guarded by mutex_
    std::map<key, std::string> items_;  // the response of each; guarded by mutex_
    sums_of_tenants sums_;              // guarded by mutex_
    std::size_t total_ = 0;             // guarded by mutex_
    std::uint64_t uses_ = 0;            // guarded by mutex_
};

/// All that there is of them.
class response_registry {
  public:
    explicit response_registry(std::size_t bytes_max = responses_bytes_max,
                               const background_limits& limits = {})
        : stored(bytes_max), conversations(bytes_max), unstored(bytes_max), background(limits) {}

    kept_responses stored;         // each has a record
    kept_responses conversations;  // likewise
    kept_responses unstored;       // the latest of each WebSocket, while it is open
    background_runs background;
    task_group tasks{};  // what goes on when its client has left
};

}  // namespace semantic::server
