// SPDX-License-Identifier: Apache-2.0
#include "server/responses/response_registry.hpp"

#include <algorithm>
#include <functional>

namespace semantic::server {

namespace {

using protocol::responses::item_ids;

/// What the response takes in RAM, in bytes. `items`: the ids of its items.
std::size_t bytes_of(const protocol::responses::kept_response& one,
                     const std::vector<std::string>& items) {
    // The id is in the key, too, and ids of items are in two indexes.
    std::size_t bytes = response_own_bytes + 2 * one.id.size() + one.previous.size() +
                        one.input.size() + one.body.size();
    for (const std::string& each : items) bytes += item_own_bytes + 2 * each.size();
    return bytes;
}

}  // namespace

std::optional<kept_responses::listed> kept_responses::list(kept one) const {
    auto items = item_ids(*one);
    if (!items) return std::nullopt;
    const std::size_t bytes = bytes_of(*one, *items);
    if (bytes > bytes_max_ / 4) return std::nullopt;
    return listed{std::move(one), std::move(*items), bytes};
}

std::unique_lock<std::mutex> kept_responses::lock_record(const storage::tenant_id& tenant,
                                                         const std::string& id) const {
    const std::size_t hash =
        std::hash<std::string>()(id) ^ std::hash<storage::block_hash>()(tenant.salt);
    return std::unique_lock(record_locks_[hash % record_locks_.size()]);
}

std::vector<kept_responses::entries::iterator> kept_responses::followed(
    const storage::tenant_id& tenant, std::string id) {
    std::vector<entries::iterator> chain;
    // A response can only follow an earlier one, so the chain ends. The bound is for damaged
    // records.
    while (!id.empty() && chain.size() < all_.size()) {
        const auto found = all_.find(key(tenant, id));
        if (found == all_.end()) break;
        chain.push_back(found);
        id = found->second.response->previous;
    }
    return chain;
}

void kept_responses::use(const std::vector<entries::iterator>& chain) {
    // The first of the chain gets the latest time, because most clients continue the latest
    // response.
    for (auto each = chain.rbegin(); each != chain.rend(); ++each)
        (*each)->second.last_used = ++uses_;
}

void kept_responses::erase(entries::iterator position) {
    total_ -= position->second.bytes;
    const auto tenant = sums_.find(position->first.first);
    tenant->second.bytes -= position->second.bytes;
    --tenant->second.count;
    for (const std::string& each : position->second.items) {
        const auto item = items_.find(key(position->first.first, each));
        if (item != items_.end() && item->second == position->first.second) items_.erase(item);
    }
    if (tenant->second.count == 0) sums_.erase(tenant);
    all_.erase(position);
}

kept_responses::entries::iterator kept_responses::least_lately_used(
    const storage::tenant_id& tenant) {
    auto least = all_.lower_bound(key(tenant, ""));
    for (auto each = least; each != all_.end() && each->first.first == tenant; ++each)
        if (each->second.last_used < least->second.last_used) least = each;
    return least;
}

kept_responses::key kept_responses::let_go(std::size_t sums::*measure) {
    const auto most = std::max_element(
        sums_.begin(), sums_.end(),
        [measure](const auto& a, const auto& b) { return a.second.*measure < b.second.*measure; });
    const auto least = least_lately_used(most->first);
    key gone = least->first;
    erase(least);
    return gone;
}

std::vector<kept_responses::key> kept_responses::add(const storage::tenant_id& tenant, kept one) {
    std::vector<std::string> items;
    if (auto found = item_ids(*one)) items = std::move(*found);
    const std::size_t bytes = bytes_of(*one, items);
    return add(tenant, listed{std::move(one), std::move(items), bytes});
}

std::vector<kept_responses::key> kept_responses::add(const storage::tenant_id& tenant, listed one) {
    std::lock_guard lock(mutex_);
    const key name(tenant, one.response->id);
    if (auto former = all_.find(name); former != all_.end()) erase(former);
    total_ += one.bytes;
    sums_[tenant].bytes += one.bytes;
    ++sums_[tenant].count;
    for (const std::string& each : one.items) items_[key(tenant, each)] = name.second;
    all_[name] = {std::move(one.response), one.bytes, 0, std::move(one.items)};
    use(followed(tenant, name.second));
    std::vector<key> gone;
    while (total_ > bytes_max_) gone.push_back(let_go(&sums::bytes));
    while (all_.size() > count_max_) gone.push_back(let_go(&sums::count));
    return gone;
}

kept_responses::kept kept_responses::find(const storage::tenant_id& tenant,
                                          const std::string& id) const {
    std::lock_guard lock(mutex_);
    const auto found = all_.find(key(tenant, id));
    return found == all_.end() ? nullptr : found->second.response;
}

kept_responses::kept kept_responses::find_item(const storage::tenant_id& tenant,
                                               const std::string& item) const {
    std::lock_guard lock(mutex_);
    const auto owner = items_.find(key(tenant, item));
    if (owner == items_.end()) return nullptr;
    const auto found = all_.find(key(tenant, owner->second));
    return found == all_.end() ? nullptr : found->second.response;
}

protocol::result<std::vector<kept_responses::kept>> kept_responses::chain(
    const storage::tenant_id& tenant, const std::string& id) {
    std::lock_guard lock(mutex_);
    const auto found = followed(tenant, id);
    if (found.empty()) return protocol::responses::previous_not_found(id);
    const std::string& missing = found.back()->second.response->previous;
    if (!missing.empty()) return protocol::responses::previous_not_found(missing);
    use(found);
    std::vector<kept> chain;
    for (auto each = found.rbegin(); each != found.rend(); ++each)
        chain.push_back((*each)->second.response);
    return chain;
}

bool kept_responses::remove(const storage::tenant_id& tenant, const std::string& id) {
    std::lock_guard lock(mutex_);
    const auto found = all_.find(key(tenant, id));
    if (found == all_.end()) return false;
    erase(found);
    return true;
}

std::size_t kept_responses::bytes() const {
    std::lock_guard lock(mutex_);
    return total_;
}

}  // namespace semantic::server
