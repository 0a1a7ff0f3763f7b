// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/run_registry.hpp"

namespace semantic::server {

using protocol::errc;

namespace {

protocol::failure no_run(const std::string& id) {
    return fail(errc::not_found, "Run " + id + " not found");
}

/// What the run takes in RAM, in bytes.
std::size_t bytes_of(const protocol::scenarios::kept_run& run) {
    return run_own_bytes + copies_of_scenario * run.scenario.source.size() + run.request.size();
}

protocol::failure run_is_busy(const std::string& id) {
    return fail(errc::conflict, "Run " + id + " is under way");
}

}  // namespace

protocol::result<run_registry::known_run> run_registry::add(const storage::tenant_id& tenant,
                                                            kept_run made) {
    std::lock_guard lock(mutex_);
    return add_locked(tenant, std::move(made), 1);
}

protocol::result<run_registry::known_run> run_registry::add_locked(const storage::tenant_id& tenant,
                                                                   kept_run made,
                                                                   std::size_t share) {
    key run_key(tenant, made.id);
    if (runs_.contains(run_key)) return fail(errc::conflict, "Run " + made.id + " is there");
    held& all = held_[tenant];
    const std::size_t bytes = bytes_of(made);
    if (all.runs >= runs_max)
        return fail(errc::conflict, "there may be " + std::to_string(runs_max) +
                                        " runs; delete some that are over");
    if (all.bytes + bytes > share * bounds_.tenant_bytes)
        return fail(errc::conflict, "runs keep at most " + std::to_string(bounds_.tenant_bytes) +
                                        " bytes together; delete some that are over");
    if (bytes_ + bytes > share * bounds_.all_bytes)
        return fail(errc::overloaded, "the runs of all clients keep the " +
                                          std::to_string(bounds_.all_bytes) +
                                          " bytes that this server has for them");
    ++all.runs;
    all.bytes += bytes;
    bytes_ += bytes;
    auto known = std::make_shared<const kept_run>(std::move(made));
    runs_.emplace(std::move(run_key), live{known});
    return known;
}

protocol::result<void> run_registry::load(const storage::tenant_id& tenant,
                                          std::string_view record) {
    auto made = protocol::scenarios::kept_run_of(record);
    if (!made) return made.error();
    std::lock_guard lock(mutex_);
    // An earlier version counted fewer bytes for a run, so its runs may exceed the bounds by this
    // factor.
    auto added = add_locked(tenant, std::move(*made), copies_of_scenario);
    if (!added) return added.error();
    return {};
}

protocol::result<run_registry::known_run> run_registry::find(const storage::tenant_id& tenant,
                                                             const std::string& id) const {
    std::lock_guard lock(mutex_);
    const auto found = runs_.find(key(tenant, id));
    if (found == runs_.end()) return no_run(id);
    return found->second.run;
}

bool run_registry::is_driven(const storage::tenant_id& tenant, const std::string& id) const {
    std::lock_guard lock(mutex_);
    const auto found = runs_.find(key(tenant, id));
    return found != runs_.end() && found->second.stop != nullptr;
}

std::vector<run_registry::known_run> run_registry::all(const storage::tenant_id& tenant) const {
    std::lock_guard lock(mutex_);
    std::vector<known_run> found;
    for (auto each = runs_.lower_bound(key(tenant, "")); each != runs_.end(); ++each) {
        if (each->first.first != tenant) break;
        found.push_back(each->second.run);
    }
    return found;
}

protocol::result<run_registry::driven> run_registry::begin(const storage::tenant_id& tenant,
                                                           const std::string& id) {
    std::lock_guard lock(mutex_);
    const auto found = runs_.find(key(tenant, id));
    if (found == runs_.end()) return no_run(id);
    if (found->second.stop != nullptr) return run_is_busy(id);
    found->second.stop = std::make_shared<std::atomic<bool>>(false);
    return driven(*this, found->first, found->second.stop);
}

void run_registry::end(const key& run_key) {
    std::lock_guard lock(mutex_);
    if (const auto found = runs_.find(run_key); found != runs_.end()) found->second.stop = nullptr;
}

protocol::result<void> run_registry::stop(const storage::tenant_id& tenant, const std::string& id) {
    std::lock_guard lock(mutex_);
    const auto found = runs_.find(key(tenant, id));
    if (found == runs_.end()) return no_run(id);
    if (found->second.stop != nullptr) found->second.stop->store(true);
    return {};
}

void run_registry::remove(driven taken) {
    std::lock_guard lock(mutex_);
    taken.registry_ = nullptr;
    // There is one: only the holder of the right, which `taken` is, removes it.
    const auto found = runs_.find(taken.key_);
    held& all = held_[taken.key_.first];
    const std::size_t bytes = bytes_of(*found->second.run);
    --all.runs;
    all.bytes -= bytes;
    bytes_ -= bytes;
    runs_.erase(found);
}

void run_registry::keep_result(const storage::tenant_id& tenant, const std::string& id,
                               std::shared_ptr<const known_result> came) {
    std::lock_guard lock(mutex_);
    const auto found = runs_.find(key(tenant, id));
    if (found != runs_.end()) found->second.came = std::move(came);
}

std::shared_ptr<const run_registry::known_result> run_registry::result(
    const storage::tenant_id& tenant, const std::string& id) const {
    std::lock_guard lock(mutex_);
    const auto found = runs_.find(key(tenant, id));
    return found == runs_.end() ? nullptr : found->second.came;
}

}  // namespace semantic::server
