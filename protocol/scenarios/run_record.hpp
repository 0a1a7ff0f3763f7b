// SPDX-License-Identifier: Apache-2.0
#pragma once
// A run of a scenario as one line of JSON, and back: whole or refused. The results of the run are
// not in it, but in the sessions of its phases. Pure.

#include <string>
#include <string_view>

#include "protocol/scenarios/scenario.hpp"
#include "protocol/wire/errc.hpp"

namespace semantic::protocol::scenarios {

/// The first field of a record is its format; a reader refuses another one.
inline constexpr int run_record_format = 1;

struct kept_run {
    std::string id;
    scenarios::scenario scenario;
    std::string request{};  // the body by which it was begun
};

/// Returns: the run as one line of JSON.
std::string to_record(const kept_run& run);
/// Reads such a record. Errors: malformed_json, missing_field, bad_value; of the scenario, as
/// parse_scenario().
result<kept_run> kept_run_of(std::string_view record);

}  // namespace semantic::protocol::scenarios
