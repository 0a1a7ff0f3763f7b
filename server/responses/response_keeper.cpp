#include "server/responses/response_keeper.hpp"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

namespace semantic::server {

namespace {

using protocol::responses::kept_response;

// Of the names of records.
constexpr std::string_view record_head = "response:";

std::string record_name(const std::string& id) { return std::string(record_head) + id; }

void remove_all(engine::engine& engine, const std::vector<response_registry::key>& gone) {
    // A record that stays is found to be too much at the next start.
    for (const auto& [tenant, id] : gone) engine.erase_record(tenant, record_name(id));
}

}  // namespace

storage::result<void> keep_response(response_registry& responses, engine::engine& engine,
                                    const storage::tenant_id& tenant, kept_response made) {
    if (!responses.has_room_for(made))
        return storage::failure{storage::errc::bad_value, made.id + " is too large to be kept"};
    const std::string id = made.id;
    auto written =
        engine.keep_record({tenant, record_name(id), protocol::responses::record_of(made)});
    remove_all(engine,
               responses.add(tenant, std::make_shared<const kept_response>(std::move(made))));
    return written;
}

storage::result<bool> drop_response(response_registry& responses, engine::engine& engine,
                                    const storage::tenant_id& tenant, const std::string& id) {
    if (!responses.remove(tenant, id)) return false;
    auto removed = engine.erase_record(tenant, record_name(id));
    if (!removed) return removed.error();
    return true;
}

std::vector<std::string> load_responses(response_registry& responses, engine::engine& engine) {
    std::vector<std::string> faults;
    struct loaded {
        storage::tenant_id tenant;
        std::shared_ptr<const kept_response> what;
    };
    std::vector<loaded> found;
    for (const storage::kept_record& each : engine.records().whole) {
        if (!each.name.starts_with(record_head)) continue;
        auto read = protocol::responses::kept_response_of(each.bytes);
        if (!read) {
            faults.push_back(each.name + ": " + read.error().what);
            continue;
        }
        found.push_back({each.tenant, std::make_shared<const kept_response>(std::move(*read))});
    }
    // The latest are used last, and what they follow with them.
    std::stable_sort(found.begin(), found.end(), [](const loaded& a, const loaded& b) {
        return a.what->created_unix < b.what->created_unix;
    });
    for (loaded& each : found) remove_all(engine, responses.add(each.tenant, std::move(each.what)));
    return faults;
}

}  // namespace semantic::server
