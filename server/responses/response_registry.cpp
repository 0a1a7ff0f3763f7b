#include "server/responses/response_registry.hpp"

#include <algorithm>

namespace semantic::server {

namespace {

using protocol::responses::item_ids;

std::size_t bytes_of(const protocol::responses::kept_response& one,
                     const std::vector<std::string>& items) {
    // Its id stands in the key too, and those of its items in two places.
    std::size_t bytes = response_own_bytes + 2 * one.id.size() + one.previous.size() +
                        one.input.size() + one.body.size();
    for (const std::string& each : items) bytes += item_own_bytes + 2 * each.size();
    return bytes;
}

}  // namespace

bool kept_responses::has_room_for(const kept_response& one) const {
    return bytes_of(one, item_ids(one)) <= bytes_max_ / 4;
}

std::vector<kept_responses::entries::iterator> kept_responses::followed(
    const storage::tenant_id& tenant, std::string id) {
    std::vector<entries::iterator> chain;
    // Each was there when the next was made, so they lead to an end; records may be anybody's.
    while (!id.empty() && chain.size() < all_.size()) {
        const auto found = all_.find(key(tenant, id));
        if (found == all_.end()) break;
        chain.push_back(found);
        id = found->second.what->previous;
    }
    return chain;
}

void kept_responses::use(const std::vector<entries::iterator>& chain) {
    // What is read by its id is mostly the latest.
    for (auto each = chain.rbegin(); each != chain.rend(); ++each)
        (*each)->second.last_used = ++uses_;
}

void kept_responses::erase(entries::iterator which) {
    total_ -= which->second.bytes;
    auto tenant = bytes_.find(which->first.first);
    tenant->second -= which->second.bytes;
    for (const std::string& each : which->second.items) {
        const auto item = items_.find(key(which->first.first, each));
        if (item != items_.end() && item->second == which->first.second) items_.erase(item);
    }
    if (tenant->second == 0) bytes_.erase(tenant);
    all_.erase(which);
}

kept_responses::entries::iterator kept_responses::least_lately_used(
    const storage::tenant_id& tenant) {
    auto least = all_.lower_bound(key(tenant, ""));
    for (auto each = least; each != all_.end() && each->first.first == tenant; ++each)
        if (each->second.last_used < least->second.last_used) least = each;
    return least;
}

std::vector<kept_responses::key> kept_responses::add(const storage::tenant_id& tenant, kept one) {
    std::vector<std::string> items = item_ids(*one);
    std::lock_guard lock(mutex_);
    const key which(tenant, one->id);
    if (auto former = all_.find(which); former != all_.end()) erase(former);
    const std::size_t bytes = bytes_of(*one, items);
    total_ += bytes;
    bytes_[tenant] += bytes;
    for (const std::string& each : items) items_[key(tenant, each)] = which.second;
    all_[which] = {std::move(one), bytes, 0, std::move(items)};
    use(followed(tenant, which.second));
    std::vector<key> gone;
    while (total_ > bytes_max_) {
        const auto most =
            std::max_element(bytes_.begin(), bytes_.end(),
                             [](const auto& a, const auto& b) { return a.second < b.second; });
        const auto least = least_lately_used(most->first);
        gone.push_back(least->first);
        erase(least);
    }
    return gone;
}

kept_responses::kept kept_responses::find(const storage::tenant_id& tenant,
                                          const std::string& id) const {
    std::lock_guard lock(mutex_);
    const auto found = all_.find(key(tenant, id));
    return found == all_.end() ? nullptr : found->second.what;
}

kept_responses::kept kept_responses::find_item(const storage::tenant_id& tenant,
                                               const std::string& item) const {
    std::lock_guard lock(mutex_);
    const auto of = items_.find(key(tenant, item));
    if (of == items_.end()) return nullptr;
    const auto found = all_.find(key(tenant, of->second));
    return found == all_.end() ? nullptr : found->second.what;
}

protocol::result<std::vector<kept_responses::kept>> kept_responses::chain(
    const storage::tenant_id& tenant, const std::string& id) {
    std::lock_guard lock(mutex_);
    const auto found = followed(tenant, id);
    if (found.empty()) return protocol::responses::previous_not_found(id);
    const std::string& missing = found.back()->second.what->previous;
    if (!missing.empty()) return protocol::responses::previous_not_found(missing);
    use(found);
    std::vector<kept> chain;
    for (auto each = found.rbegin(); each != found.rend(); ++each)
        chain.push_back((*each)->second.what);
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
