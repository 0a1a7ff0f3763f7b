// SPDX-License-Identifier: Apache-2.0
#pragma once
// The runs of scenarios of all tenants, and which of them are being driven. The progress of a run
// is kept in the sessions of its phases.
// Owner: app. Thread: any; nothing waits here.

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/scenarios/phase_opening.hpp"
#include "protocol/scenarios/run_record.hpp"
#include "protocol/wire/errc.hpp"
#include "storage/types/ids.hpp"

namespace semantic::server {

// Bounds for a tenant. A run keeps its scenario and the request that began it.
inline constexpr std::size_t runs_max = 1'000;
/// What a run takes in RAM apart from its scenario's text and its request, in bytes; and how many
/// copies of the scenario it has: the text and the parsed form.
inline constexpr std::size_t run_own_bytes = 1'024;
inline constexpr std::size_t copies_of_scenario = 2;
/// The longest request that begins a run. It contains a scenario, in which JSON may take six bytes
/// for a character.
inline constexpr std::size_t run_request_bytes_max = std::size_t{8} << 20;

/// What runs may keep in RAM.
struct run_bounds {
    std::size_t tenant_bytes = std::size_t{64} << 20;
    std::size_t all_bytes = std::size_t{128} << 20;
};

class run_registry {
  public:
    explicit run_registry(run_bounds bounds = {}) : bounds_(bounds) {}

    using kept_run = protocol::scenarios::kept_run;
    using known_run = std::shared_ptr<const kept_run>;

    /// The right to drive a run, which one client has as long as this object lives.
    class driven {
      public:
        driven(driven&& other) noexcept
            : registry_(std::exchange(other.registry_, nullptr)),
              key_(std::move(other.key_)),
              stop_(std::move(other.stop_)) {}
        driven& operator=(driven&&) = delete;
        ~driven() {
            if (registry_ != nullptr) registry_->end(key_);
        }
        /// Whether stop() was called for the run.
        bool is_stopped() const { return stop_->load(); }

      private:
        friend class run_registry;
        using key = std::pair<storage::tenant_id, std::string>;
        driven(run_registry& registry, key run_key, std::shared_ptr<std::atomic<bool>> stop)
            : registry_(&registry), key_(std::move(run_key)), stop_(std::move(stop)) {}
        run_registry* registry_;
        key key_;
        std::shared_ptr<std::atomic<bool>> stop_;
    };

    /// Adds a new run. Errors: conflict, when the tenant has runs_max, its runs would keep more
    /// than `tenant_bytes`, or the id is taken; overloaded, when the runs of all tenants would keep
    /// more than `all_bytes`.
    protocol::result<known_run> add(const storage::tenant_id& tenant, kept_run made);
    /// Adds a run from its record on disk. Errors: as kept_run_of(), add().
    protocol::result<void> load(const storage::tenant_id& tenant, std::string_view record);
    /// The run of that id. Errors: not_found.
    protocol::result<known_run> find(const storage::tenant_id& tenant, const std::string& id) const;
    /// Whether a client drives the run now.
    bool is_driven(const storage::tenant_id& tenant, const std::string& id) const;
    /// The result of a run. It is valid as long as the phases' sessions have this many lines.
    struct known_result {
        std::vector<std::size_t> lines{};  // of each phase
        protocol::scenarios::run_result came{};
    };
    /// Remembers a run's result; does nothing where the run is gone.
    void keep_result(const storage::tenant_id& tenant, const std::string& id,
                     std::shared_ptr<const known_result> came);
    /// The remembered result; null where there is none.
    std::shared_ptr<const known_result> result(const storage::tenant_id& tenant,
                                               const std::string& id) const;
    /// All runs of the tenant, by their ids.
    std::vector<known_run> all(const storage::tenant_id& tenant) const;
    /// Takes the right to drive the run. Errors: not_found; conflict, when somebody else has it.
    protocol::result<driven> begin(const storage::tenant_id& tenant, const std::string& id);
    /// Asks the request that drives the run to stop. Errors: not_found.
    protocol::result<void> stop(const storage::tenant_id& tenant, const std::string& id);
    /// Removes a run. The caller has taken it with begin() and erased its record.
    void remove(driven taken);

  private:
    using key = std::pair<storage::tenant_id, std::string>;
    struct live {
        known_run run;
        std::shared_ptr<std::atomic<bool>> stop{};  // null: nobody drives it
        std::shared_ptr<const known_result> came{};
    };
    /// What the runs of one tenant take together.
    struct held {
        std::size_t runs = 0;
        std::size_t bytes = 0;
    };

    /// add() with the lock held. `share` multiplies the bounds on bytes.
    protocol::result<known_run> add_locked(const storage::tenant_id& tenant, kept_run made,
                                           std::size_t share);
    /// Gives the right to drive the run back.
    void end(const key& run_key);

    const run_bounds bounds_;
    mutable std::mutex mutex_;
    std::size_t bytes_ = 0;                    // of all tenants; guarded by mutex_
    std::map<key, live> runs_;                 // guarded by mutex_
    std::map<storage::tenant_id, held> held_;  // guarded by mutex_
};

}  // namespace semantic::server
