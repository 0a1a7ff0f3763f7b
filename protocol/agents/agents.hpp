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

#include "protocol/wire/errc.hpp"
#include "protocol/wire/json.hpp"
#include "storage/types/ids.hpp"

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

/// What there is room for, and how much of it the client's agents take: what several of them share
/// counts once, what other clients have does not show.
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

/// The name in a path. Errors: bad_value.
result<storage::agent_id> parse_path_id(std::string_view text);
/// {"agent_id": "a"}. Returns: nothing for {}, for null and for no body at all: the server chooses.
/// Errors: malformed_json, bad_value.
result<std::optional<storage::agent_id>> parse_name(std::string_view body,
                                                    const json_limits& limits = {});

std::string agent_body(const agent_card& agent, std::string_view model);
/// `parent`: whose memory the new agent has, or empty.
std::string created_body(const agent_card& agent, std::string_view model, std::string_view parent);
/// Query parameters, percent-decoded; absent ones are empty optionals.
struct list_query {
    std::optional<std::string> limit;  // 1 to 1,000; absent: all
    std::optional<std::string> after;  // only agents after this name, whether or not there is such
};
/// By name: {"agents":[...],"total":n,"has_more":b}; `total` counts those of all pages.
/// Errors: bad_value naming the query parameter.
result<std::string> list_body(std::vector<agent_card> agents, std::string_view model,
                              const list_query& query);
std::string stats_body(const std::vector<agent_card>& agents, const capacity_card& capacity);
/// What an import has made of an agent.
std::string imported_body(const storage::agent_id& agent, int tokens);

/// Whether the query parameter `model` means a model: its name, or at least the first 8 hex digits
/// of its fingerprint.
bool means_model(std::string_view wanted, std::string_view model, std::string_view fingerprint);

/// What is wrong when there is no such agent among those that the client may see.
failure no_agent(const storage::agent_id& agent);
/// What is wrong when there is one, but the loaded model `model` remembers nothing of it.
failure no_memory(const storage::agent_id& agent, std::string_view model);
/// What is wrong when the model that a query names remembers nothing of it.
failure no_memory_of(const storage::agent_id& agent, std::string_view wanted);
/// What is wrong when the agent works for a request. `action` was to be done: "deleted".
failure agent_runs(const storage::agent_id& agent, std::string_view action);

/// What is wrong when a part of what the agent remembers was found lost as it was read.
failure memory_lost(const storage::agent_id& agent, storage::errc why);
/// The error for a file that does not become a memory: a damaged one is its own fault.
failure import_fault(const storage::failure& f);

}  // namespace semantic::protocol::agents
