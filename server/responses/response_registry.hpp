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

/// Bounds for each kind, and what one response and one item take apart from their texts.
inline constexpr std::size_t responses_bytes_max = std::size_t{64} << 20;
inline constexpr std::size_t responses_max = 16'384;
inline constexpr std::size_t response_own_bytes = 512;
inline constexpr std::size_t item_own_bytes = 128;

class kept_responses {
  public:
    using kept_response = protocol::responses::kept_response;
    using kept = std::shared_ptr<const kept_response>;
    using key = std::pair<storage::tenant_id, std::string>;

    /// A response that may be kept, with the ids of its items.
    struct listed {
        kept response;
        std::vector<std::string> items;  // their ids
        std::size_t bytes = 0;
    };

    explicit kept_responses(std::size_t bytes_max = responses_bytes_max,
                            std::size_t count_max = responses_max)
        : bytes_max_(bytes_max), count_max_(count_max) {}

    /// Prepares a response for add(). Returns: nothing where it takes more than a quarter of the
    /// bound or cannot be parsed.
    std::optional<listed> list(kept one) const;
    /// Adds a response, or replaces the one with its id; it and those that it follows count as used
    /// now. Returns: those that were pushed out for it, whose records the caller erases.
    std::vector<key> add(const storage::tenant_id& tenant, listed one);
    /// As above, also where it takes more than list() allows.
    std::vector<key> add(const storage::tenant_id& tenant, kept one);
    /// The lock that is held while the record of this response is written or erased, so that
    /// registry and disk change in the same order. Blocks for the time of a write. A thread may
    /// hold only one.
    std::unique_lock<std::mutex> lock_record(const storage::tenant_id& tenant,
                                             const std::string& id) const;
    /// The response; null where there is none.
    kept find(const storage::tenant_id& tenant, const std::string& id) const;
    /// The latest response with the item of this id in its input or output; null where there is
    /// none.
    kept find_item(const storage::tenant_id& tenant, const std::string& item) const;
    /// The conversation that ends with this response, oldest first; all of it counts as used now.
    /// Errors: not_found, with the vendor's code, also when a part of it is no longer kept.
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

    /// The response and those that it follows, latest first, as far as they are kept.
    std::vector<entries::iterator> followed(const storage::tenant_id& tenant, std::string id);
    /// Counts these as used now, the first one last.
    void use(const std::vector<entries::iterator>& chain);
    /// Removes an entry from all indexes.
    void erase(entries::iterator position);
    /// The tenant's entry whose last use is the oldest.
    entries::iterator least_lately_used(const storage::tenant_id& tenant);
    /// Removes the least lately used entry of the tenant with the largest `measure` (bytes or
    /// count). Returns: its key.
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
