// SPDX-License-Identifier: Apache-2.0
#include "protocol/live/events.hpp"

#include <boost/json/value.hpp>

#include "protocol/wire/public_text.hpp"

namespace semantic::protocol::live {

namespace {

namespace json = boost::json;
using namespace engine;  // the events' names

// Faults name files and places, here without their directories: enough to recognise them.
constexpr std::size_t fault_bytes_max = 300;

double milliseconds(std::chrono::microseconds time) {
    return static_cast<double>(time.count()) / 1000;
}

/// Returns: a fault without directories, cut to fault_bytes_max.
std::string shortened(const std::string& text) {
    return without_directories(text).substr(0, fault_bytes_max);
}

json::value name_of(const std::optional<storage::agent_id>& agent) {
    return agent ? json::value(agent->str()) : json::value(nullptr);
}

json::object difference_of(const text_difference& found) {
    return {{"at_byte", found.at},
            {"excerpt_from_byte", found.begins},
            {"remembered", found.remembered},
            {"sent", found.sent}};
}

/// Returns, for each kind of event, its JSON object; `from`: who looks.
struct describe {
    const viewpoint& from;

    json::object operator()(const request_arrived& e) const {
        return {{"event", "queued"},
                {"request", e.id},
                {"agent", name_of(e.agent)},
                {"ahead", e.ahead}};
    }
    json::object operator()(const request_admitted& e) const {
        json::object event{{"event", "admitted"},
                           {"request", e.id},
                           {"agent", e.agent.str()},
                           {"match", to_string(e.usage.match)},
                           {"prompt_tokens", e.usage.prompt_tokens},
                           {"reused_tokens", e.usage.reused_tokens},
                           {"restored_tokens", e.usage.restored_tokens},
                           {"computed_tokens", e.usage.created_tokens + e.usage.recomputed_tokens},
                           {"waited_ms", milliseconds(e.waited)}};
        if (e.usage.why == miss_reason::none) return event;
        event["miss_reason"] = to_string(e.usage.why);
        event["detail"] = shortened(e.usage.detail);
        // Texts of a conversation are for its own tenant, not for an administrator.
        if (from.tenant && e.usage.difference)
            event["difference"] = difference_of(*e.usage.difference);
        return event;
    }
    json::object operator()(const first_token_made& e) const {
        return {{"event", "first_token"},
                {"request", e.id},
                {"agent", e.agent.str()},
                {"after_ms", milliseconds(e.after)}};
    }
    // Never called: a step has no owner, and step_of() shows it.
    json::object operator()(const step_run&) const { return {}; }
    json::object operator()(const request_ended& e) const {
        return {{"event", e.has_failed ? "failed" : "finished"},
                {"request", e.id},
                {"agent", name_of(e.agent)},
                {"why", shortened(e.why)},
                {"output_tokens", e.output_tokens},
                {"saved", e.saved}};
    }
    json::object operator()(const memory_saved& e) const {
        json::object event{{"event", "saved"},
                           {"agent", e.agent.str()},
                           {"bytes", e.bytes},
                           {"took_ms", milliseconds(e.took)}};
        if (!e.fault.empty()) event["fault"] = shortened(e.fault);
        return event;
    }
    json::object operator()(const memory_restored& e) const {
        json::object event{{"event", "restored"},
                           {"agent", e.agent.str()},
                           {"tokens", e.tokens},
                           {"tokens_read", e.tokens_read},
                           {"took_ms", milliseconds(e.took)}};
        if (!e.fault.empty()) event["fault"] = shortened(e.fault);
        return event;
    }
    json::object operator()(const memory_left& e) const {
        return {{"event", engine::to_string(e.fate)}, {"agent", e.agent.str()}};
    }
    json::object operator()(const agent_changed& e) const {
        json::object event{{"event", engine::to_string(e.kind)}, {"agent", e.agent.str()}};
        if (e.parent) event["parent"] = e.parent->str();
        return event;
    }
};

/// Returns the tenant that an event belongs to.
struct find_owner {
    const storage::tenant_id* operator()(const request_arrived& e) const { return &e.tenant; }
    const storage::tenant_id* operator()(const request_ended& e) const { return &e.tenant; }
    const storage::tenant_id* operator()(const step_run&) const { return nullptr; }
    const storage::tenant_id* operator()(const auto& e) const { return &e.agent.tenant(); }
};

/// Returns: the tenant of an event; null for a step, which several may share.
const storage::tenant_id* owner_of(const activity_kind& kind) {
    return std::visit(find_owner{}, kind);
}

}  // namespace

std::string tenant_name(const storage::tenant_id& tenant) {
    return tenant.is_default() ? "default" : tenant.salt.hex().substr(0, 8);
}

json::array events_of(std::span<const activity> all, const viewpoint& from) {
    json::array shown;
    for (const activity& each : all) {
        const storage::tenant_id* owner = owner_of(each.event);
        if (owner == nullptr || !from.sees(*owner)) continue;
        json::object event = std::visit(describe{from}, each.event);
        const auto since = each.at.time_since_epoch();
        event["at"] = std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
        if (!from.tenant) event["tenant"] = tenant_name(*owner);
        shown.push_back(std::move(event));
    }
    return shown;
}

json::value step_of(std::span<const activity> all, const viewpoint& from) {
    const step_run* last = nullptr;
    int steps = 0;
    for (const activity& each : all)
        if (const auto* step = std::get_if<step_run>(&each.event)) {
            last = step;
            ++steps;
        }
    if (last == nullptr) return nullptr;
    json::array decoding;
    json::value chunk;
    int others = 0;
    for (const step_share& share : last->shares) {
        if (!from.sees(share.agent.tenant())) {
            ++others;
            continue;
        }
        json::object one{{"request", share.id}, {"agent", share.agent.str()}};
        if (share.decodes) {
            decoding.push_back(std::move(one));
        } else {
            one["tokens"] = share.tokens;
            chunk = std::move(one);
        }
    }
    return json::object{{"steps", steps},
                        {"took_ms", milliseconds(last->took)},
                        {"decoding", std::move(decoding)},
                        {"chunk", std::move(chunk)},
                        {"others", others}};
}

bool touches(std::span<const activity> all, const viewpoint& from) {
    for (const activity& each : all) {
        const storage::tenant_id* owner = owner_of(each.event);
        if (owner != nullptr && from.sees(*owner)) return true;
    }
    return false;
}

}  // namespace semantic::protocol::live
