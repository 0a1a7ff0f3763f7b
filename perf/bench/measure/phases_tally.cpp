// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/measure/phases_tally.hpp"

#include <boost/json.hpp>

#include <algorithm>

#include "perf/bench/client/errors.hpp"

namespace semantic::bench {

namespace {

namespace json = boost::json;

std::int64_t number(const json::object& fields, const char* key) {
    const json::value* found = fields.if_contains(key);
    return found != nullptr && found->is_int64() ? found->as_int64() : 0;
}

std::string text(const json::object& fields, const char* key) {
    const json::value* found = fields.if_contains(key);
    return found != nullptr && found->is_string() ? std::string(found->as_string()) : "";
}

/// "query_3" -> "query".
std::string without_number(std::string name) {
    const std::size_t digits = name.find_last_not_of("0123456789");
    const bool is_numbered = digits != std::string::npos && digits + 1 < name.size() &&
                             digits > 0 && name[digits] == '_';
    if (is_numbered) name.resize(digits);
    return name;
}

double percent(std::int64_t part, std::int64_t whole) {
    return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

/// The numbers in an event of a complete turn. Errors: server_error.
phase_turn turn_of(const json::object& complete) {
    phase_turn turn;
    turn.agent = text(complete, "agent_name");
    const json::value* said = complete.if_contains("semantic");
    if (said == nullptr || !said->is_object())
        throw server_error("the server says nothing of what a turn reused");
    const json::object& usage = said->as_object();
    turn.prompt_tokens = number(usage, "prompt_tokens");
    turn.reused_tokens = number(usage, "reused_tokens");
    turn.computed_tokens = number(usage, "computed_tokens") + number(usage, "read_ahead_tokens");
    turn.output_tokens = number(usage, "output_tokens");
    turn.match = text(usage, "match");
    return turn;
}

}  // namespace

void phases_tally::on_event(const sse_event& event, double seconds) {
    boost::system::error_code error;
    const json::value parsed = json::parse(event.data, error);
    if (error || !parsed.is_object())
        throw server_error("no event of a scenario's run: " + event.data.substr(0, 200));
    const json::object& data = parsed.as_object();
    if (event.name == "error" || event.name == "run_stopped")
        throw server_error("the run ended early: " + event.data.substr(0, 500));
    if (event.name == "run_start" || event.name == "phase_start") before_s_ = seconds;
    if (event.name == "run_start") run_id_ = text(data, "run_id");
    if (event.name == "phase_start") {
        std::string phase = without_number(text(data, "phase"));
        if (phases_.empty() || phases_.back() != phase) phases_.push_back(std::move(phase));
        sessions_.push_back(text(data, "session_id"));
    }
    if (event.name == "token" && !first_) first_ = seconds;
    if (event.name == "run_complete") complete_ = true;
    if (event.name != "turn_complete" || phases_.empty()) return;
    phase_turn turn = turn_of(data);
    turn.phase = phases_.back();
    turn.first_s = first_.value_or(seconds) - before_s_;
    std::int64_t& known = known_[turn.agent];
    turn.reread_tokens =
        std::max<std::int64_t>(known - (turn.prompt_tokens - turn.computed_tokens), 0);
    known = turn.prompt_tokens + turn.output_tokens;
    turns_.push_back(std::move(turn));
    before_s_ = seconds;
    first_.reset();
}

double phase_sum::reused_share() const noexcept { return percent(reused_tokens, prompt_tokens); }
double phase_sum::known_share() const noexcept {
    return percent(prompt_tokens - computed_tokens, prompt_tokens);
}
double phase_sum::extend_share() const noexcept { return percent(extends, turns); }

phase_sum sum_of(const std::vector<phase_turn>& turns, std::string_view phase) {
    phase_sum sum;
    for (const phase_turn& each : turns) {
        if (!phase.empty() && each.phase != phase) continue;
        ++sum.turns;
        sum.extends += each.match == "extend" || each.match == "exact" ? 1 : 0;
        sum.prompt_tokens += each.prompt_tokens;
        sum.reused_tokens += each.reused_tokens;
        sum.computed_tokens += each.computed_tokens;
        sum.reread_tokens += each.reread_tokens;
        sum.first_s += each.first_s;
    }
    if (sum.turns > 0) sum.first_s /= static_cast<double>(sum.turns);
    return sum;
}

std::string routing_yaml(const std::vector<std::string>& notes) {
    const std::size_t asked = std::min<std::size_t>(notes.size(), 5);
    std::string agents, priming, first, second;
    for (std::size_t i = 0; i < notes.size(); ++i) {
        const std::string key = "expert_" + std::to_string(i + 1);
        agents += "  " + key + ": {display_name: Expert " + std::to_string(i + 1) +
                  ", lifecycle: permanent, system_prompt: \"You are an expert.\"}\n";
        const auto phase = [&](const std::string& name, const std::string& prompt) {
            return "  - {name: " + name + "_" + std::to_string(i + 1) + ", label: " + name +
                   ", agents: [" + key + "], auto_rounds: 1, initial_prompt: \"" + prompt + "\"}\n";
        };
        priming += phase("priming", "Your notes: " + notes[i] + " What are they about?");
        if (i >= asked) continue;
        first += phase("query", "Which word of your notes comes first?");
        second += phase("again", "Once more: which word of your notes comes first?");
    }
    return "id: routing\ntitle: Routing\nagents:\n" + agents + "phases:\n" + priming + first +
           second;
}

}  // namespace semantic::bench
