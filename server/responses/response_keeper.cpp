// SPDX-License-Identifier: Apache-2.0
#include "server/responses/response_keeper.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace semantic::server {

namespace {

using protocol::responses::kept_response;

// Prefixes of the names of records.
constexpr std::string_view response_records = "response:";
constexpr std::string_view conversation_records = "conversation:";

std::string record_name(std::string_view head, const std::string& id) {
    return std::string(head) + id;
}

/// Erases the records of responses that were pushed out. One that was stored again meanwhile stays:
/// its record is written under the same lock.
void remove_all(kept_responses& all, engine::engine& engine, std::string_view head,
                const std::vector<kept_responses::key>& gone) {
    for (const auto& [tenant, id] : gone) {
        const auto held = all.lock_record(tenant, id);
        if (all.find(tenant, id)) continue;
        // A failure is ignored: the next start finds that there are too many.
        engine.erase_record(tenant, record_name(head, id));
    }
}

storage::failure too_large(const std::string& id) {
    return {storage::errc::bad_value, id + " is too large to be kept"};
}

/// Erases record and entry. Returns: whether there was one. Errors: io.
storage::result<bool> drop(kept_responses& all, engine::engine& engine, std::string_view head,
                           const storage::tenant_id& tenant, const std::string& id) {
    const auto held = all.lock_record(tenant, id);
    if (!all.find(tenant, id)) return false;
    auto removed = engine.erase_record(tenant, record_name(head, id));
    if (!removed) return removed.error();
    all.remove(tenant, id);
    return true;
}

/// Loads all records with this prefix; faults are added to `faults`.
void load(kept_responses& all, engine::engine& engine, std::string_view head,
          std::vector<std::string>& faults) {
    struct loaded {
        storage::tenant_id tenant;
        std::shared_ptr<const kept_response> response;
    };
    std::vector<loaded> found;
    for (const storage::record_name& each : engine.record_names(std::span(&head, 1)).whole) {
        const auto record = engine.read_record(each.tenant, each.name);
        if (!record) {
            faults.push_back(each.name + ": " + record.error().what);
            continue;
        }
        auto read = protocol::responses::kept_response_of(record->bytes);
        if (!read) {
            faults.push_back(each.name + ": " + read.error().message);
            continue;
        }
        protocol::responses::end_broken_off(*read);
        found.push_back({each.tenant, std::make_shared<const kept_response>(std::move(*read))});
    }
    // Oldest first, so that the latest count as used last, and with them those that they follow.
    std::stable_sort(found.begin(), found.end(), [](const loaded& a, const loaded& b) {
        return a.response->created_unix < b.response->created_unix;
    });
    for (loaded& each : found)
        remove_all(all, engine, head, all.add(each.tenant, std::move(each.response)));
}

}  // namespace

storage::result<void> keep_response(kept_responses& responses, engine::engine& engine,
                                    const storage::tenant_id& tenant, kept_response made,
                                    const std::function<bool()>& is_dropped) {
    const std::string id = made.id;
    auto one = responses.list(std::make_shared<const kept_response>(std::move(made)));
    if (!one) return too_large(id);
    storage::result<void> written;
    std::vector<kept_responses::key> gone;
    {
        const auto held = responses.lock_record(tenant, id);
        if (is_dropped && is_dropped()) return {};
        written = engine.keep_record({tenant, record_name(response_records, id),
                                      protocol::responses::record_of(*one->response)});
        gone = responses.add(tenant, std::move(*one));
    }
    remove_all(responses, engine, response_records, gone);
    return written;
}

storage::result<bool> drop_response(kept_responses& responses, engine::engine& engine,
                                    const storage::tenant_id& tenant, const std::string& id) {
    return drop(responses, engine, response_records, tenant, id);
}

storage::result<void> keep_conversation(kept_responses& conversations, engine::engine& engine,
                                        const storage::tenant_id& tenant, kept_response made) {
    const std::string id = made.id;
    auto one = conversations.list(std::make_shared<const kept_response>(std::move(made)));
    if (!one) return too_large(id);
    std::vector<kept_responses::key> gone;
    {
        const auto held = conversations.lock_record(tenant, id);
        auto written = engine.keep_record({tenant, record_name(conversation_records, id),
                                           protocol::responses::record_of(*one->response)});
        if (!written) return written;
        gone = conversations.add(tenant, std::move(*one));
    }
    remove_all(conversations, engine, conversation_records, gone);
    return {};
}

protocol::result<kept_responses::kept> change_conversation(kept_responses& conversations,
                                                           engine::engine& engine,
                                                           const storage::tenant_id& tenant,
                                                           const std::string& id,
                                                           const conversation_change& change) {
    kept_responses::kept now;
    std::vector<kept_responses::key> gone;
    {
        const auto held = conversations.lock_record(tenant, id);
        const auto before = conversations.find(tenant, id);
        if (!before) return protocol::responses::conversation_not_found(id);
        auto made = change(*before);
        if (!made) return made.error();
        now = std::make_shared<const kept_response>(std::move(*made));
        auto one = conversations.list(now);
        if (!one) return protocol::from_storage(too_large(id));
        auto written = engine.keep_record(
            {tenant, record_name(conversation_records, id), protocol::responses::record_of(*now)});
        if (!written) return protocol::from_storage(written.error());
        gone = conversations.add(tenant, std::move(*one));
    }
    remove_all(conversations, engine, conversation_records, gone);
    return now;
}

storage::result<bool> drop_conversation(kept_responses& conversations, engine::engine& engine,
                                        const storage::tenant_id& tenant, const std::string& id) {
    return drop(conversations, engine, conversation_records, tenant, id);
}

std::vector<std::string> load_responses(response_registry& responses, engine::engine& engine) {
    std::vector<std::string> faults;
    load(responses.stored, engine, response_records, faults);
    load(responses.conversations, engine, conversation_records, faults);
    return faults;
}

}  // namespace semantic::server
