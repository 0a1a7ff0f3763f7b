// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the events of a scenario's run say of each turn: its first token, and what of its prompt was
// read again. Pure.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "perf/bench/client/sse_parser.hpp"

namespace semantic::bench {

struct phase_turn {
    std::string phase;
    std::string agent;
    double first_s = 0;  // from the end of what came before it to its first text
    std::int64_t prompt_tokens = 0;
    std::int64_t reused_tokens = 0;
    std::int64_t computed_tokens = 0;  // for this turn, ahead of it too
    std::int64_t reread_tokens = 0;    // that its agent had in its memory, and that were computed
    std::int64_t output_tokens = 0;
    std::string match;
};

class phases_tally {
  public:
    /// `seconds`: when it came. Errors: server_error for an event that says that the run failed, or
    /// that is none of a run.
    void on_event(const sse_event& event, double seconds);

    bool is_complete() const noexcept { return complete_; }
    const std::vector<phase_turn>& turns() const noexcept { return turns_; }
    /// In the order in which they began; neighbours that differ by a number only are one.
    const std::vector<std::string>& phases() const noexcept { return phases_; }
    const std::vector<std::string>& sessions() const noexcept { return sessions_; }
    const std::string& run_id() const noexcept { return run_id_; }

  private:
    std::vector<phase_turn> turns_;
    std::vector<std::string> phases_;
    std::vector<std::string> sessions_;
    std::string run_id_;
    std::map<std::string, std::int64_t> known_;  // tokens in an agent's memory, by its name
    double before_s_ = 0;                        // the end of what came before this turn
    std::optional<double> first_;                // of this turn
    bool complete_ = false;
};

/// The turns of one phase together.
struct phase_sum {
    std::int64_t turns = 0;
    std::int64_t extends = 0;
    std::int64_t prompt_tokens = 0;
    std::int64_t reused_tokens = 0;
    std::int64_t computed_tokens = 0;
    std::int64_t reread_tokens = 0;
    double first_s = 0;  // on average

    /// In percent; 0 where nothing was asked.
    double reused_share() const noexcept;
    /// Of the prompts, what was in memory before anything was read for the turn.
    double known_share() const noexcept;
    double extend_share() const noexcept;
};
/// `phase`: empty for all.
phase_sum sum_of(const std::vector<phase_turn>& turns, std::string_view phase);

/// Ten experts with notes of `note`(i) each, of which each is primed alone and five are asked,
/// twice: a scenario's YAML. Requires: notes without line breaks and quotes.
std::string routing_yaml(const std::vector<std::string>& notes);

}  // namespace semantic::bench
