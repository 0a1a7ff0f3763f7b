#include "server/responses/response_keeper.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace semantic::server {

namespace {

using protocol::responses::kept_response;

// Of the names of records.
constexpr std::string_view response_head = "response:";
constexpr std::string_view conversation_head = "conversation:";

std::string record_name(std::string_view head, const std::string& id) {
    return std::string(head) + id;
}

void remove_all(engine::engine& engine, std::string_view head,
                const std::vector<kept_responses::key>& gone) {
    // A record that stays is found to be too much at the next start.
    for (const auto& [tenant, id] : gone) engine.erase_record(tenant, record_name(head, id));
}

storage::result<void> keep(kept_responses& all, engine::engine& engine, std::string_view head,
                           const storage::tenant_id& tenant, kept_response made) {
    if (!all.has_room_for(made))
        return storage::failure{storage::errc::bad_value, made.id + " is too large to be kept"};
    auto written = engine.keep_record(
        {tenant, record_name(head, made.id), protocol::responses::record_of(made)});
    remove_all(engine, head,
               all.add(tenant, std::make_shared<const kept_response>(std::move(made))));
    return written;
}

storage::result<bool> drop(kept_responses& all, engine::engine& engine, std::string_view head,
                           const storage::tenant_id& tenant, const std::string& id) {
    if (!all.remove(tenant, id)) return false;
    auto removed = engine.erase_record(tenant, record_name(head, id));
    if (!removed) return removed.error();
    return true;
}

void load(kept_responses& all, engine::engine& engine, std::string_view head,
          std::vector<std::string>& faults) {
    struct loaded {
        storage::tenant_id tenant;
        std::shared_ptr<const kept_response> what;
    };
    std::vector<loaded> found;
    for (const storage::kept_record& each : engine.records(std::span(&head, 1)).whole) {
        auto read = protocol::responses::kept_response_of(each.bytes);
        if (!read) {
            faults.push_back(each.name + ": " + read.error().what);
            continue;
        }
        protocol::responses::end_broken_off(*read);
        found.push_back({each.tenant, std::make_shared<const kept_response>(std::move(*read))});
    }
    // The latest are used last, and what they follow with them.
    std::stable_sort(found.begin(), found.end(), [](const loaded& a, const loaded& b) {
        return a.what->created_unix < b.what->created_unix;
    });
    for (loaded& each : found) remove_all(engine, head, all.add(each.tenant, std::move(each.what)));
}

}  // namespace

storage::result<void> keep_response(kept_responses& responses, engine::engine& engine,
                                    const storage::tenant_id& tenant, kept_response made) {
    return keep(responses, engine, response_head, tenant, std::move(made));
}

storage::result<bool> drop_response(kept_responses& responses, engine::engine& engine,
                                    const storage::tenant_id& tenant, const std::string& id) {
    return drop(responses, engine, response_head, tenant, id);
}

storage::result<void> keep_conversation(kept_responses& conversations, engine::engine& engine,
                                        const storage::tenant_id& tenant, kept_response made) {
    return keep(conversations, engine, conversation_head, tenant, std::move(made));
}

storage::result<bool> drop_conversation(kept_responses& conversations, engine::engine& engine,
                                        const storage::tenant_id& tenant, const std::string& id) {
    return drop(conversations, engine, conversation_head, tenant, id);
}

std::vector<std::string> load_responses(response_registry& responses, engine::engine& engine) {
    std::vector<std::string> faults;
    load(responses.stored, engine, response_head, faults);
    load(responses.conversations, engine, conversation_head, faults);
    return faults;
}

}  // namespace semantic::server
