// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bodies of /admin, as clients of the earlier system send and read them. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/wire/errc.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::admin {

/// Parses {"seed": 7}. Returns: the seed for requests that have none of their own; nothing for
/// null, which removes it. Errors: malformed_json, missing_field, bad_value.
result<std::optional<std::uint64_t>> parse_seed(std::string_view body,
                                                const json_limits& limits = {});
/// The answer: the seed that holds now, null where there is none.
std::string seed_body(std::optional<std::uint64_t> seed);

struct swap_request {
    std::string model;
    double timeout_seconds = 30;  // 1 to 300: for running answers to end
    bool stream = false;          // the phases as events
};
/// Parses {"model_id": "...", "timeout_seconds": 30, "stream": false}; "model" is another name of
/// "model_id". Errors: malformed_json, missing_field, bad_value.
result<swap_request> parse_swap(std::string_view body, const json_limits& limits = {});

/// Parses the body of a request to unload: empty, or the same fields. `model` is empty where no
/// model is named. Errors: malformed_json, bad_value.
result<swap_request> parse_unload(std::string_view body, const json_limits& limits = {});

struct loaded_model {
    std::string id;
    int layers = 0;
    int kv_heads = 0;
    int head_dim = 0;
    int block_tokens = 0;
};
/// The answer to the question which model is loaded.
std::string current_body(const loaded_model& model);
/// The answer to the question which model is loaded, where none is: all fields are null.
std::string no_current_body();
/// {"models":[...]}: all models that can be loaded, as far as the server knows.
std::string available_body(const std::vector<std::string>& models);

/// The answer to a swap that succeeded. Equal names say that the model was loaded already.
std::string swapped_body(std::string_view old_model, std::string_view new_model);

/// The answer to a request to unload; an empty name says that no model was loaded.
std::string unloaded_body(std::string_view model);

/// The stage that a swap has reached.
struct swap_step {
    std::string phase;     // as slot_phase has it: "draining"
    std::string model;     // whose engine is there or is being loaded; empty: none
    std::string target{};  // that comes next; empty: none other
    std::string stage{};   // loading: what is done, and how much of it
    double fraction = 0.0;
    std::string why{};  // what broke; else empty
};
/// The stage as JSON.
std::string step_body(const swap_step& now);
/// The stage as server-sent event "phase".
std::string step_event(const swap_step& now);
/// The last event of a swap that was streamed.
std::string swapped_event(std::string_view old_model, std::string_view new_model);

/// The result of clearing all agents' memory.
struct clearing {
    int hot = 0;               // agents that were in the pool
    int on_disk = 0;           // agents that were on disk
    std::uint64_t frames = 0;  // of the pool, free again
    int kept = 0;              // agents that answer a request, and stay
};
/// The answer to a request to clear.
std::string cleared_body(const clearing& done);

}  // namespace semantic::protocol::admin
