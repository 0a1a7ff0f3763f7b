// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bodies of the agents API: what names, shows and counts agents. Pure.
// An earlier system's clients find the fields they know (agent_id, status, cache_size_tokens, tier,
// hot_count, ...) in addition to those that say more.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/types/fork_point.hpp"
#include "protocol/wire/errc.hpp"
#include "protocol/wire/json.hpp"
#include "storage/types/ids.hpp"
#include "storage/types/memory_policy.hpp"

namespace semantic::protocol::agents {

/// What one model remembers of an agent, as it is shown.
struct memory_card {
    std::string model;        // what clients called it; empty: not known
    std::string fingerprint;  // 32 hex digits
    bool loaded = false;
    bool hot = false;  // all that its next token needs is in the pool
    int tokens = 0;
    std::uint64_t pool_bytes = 0;
    std::uint64_t disk_bytes = 0;
    std::chrono::system_clock::time_point last_used{};
};

/// One agent as it is shown: as the loaded model has it.
struct agent_card {
    std::string id;
    bool remembered = true;  // by the loaded model
    bool hot = false;      // all of its memory is in the pool; else a part, or all, is only on disk
    bool dirty = false;    // something is not on disk yet
    bool running = false;  // a request extends it now
    int tokens = 0;
    std::uint64_t ram_bytes = 0;     // of the pool, what it shares with others included
    std::uint64_t shared_bytes = 0;  // part of ram_bytes
    std::uint64_t disk_bytes = 0;
    std::chrono::system_clock::time_point last_used{};
    std::vector<memory_card> memories{};  // of all models
    // Recurrent states: the tokens before each place that the agent can go on from.
    std::vector<int> state_places{};
    std::uint64_t state_ram_bytes = 0;   // part of ram_bytes
    std::uint64_t state_disk_bytes = 0;  // part of disk_bytes
    storage::memory_policy policy{};
    storage::memory_claim claim = storage::memory_claim::none;  // what that comes to now
    // Bytes of files that were written for it: since it was made, and for its last answer.
    std::uint64_t bytes_written = 0;
    std::uint64_t bytes_of_turn = 0;
    bool is_over_bound = false;  // dirty, because a bound on what may be written is reached
};

/// A change of an agent's memory that a client asks for. Absent fields change nothing.
struct agent_change {
    std::optional<std::chrono::seconds> keep{};
    bool ends_keeping = false;  // "keep": null
    std::optional<bool> pin{};
    bool prefetches = false;
    bool drops = false;

    bool changes_policy() const noexcept { return keep || ends_keeping || pin; }
    /// Returns: the policy `now`, changed as asked.
    storage::memory_policy apply(storage::memory_policy now) const;
};

/// A fork that a client asks for.
struct fork_order {
    std::optional<storage::agent_id> name{};  // absent: the server chooses
    engine::fork_point at{};
};

/// What one model remembers of all of the client's agents.
struct model_card {
    std::string model;        // empty: not known
    std::string fingerprint;  // 32 hex digits
    bool loaded = false;
    std::uint64_t agents = 0;
    std::uint64_t tokens = 0;
    std::uint64_t disk_bytes = 0;
};

/// The capacity of the server, and how much the client's own agents use: what several of them share
/// counts once, and nothing shows what other clients use.
struct capacity_card {
    std::string model;
    std::uint64_t pool_bytes = 0;
    std::uint64_t pool_bytes_held = 0;  // by the client's agents
    std::uint64_t disk_bytes = 0;       // likewise
    std::uint64_t disk_budget_bytes = 0;
    int kv_bits = 0;
    std::uint64_t kv_bytes_per_token = 0;
    int context_tokens_max = 0;
    std::uint64_t agents_4k = 0;   // conversations of 4,096 tokens that the pool holds at once
    std::uint64_t agents_16k = 0;  // of 16,384
    std::vector<model_card> models{};
};

/// Returns: the agent named in a path. Errors: bad_value.
result<storage::agent_id> parse_path_id(std::string_view text);
/// Parses {"agent_id": "a"}. Returns: nothing for {}, null or an empty body: the server chooses the
/// name. Errors: malformed_json, bad_value.
result<std::optional<storage::agent_id>> parse_name(std::string_view body,
                                                    const json_limits& limits = {});

/// Parses {"keep": "1h" or seconds or null, "pin": true, "prefetch": true, "drop": true}: at least
/// one of them, and "drop" only by itself. Errors: malformed_json, missing_field, bad_value.
result<agent_change> parse_change(std::string_view body, const json_limits& limits = {});
/// Reads where a fork ends: "msg_1", the id of an answer, or a number of tokens. Complains of
/// anything else.
engine::fork_point parse_fork_point(const json_cursor& at);
/// Parses {"agent_id": "a", "at": "msg_1" or 300}: as parse_name(), and the point up to which the
/// fork gets the memory. Errors: as parse_name().
result<fork_order> parse_fork(std::string_view body, const json_limits& limits = {});

/// What a prefetch brought into RAM. `why`: the reason that it is not all; empty where it is.
struct prefetch_card {
    int tokens = 0;
    int tokens_read = 0;
    std::string why{};
};
/// One agent.
std::string agent_body(const agent_card& agent, std::string_view model);
/// The answer to a change: the agent, and what was prefetched, if that was asked for.
std::string changed_body(const agent_card& agent, std::string_view model,
                         const std::optional<prefetch_card>& prefetched);
/// The error where the agent has no answer with that id.
failure no_answer(const storage::agent_id& agent, std::string_view message_id);
/// The answer to a creation or fork. `parent`: the agent whose memory the new one has, or empty;
/// `at`: up to where it has that memory.
std::string created_body(const agent_card& agent, std::string_view model, std::string_view parent,
                         const engine::fork_point& at = {});
/// Query parameters, percent-decoded; absent ones are empty optionals.
struct list_query {
    std::optional<std::string> limit;  // 1 to 1,000; absent: all
    std::optional<std::string> after;  // only agents after this name, whether or not there is such
};
/// Returns: one page of agents by name: {"agents":[...],"total":n,"has_more":b}; `total` counts all
/// pages. Errors: bad_value naming the query parameter.
result<std::string> list_body(std::vector<agent_card> agents, std::string_view model,
                              const list_query& query);
/// Counts of agents by tier, and the capacity.
std::string stats_body(const std::vector<agent_card>& agents, const capacity_card& capacity);
/// The answer to an import of `tokens` tokens.
std::string imported_body(const storage::agent_id& agent, int tokens);

/// Whether the query parameter `wanted` names this model: by its name, or by at least the first 8
/// hex digits of its fingerprint.
bool means_model(std::string_view wanted, std::string_view model, std::string_view fingerprint);

/// The error where the client has no such agent.
failure no_agent(const storage::agent_id& agent);
/// The error where the agent exists, but the loaded model `model` has no memory of it.
failure no_memory(const storage::agent_id& agent, std::string_view model);
/// The error where the model that a query names has no memory of the agent.
failure no_memory_of(const storage::agent_id& agent, std::string_view wanted);
/// The error where the agent is answering a request. `action`: what was to be done, as "deleted".
failure agent_runs(const storage::agent_id& agent, std::string_view action);

/// The error where a part of the agent's memory was lost on disk. `why`: how.
failure memory_lost(const storage::agent_id& agent, storage::errc why);
/// Returns: the error of an import. A damaged file is the client's fault (bad_value).
failure import_fault(const storage::failure& f);

}  // namespace semantic::protocol::agents
