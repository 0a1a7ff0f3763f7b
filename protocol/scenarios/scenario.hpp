// SPDX-License-Identifier: Apache-2.0
#pragma once
// A scenario: agents, and the phases in which they talk with each other, as a YAML file describes
// them. Pure.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/coordination/session.hpp"
#include "protocol/wire/errc.hpp"

namespace semantic::protocol::scenarios {

inline constexpr std::size_t scenario_bytes_max = 1 << 20;
inline constexpr std::size_t phases_max = 20;
inline constexpr int rounds_max = 50;
/// Keys, values and lists of the file together.
inline constexpr std::size_t scenario_nodes_max = 20'000;

struct scenario_agent {
    std::string key;  // by which phases and templates name it
    std::string name;
    std::string role = "participant";
    std::string system_prompt{};
    coordination::lifecycle life = coordination::lifecycle::ephemeral;
};

struct phase {
    std::string name;
    std::string label;
    std::vector<std::string> agents;  // keys, in speaking order
    coordination::topology form = coordination::topology::round_robin;
    coordination::debate_format format = coordination::debate_format::free_form;
    coordination::decision_mode decides = coordination::decision_mode::none;
    std::string initial_prompt{};
    std::string initial_template{};  // in its place, with references
    std::vector<std::pair<std::string, std::string>> own_templates{};  // by key
    int max_turns = 0;
    int rounds = 3;
};

/// How the result of a finished run is found.
struct outcome {
    enum class kind { parse_choice, vote_tally, summary };
    kind method = kind::summary;
    std::string pattern{};               // parse_choice: an expression whose first group is it
    std::vector<std::string> choices{};  // empty: whatever the expression finds
};
/// The payoff of each pair of choices: rows are the first agent's.
struct payoff {
    std::vector<std::string> labels;
    std::vector<std::vector<std::string>> matrix;
};

struct scenario {
    std::string id;
    std::string title;
    std::string description{};
    std::vector<scenario_agent> agents{};
    std::vector<phase> phases{};
    std::optional<outcome> end{};
    std::optional<payoff> worth{};
    std::string source{};  // the YAML

    /// Returns: null when there is none.
    const scenario_agent* find_agent(std::string_view key) const noexcept;
    const phase* find_phase(std::string_view name) const noexcept;
};

/// Parses a scenario. Unknown keys are ignored; anchors and aliases are refused. Errors: bad_value,
/// missing_field, body_too_large; each begins with the line, as "line 12: phases[0].agents[1]:
/// there is no agent \"bob\"".
result<scenario> parse_scenario(std::string_view yaml);

/// A reference in a text, `${PHASE.messages[AGENT]}`, which is replaced by the messages of a phase
/// as an agent saw them.
struct reference {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::string phase;
    std::string agent;  // its own lines are quoted as "You"
};
/// Returns: all references in a text, in order.
std::vector<reference> references_in(std::string_view text);

}  // namespace semantic::protocol::scenarios
