// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads the events of a scenario's run: for each turn the time to its first token, and how much of
// its prompt was computed again. Pure.

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
    std::int64_t computed_tokens = 0;  // for this turn, those computed ahead of it included
    std::int64_t reread_tokens = 0;    // computed although the agent had them in its memory
    std::int64_t output_tokens = 0;
    std::string match;
};

class phases_tally {
  public:
    /// Reads one event, which came at `seconds`. Errors: server_error for an event that reports a
    /// failure, or that is none of a run.
    void on_event(const sse_event& event, double seconds);

    bool is_complete() const noexcept { return complete_; }
    const std::vector<phase_turn>& turns() const noexcept { return turns_; }
    /// The phases in the order of their beginning. Neighbours whose names differ only by a number
    /// are one.
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
    std::optional<double> first_;                // when the first text of this turn came
    bool complete_ = false;
};

/// The sums of the turns of one phase.
struct phase_sum {
    std::int64_t turns = 0;
    std::int64_t extends = 0;
    std::int64_t prompt_tokens = 0;
    std::int64_t reused_tokens = 0;
    std::int64_t computed_tokens = 0;
    std::int64_t reread_tokens = 0;
    double first_s = 0;  // on average

    /// Reused tokens as a share of the prompts, in per cent; 0 where there are none.
    double reused_share() const noexcept;
    /// Tokens that were in memory before the turn as a share of the prompts, in per cent.
    double known_share() const noexcept;
    /// Turns that extended their memory as a share of all, in per cent.
    double extend_share() const noexcept;
};
/// Sums the turns of a phase; of all where `phase` is empty.
phase_sum sum_of(const std::vector<phase_turn>& turns, std::string_view phase);

/// The YAML of the scenario "routing": an expert for each of the notes, each primed alone with
/// them; then five are asked, twice. Requires: notes without line breaks and quotes.
std::string routing_yaml(const std::vector<std::string>& notes);

}  // namespace semantic::bench
