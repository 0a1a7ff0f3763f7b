// SPDX-License-Identifier: Apache-2.0
#include "protocol/scenarios/phase_opening.hpp"

#include <algorithm>

#include "protocol/coordination/memory.hpp"
#include "protocol/scenarios/choice_pattern.hpp"

namespace semantic::protocol::scenarios {

using coordination::nobody;
using coordination::session;

namespace {

// The pattern is matched against the first so many bytes of a line.
constexpr std::size_t matched_bytes_max = 4'000;
// The most steps of matching a run's pattern, in all lines of all phases.
constexpr std::uint64_t matching_steps_max = 20'000'000;
constexpr std::string_view nothing_said = "(no messages yet)";
constexpr std::string_view left_out_note = "(earlier messages are left out)\n";

/// Whether an agent said the line to all.
bool is_spoken(const coordination::line& each) {
    return each.sender != nobody && !each.is_hidden && each.visible_to.empty();
}

/// Returns: the latest lines of a phase that fit into `characters_left`, from which their length is
/// subtracted, as the agent of the reference reads them; with a note where earlier ones were left
/// out. Empty when no line fits; then none will fit later.
std::string quote(const scenario& scenario, const reference& quoted, const session& said,
                  std::size_t& characters_left) {
    const std::string self = agent_id_of(scenario, quoted.agent);
    std::vector<std::string> lines;
    // Counted before it is copied: a template may quote a phase some thousand times.
    const auto take = [&](std::string_view name, std::string_view text, std::string_view end) {
        constexpr std::size_t bytes_of_character_max = 4;
        const std::size_t bytes = name.size() + text.size() + end.size();
        if (bytes / bytes_of_character_max > characters_left) return false;
        const std::size_t count = coordination::characters(name) + coordination::characters(text) +
                                  coordination::characters(end);
        if (count > characters_left) return false;
        characters_left -= count;
        lines.push_back(std::string(name).append(text).append(end));
        return true;
    };
    // Room for the note is set aside first.
    const std::size_t note = std::min(characters_left, left_out_note.size());
    characters_left -= note;
    bool are_all = true;
    for (auto each = said.lines.rbegin(); each != said.lines.rend() && are_all; ++each) {
        if (!is_spoken(*each)) continue;
        const coordination::agent& speaker = said.agents[static_cast<std::size_t>(each->sender)];
        are_all = take((speaker.id == self ? "You" : speaker.name) + ": ", each->text,
                       lines.empty() ? "" : "\n");
    }
    characters_left += note;
    if (lines.empty()) return {};
    if (!are_all) take({}, left_out_note, {});
    std::string out;
    for (auto each = lines.rbegin(); each != lines.rend(); ++each) out += *each;
    return out;
}

/// Whether the agent of this key is in the phase.
bool has(const phase& phase, std::string_view key) {
    return std::ranges::find(phase.agents, key) != phase.agents.end();
}

/// Returns: the choice that a text names by the scenario's pattern; empty where it names none, or
/// one that is not listed.
std::string found_choice(const outcome& end, const choice_pattern& pattern, std::string_view text,
                         storage::work_budget& budget) {
    const std::string last = pattern.last_choice(text.substr(0, matched_bytes_max), budget);
    if (end.choices.empty() || last.empty()) return last;
    const auto same = [&](const std::string& choice) {
        return std::ranges::equal(choice, last, [](char a, char b) {
            return std::tolower(static_cast<unsigned char>(a)) ==
                   std::tolower(static_cast<unsigned char>(b));
        });
    };
    const auto found = std::ranges::find_if(end.choices, same);
    return found == end.choices.end() ? std::string() : *found;
}

/// Returns: the last choice that an agent named in a phase; empty where it named none.
std::string choice_of(const outcome& end, const choice_pattern& pattern, const session& said,
                      const std::string& agent_id, storage::work_budget& budget) {
    const int speaker = said.find(agent_id);
    std::string choice;
    for (auto each = said.lines.rbegin(); each != said.lines.rend() && choice.empty(); ++each)
        if (is_spoken(*each) && each->sender == speaker)
            choice = found_choice(end, pattern, each->text, budget);
    return choice;
}

/// Finds what each participant of the last phase chose last, there or in an earlier phase.
void read_choices(const scenario& scenario, const phases_done& done, run_result& result) {
    const auto pattern = choice_pattern::compile(scenario.end->pattern);
    if (!pattern) return;  // parse_scenario() takes none of these
    storage::work_budget budget({.steps = matching_steps_max});
    for (const std::string& key : scenario.phases.back().agents) {
        // parse_scenario() has checked that each phase's agents exist; likewise in opening_of().
        const scenario_agent& agent = *scenario.find_agent(key);
        if (agent.role != "participant") continue;
        std::string choice;
        for (auto phase = scenario.phases.rbegin();
             phase != scenario.phases.rend() && choice.empty(); ++phase)
            if (const auto said = done.find(phase->name); said != done.end())
                choice = choice_of(*scenario.end, *pattern, said->second,
                                   agent_id_of(scenario, key), budget);
        if (!choice.empty()) result.choices.emplace_back(agent.name, std::move(choice));
    }
}

/// Returns: the cell of the payoff's matrix for two choices; nothing where there are not two, or
/// one has no label. Labels are either the choices themselves or, in the same order, other names
/// for them.
std::optional<std::string> worth_of(const scenario& scenario, const run_result& so_far) {
    if (!scenario.worth || so_far.choices.size() != 2) return std::nullopt;
    const auto place = [&](const std::string& choice) -> std::optional<std::size_t> {
        const bool are_named =
            scenario.end && scenario.end->choices.size() == scenario.worth->labels.size();
        const std::vector<std::string>& names =
            are_named ? scenario.end->choices : scenario.worth->labels;
        const auto found = std::ranges::find(names, choice);
        if (found == names.end()) return std::nullopt;
        return static_cast<std::size_t>(found - names.begin());
    };
    const auto row = place(so_far.choices[0].second);
    const auto column = place(so_far.choices[1].second);
    if (!row || !column) return std::nullopt;
    return scenario.worth->matrix[*row][*column];
}

}  // namespace

std::string agent_id_of(const scenario& scenario, std::string_view key) {
    return "scn_" + scenario.id + "_" + std::string(key);
}

std::string quoted_for(const scenario& scenario, std::string_view text, const phases_done& done,
                       const std::function<bool(const phase&)>& remembers) {
    const std::vector<reference> references = references_in(text);
    std::size_t left = coordination::prompt_characters_max;
    const std::size_t own = coordination::characters(text);
    // What the text itself takes, without its references, which are replaced.
    left -= std::min(left, own);
    // The references themselves are replaced, so their characters are free.
    for (const reference& each : references) left += each.end - each.begin;
    std::set<std::string> full;  // phases of which nothing has a place any more
    std::string out;
    std::size_t from = 0;
    for (const reference& each : references) {
        out += text.substr(from, each.begin - from);
        from = each.end;
        const phase* quoted = scenario.find_phase(each.phase);
        if (quoted != nullptr && remembers(*quoted)) continue;
        const auto said = done.find(each.phase);
        const bool has_lines =
            said != done.end() && std::ranges::any_of(said->second.lines, is_spoken);
        if (full.contains(each.phase)) continue;
        if (has_lines) {
            const std::string lines = quote(scenario, each, said->second, left);
            if (lines.empty()) full.insert(each.phase);
            out += lines;
        } else if (left >= nothing_said.size()) {
            out += nothing_said;
            left -= nothing_said.size();
        }
    }
    return out += text.substr(from);
}

coordination::session spoken_of(const coordination::session& said) {
    coordination::session copy = coordination::without_lines(said);
    for (const coordination::line& each : said.lines)
        if (is_spoken(each)) coordination::add_line(copy, each);
    return copy;
}

std::set<std::string> phases_quoted(const phase& phase) {
    std::set<std::string> names;
    const auto add = [&](std::string_view text) {
        for (const reference& each : references_in(text)) names.insert(each.phase);
    };
    add(phase.initial_template);
    for (const auto& [key, text] : phase.own_templates) add(text);
    return names;
}

coordination::opening opening_of(const scenario& scenario, const phase& opened,
                                 std::string session_id, std::string prefix,
                                 const phases_done& done) {
    coordination::opening out;
    session& made = out.made;
    made.id = std::move(session_id);
    made.form = opened.form;
    made.format = opened.format;
    made.decides = opened.decides;
    made.max_turns = opened.max_turns;
    made.prefix = std::move(prefix);
    for (const std::string& key : opened.agents) {
        const scenario_agent& each = *scenario.find_agent(key);
        made.agents.push_back(
            {agent_id_of(scenario, key), each.name, each.role, each.system_prompt, each.life});
    }
    const auto quoted = [&](std::size_t reader, std::string_view text) {
        const coordination::agent& agent = made.agents[reader];
        const std::string& key = opened.agents[reader];
        return quoted_for(scenario, text, done, [&](const phase& earlier) {
            return coordination::outlives(made, agent) && has(earlier, key);
        });
    };
    // The quoted lines depend on the agent that reads them.
    if (references_in(opened.initial_template).empty()) {
        out.initial_prompt = opened.initial_prompt;
    } else {
        for (std::size_t i = 0; i < opened.agents.size(); ++i)
            out.own_prompts.emplace_back(static_cast<int>(i), quoted(i, opened.initial_template));
    }
    for (const auto& [key, text] : opened.own_templates) {
        const auto reader =
            static_cast<std::size_t>(std::ranges::find(opened.agents, key) - opened.agents.begin());
        out.own_prompts.emplace_back(static_cast<int>(reader), quoted(reader, text));
    }
    std::erase_if(out.own_prompts, [](const auto& each) {
        return each.second.find_first_not_of(" \t\r\n") == std::string::npos;
    });
    return out;
}

run_result result_of(const scenario& scenario, const phases_done& done) {
    run_result out;
    // Requires that the last phase is done.
    const session& last = done.at(scenario.phases.back().name);
    const auto spoken = std::find_if(last.lines.rbegin(), last.lines.rend(), is_spoken);
    if (spoken != last.lines.rend()) out.text = spoken->text;
    if (!scenario.end) return out;
    if (scenario.end->method == outcome::kind::parse_choice) {
        read_choices(scenario, done, out);
    } else if (scenario.end->method == outcome::kind::vote_tally) {
        for (const coordination::question& each : last.questions)
            out.choices.emplace_back(each.text, each.winner);
    }
    out.worth = worth_of(scenario, out);
    return out;
}

}  // namespace semantic::protocol::scenarios
