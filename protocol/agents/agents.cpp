// SPDX-License-Identifier: Apache-2.0
#include "protocol/agents/agents.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <span>

#include "protocol/wire/fields.hpp"
#include "protocol/wire/memory_wishes.hpp"

namespace semantic::protocol::agents {

namespace json = boost::json;

namespace {

/// Returns: the agent with this name. Errors: bad_value, naming the JSON `path`.
result<storage::agent_id> named(std::string_view text, const std::string& path) {
    auto id = storage::agent_id::parse(text);
    if (id) return std::move(*id);
    return failure{errc::bad_value, path + ": " + id.error().what, path};
}

/// Returns: seconds since 1970 with three decimals, as clients of the earlier system read them.
double unix_seconds(std::chrono::system_clock::time_point time) {
    const auto since = time.time_since_epoch();
    const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
    return static_cast<double>(whole) / 1000;
}

// How many of a fingerprint's 32 digits are shown and accepted: enough to distinguish models, few
// enough to type.
constexpr std::size_t digits_shown = 12;
constexpr std::size_t digits_typed_min = 8;

/// A model as clients see it: a part of its fingerprint distinguishes models of one name.
json::object model_object(const std::string& model, const std::string& fingerprint, bool loaded) {
    json::object object;
    object["model_id"] = model.empty() ? json::value(nullptr) : json::value(model);
    object["fingerprint"] = fingerprint.substr(0, digits_shown);
    object["loaded"] = loaded;
    return object;
}

/// What each model remembers of the agent.
json::array memories_of(const agent_card& agent) {
    json::array memories;
    for (const memory_card& each : agent.memories) {
        json::object memory = model_object(each.model, each.fingerprint, each.loaded);
        memory["tier"] = each.hot ? "hot" : "warm";
        memory["tokens"] = each.tokens;
        memory["ram_bytes"] = each.pool_bytes;
        memory["file_size_bytes"] = each.disk_bytes;
        memory["last_accessed"] = unix_seconds(each.last_used);
        memories.push_back(std::move(memory));
    }
    return memories;
}

/// Returns: why a policy that asks for keeping has no effect now: its time has passed ("expired"),
/// or other memories of the same client use up its share ("share").
const char* why_not_held(const agent_card& agent) {
    if (agent.policy.pinned.value_or(false)) return "share";
    // Not pinned, so the policy asks by its time: keep_seconds is there.
    const auto unused_for = std::chrono::system_clock::now() - agent.last_used;
    return unused_for < agent.policy.keep_seconds.value() ? "share" : "expired";
}

/// How long the memory is to be kept, and whether that holds now.
json::object policy_object(const agent_card& agent) {
    const storage::memory_policy& policy = agent.policy;
    json::object object{{"keep_seconds", nullptr}, {"pinned", policy.pinned.value_or(false)}};
    if (policy.keep_seconds) {
        object["keep_seconds"] = policy.keep_seconds->count();
        object["keeps_until"] =
            unix_seconds(agent.last_used) + static_cast<double>(policy.keep_seconds->count());
    }
    const bool is_asked = policy.pinned.value_or(false) ||
                          policy.keep_seconds.value_or(std::chrono::seconds(0)).count() > 0;
    const bool holds = agent.claim >= storage::memory_claim::kept;
    object["holds"] = holds;
    if (is_asked && !holds) object["why_not"] = why_not_held(agent);
    return object;
}

const char* tier_of(const agent_card& agent) {
    if (!agent.remembered) return "cold";
    return agent.hot ? "hot" : "warm";
}

/// An agent as clients see it. `model`: the loaded one's name.
json::object object_of(const agent_card& agent, std::string_view model) {
    json::object object{{"agent_id", agent.id},
                        {"status", "active"},
                        {"cache_size_tokens", agent.tokens},
                        {"tier", tier_of(agent)},
                        {"tokens", agent.tokens},
                        {"ram_bytes", agent.ram_bytes},
                        {"shared_bytes", agent.shared_bytes},
                        {"file_size_bytes", agent.disk_bytes},
                        {"last_accessed", unix_seconds(agent.last_used)},
                        {"dirty", agent.dirty},
                        {"running", agent.running},
                        {"model_id", model},
                        {"memories", memories_of(agent)}};
    if (!agent.state_places.empty())
        object["states"] = json::object{{"places", json::value_from(agent.state_places)},
                                        {"ram_bytes", agent.state_ram_bytes},
                                        {"file_size_bytes", agent.state_disk_bytes}};
    if (agent.remembered)
        object["bytes_written"] =
            json::object{{"last_turn", agent.bytes_of_turn}, {"total", agent.bytes_written}};
    if (agent.is_over_bound) object["not_saved"] = "over_bound";
    if (!agent.policy.is_empty()) object["policy"] = policy_object(agent);
    return object;
}

/// Returns: `part` of `whole` in per cent, cut to one decimal.
double percent(std::uint64_t part, std::uint64_t whole) {
    if (whole == 0) return 0;
    // One decimal: more would only be noise.
    const std::uint64_t tenths = part * 1000 / whole;
    return static_cast<double>(tenths) / 10;
}

/// Counts the agents whose member `flag` is true.
std::int64_t count_if(const std::vector<agent_card>& agents, bool agent_card::*flag) {
    return std::count_if(agents.begin(), agents.end(),
                         [&](const agent_card& agent) { return agent.*flag; });
}

}  // namespace

result<storage::agent_id> parse_path_id(std::string_view text) { return named(text, "agent_id"); }

result<std::optional<storage::agent_id>> parse_name(std::string_view body,
                                                    const json_limits& limits) {
    using name_or_nothing = std::optional<storage::agent_id>;
    if (body.empty()) return name_or_nothing();
    auto document = parse_json(body, limits);
    if (!document) return document.error();
    if (document->is_null()) return name_or_nothing();
    std::optional<failure> complaint;
    const json_cursor root(*document, "", complaint);
    root.as_object();
    auto field = root.find("agent_id");
    const std::string_view text = field ? field->as_string() : std::string_view();
    if (complaint) return *complaint;
    if (!field) return name_or_nothing();
    auto id = named(text, "agent_id");
    if (!id) return id.error();
    return name_or_nothing(std::move(*id));
}

storage::memory_policy agent_change::apply(storage::memory_policy now) const {
    if (ends_keeping) now.keep_seconds.reset();
    if (keep) now.keep_seconds = keep;
    if (pin) now.pinned = pin;
    // "Not pinned" is stored as absent.
    if (!now.pinned.value_or(false)) now.pinned.reset();
    return now;
}

result<agent_change> parse_change(std::string_view body, const json_limits& limits) {
    return read_object(body, limits, [](const json_cursor& root) {
        agent_change change;
        for (const auto& [name, member] : root.as_object())
            if (name != "keep" && name != "pin" && name != "prefetch" && name != "drop")
                root.place(name).fail(errc::bad_value, "must be keep, pin, prefetch or drop");
        const json::value* keep = root.as_object().if_contains("keep");
        change.ends_keeping = keep != nullptr && keep->is_null();
        if (const auto field = root.find("keep")) change.keep = read_lifetime(*field);
        if (const auto field = root.find("pin")) change.pin = field->as_bool();
        change.prefetches = flag_at(root, "prefetch");
        change.drops = flag_at(root, "drop");
        const bool has_others = change.changes_policy() || change.prefetches;
        if (change.drops && has_others)
            root.place("drop").fail(errc::bad_value,
                                    "what is dropped can be neither kept nor prefetched");
        if (!change.drops && !has_others)
            root.place("keep").fail(errc::missing_field,
                                    "required, unless there is pin, prefetch or drop");
        return change;
    });
}

namespace {

// Above the context of any model, and far below what overflows.
constexpr int fork_tokens_max = 1 << 24;

}  // namespace

engine::fork_point parse_fork_point(const json_cursor& at) {
    if (at.value().is_string()) return {parse_bounded(at, 128), std::nullopt};
    return {std::nullopt, static_cast<int>(at.as_integer(0, fork_tokens_max))};
}

result<fork_order> parse_fork(std::string_view body, const json_limits& limits) {
    auto name = parse_name(body, limits);
    if (!name) return name.error();
    fork_order order{std::move(*name), {}};
    if (body.empty()) return order;
    auto document = parse_json(body, limits);
    if (!document) return document.error();
    std::optional<failure> complaint;
    const json_cursor root(*document, "", complaint);
    if (const auto at = root.find("at")) order.at = parse_fork_point(*at);
    if (complaint) return *complaint;
    return order;
}

std::string changed_body(const agent_card& agent, std::string_view model,
                         const std::optional<prefetch_card>& prefetched) {
    json::object body = object_of(agent, model);
    if (prefetched) {
        json::object brought{{"tokens", prefetched->tokens},
                             {"tokens_read", prefetched->tokens_read}};
        if (!prefetched->why.empty()) brought["why_not"] = prefetched->why;
        body["prefetched"] = std::move(brought);
    }
    return to_text(body);
}

failure no_answer(const storage::agent_id& agent, std::string_view message_id) {
    return {errc::not_found,
            "agent " + agent.str() + " has no answer " + quoted(message_id) +
                ": its memory has parted from it, or never had it",
            "at"};
}

std::string agent_body(const agent_card& agent, std::string_view model) {
    return to_text(object_of(agent, model));
}

std::string created_body(const agent_card& agent, std::string_view model, std::string_view parent,
                         const engine::fork_point& at) {
    json::object body = object_of(agent, model);
    if (!parent.empty()) body["parent_agent_id"] = parent;
    if (at.message) body["forked_at"] = *at.message;
    if (at.tokens) body["forked_at"] = *at.tokens;
    return to_text(body);
}

result<std::string> list_body(std::vector<agent_card> agents, std::string_view model,
                              const list_query& query) {
    auto limit = parse_page_limit(query.limit, agents.size());
    if (!limit) return limit.error();
    std::ranges::sort(agents, {}, &agent_card::id);
    auto first = agents.begin();
    if (query.after) {
        if (auto id = named(*query.after, "after"); !id) return id.error();
        // The agent itself may be gone since the page before.
        first = std::ranges::upper_bound(agents, *query.after, {}, &agent_card::id);
    }
    const auto left = static_cast<std::size_t>(agents.end() - first);
    json::array list;
    for (const agent_card& agent : std::span(first, std::min(left, *limit)))
        list.push_back(object_of(agent, model));
    const bool has_more = list.size() < left;
    return to_text(json::object{
        {"agents", std::move(list)}, {"total", agents.size()}, {"has_more", has_more}});
}

std::string stats_body(const std::vector<agent_card>& agents, const capacity_card& capacity) {
    const std::int64_t hot = count_if(agents, &agent_card::hot);
    const std::int64_t remembered = count_if(agents, &agent_card::remembered);
    const auto total = static_cast<std::int64_t>(agents.size());
    std::int64_t tokens = 0;
    for (const agent_card& agent : agents) tokens += agent.tokens;
    json::object room{{"model_id", capacity.model},
                      {"kv_bits", capacity.kv_bits},
                      {"kv_bytes_per_token", capacity.kv_bytes_per_token},
                      {"context_tokens_max", capacity.context_tokens_max},
                      {"pool_bytes", capacity.pool_bytes},
                      {"agents_of_4096_tokens", capacity.agents_4k},
                      {"agents_of_16384_tokens", capacity.agents_16k},
                      {"disk_bytes", capacity.disk_bytes},
                      {"disk_budget_bytes", capacity.disk_budget_bytes}};
    json::array models;
    for (const model_card& each : capacity.models) {
        json::object model = model_object(each.model, each.fingerprint, each.loaded);
        model["agents"] = each.agents;
        model["tokens"] = each.tokens;
        model["file_size_bytes"] = each.disk_bytes;
        models.push_back(std::move(model));
    }
    return to_text(json::object{
        {"hot_count", hot},
        {"warm_count", remembered - hot},
        {"cold_count", total - remembered},
        {"total_count", total},
        {"dirty_count", count_if(agents, &agent_card::dirty)},
        {"running_count", count_if(agents, &agent_card::running)},
        {"total_tokens", tokens},
        {"pool_utilization_pct", percent(capacity.pool_bytes_held, capacity.pool_bytes)},
        {"total_cache_size_mb", static_cast<double>(capacity.disk_bytes) / (1 << 20)},
        {"capacity", std::move(room)},
        {"models", std::move(models)}});
}

std::string imported_body(const storage::agent_id& agent, int tokens) {
    return to_text(json::object{
        {"agent_id", agent.str()}, {"status", "active"}, {"cache_size_tokens", tokens}});
}

bool means_model(std::string_view wanted, std::string_view model, std::string_view fingerprint) {
    if (wanted.size() >= digits_typed_min && fingerprint.starts_with(wanted)) return true;
    return !model.empty() && wanted == model;
}

failure no_memory(const storage::agent_id& agent, std::string_view model) {
    std::string sentence = "agent " + agent.str() + " is another model's: the loaded one, ";
    sentence.append(model).append(", remembers nothing of it");
    return {errc::not_found, std::move(sentence), "agent_id"};
}

failure no_memory_of(const storage::agent_id& agent, std::string_view wanted) {
    std::string sentence = "no model ";
    sentence.append(wanted).append(" remembers agent ").append(agent.str());
    return {errc::not_found, std::move(sentence), "model"};
}

failure no_agent(const storage::agent_id& agent) {
    return {errc::not_found, "there is no agent " + agent.str(), "agent_id"};
}

failure memory_lost(const storage::agent_id& agent, storage::errc why) {
    const char* const reason = why == storage::errc::corrupt        ? "corrupt"
                               : why == storage::errc::incompatible ? "incompatible"
                                                                    : "evicted";
    return {errc::not_found,
            "a part of the memory of agent " + agent.str() + " is lost on this server's disk (" +
                reason + "), so it cannot be exported; the agent's next request computes it again",
            "agent_id"};
}

failure agent_runs(const storage::agent_id& agent, std::string_view action) {
    std::string sentence = "agent " + agent.str() + " is answering a request; it can be ";
    sentence.append(action).append(" when that has ended");
    return {errc::conflict, std::move(sentence), "agent_id"};
}

failure import_fault(const storage::failure& f) {
    failure shown = from_storage(f);
    // What is corrupt here is the client's file, not this server's disk.
    if (f.code == storage::errc::corrupt) shown.code = errc::bad_value;
    return shown;
}

}  // namespace semantic::protocol::agents
