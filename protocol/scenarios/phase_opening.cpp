#include "protocol/scenarios/phase_opening.hpp"

#include <algorithm>

#include "protocol/coordination/memory.hpp"
#include "protocol/scenarios/choice_pattern.hpp"

namespace semantic::protocol::scenarios {

using coordination::nobody;
using coordination::session;

namespace {

// A line is looked at as far as this.
constexpr std::size_t matched_bytes_max = 4'000;
// Of a run's pattern, in all lines of all phases.
constexpr std::uint64_t matching_steps_max = 20'000'000;
constexpr std::string_view nothing_said = "(no messages yet)";
constexpr std::string_view left_out_note = "(earlier messages are left out)\n";

bool is_spoken(const coordination::line& each) {
    return each.sender != nobody && !each.is_hidden && each.visible_to.empty();
}

/// The latest lines that have a place in `characters_left`, which becomes what is left then. Empty
/// when none has: then none has one later.
std::string quote(const scenario& of, const reference& what, const session& said,
                  std::size_t& characters_left) {
    const std::string self = agent_id_of(of, what.agent);
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
    // So that there is a place for it when it is needed.
    const std::size_t note = std::min(characters_left, left_out_note.size());
    characters_left -= note;
    bool are_all = true;
    for (auto each = said.lines.rbegin(); each != said.lines.rend() && are_all; ++each) {
        if (!is_spoken(*each)) continue;
        const coordination::agent& who = said.agents[static_cast<std::size_t>(each->sender)];
        are_all =
            take((who.id == self ? "You" : who.name) + ": ", each->text, lines.empty() ? "" : "\n");
    }
    characters_left += note;
    if (lines.empty()) return {};
    if (!are_all) take({}, left_out_note, {});
    std::string out;
    for (auto each = lines.rbegin(); each != lines.rend(); ++each) out += *each;
    return out;
}

bool has(const phase& which, std::string_view key) {
    return std::ranges::find(which.agents, key) != which.agents.end();
}

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

/// The last choice that an agent has spoken of in a phase.
std::string choice_of(const outcome& end, const choice_pattern& pattern, const session& said,
                      const std::string& agent_id, storage::work_budget& budget) {
    const int speaker = said.find(agent_id);
    std::string choice;
    for (auto each = said.lines.rbegin(); each != said.lines.rend() && choice.empty(); ++each)
        if (is_spoken(*each) && each->sender == speaker)
            choice = found_choice(end, pattern, each->text, budget);
    return choice;
}

void read_choices(const scenario& of, const phases_done& done, run_result& into) {
    const auto pattern = choice_pattern::compile(of.end->pattern);
    if (!pattern) return;  // parse_scenario() takes none of these
    storage::work_budget budget({.steps = matching_steps_max});
    for (const std::string& key : of.phases.back().agents) {
        const scenario_agent& who = *of.find_agent(key);
        if (who.role != "participant") continue;
        std::string choice;
        for (auto phase = of.phases.rbegin(); phase != of.phases.rend() && choice.empty(); ++phase)
            if (const auto said = done.find(phase->name); said != done.end())
                choice = choice_of(*of.end, *pattern, said->second, agent_id_of(of, key), budget);
        if (!choice.empty()) into.choices.emplace_back(who.name, std::move(choice));
    }
}

/// Labels are the choices in their order, or words of their own for them.
std::optional<std::string> worth_of(const scenario& of, const run_result& so_far) {
    if (!of.worth || so_far.choices.size() != 2) return std::nullopt;
    const auto place = [&](const std::string& choice) -> std::optional<std::size_t> {
        const bool are_named = of.end && of.end->choices.size() == of.worth->labels.size();
        const std::vector<std::string>& names = are_named ? of.end->choices : of.worth->labels;
        const auto found = std::ranges::find(names, choice);
        if (found == names.end()) return std::nullopt;
        return static_cast<std::size_t>(found - names.begin());
    };
    const auto row = place(so_far.choices[0].second);
    const auto column = place(so_far.choices[1].second);
    if (!row || !column) return std::nullopt;
    return of.worth->matrix[*row][*column];
}

}  // namespace

std::string agent_id_of(const scenario& of, std::string_view key) {
    return "scn_" + of.id + "_" + std::string(key);
}

std::string quoted_for(const scenario& of, std::string_view text, const phases_done& done,
                       const std::function<bool(const phase&)>& remembers) {
    const std::vector<reference> references = references_in(text);
    std::size_t left = coordination::prompt_characters_max;
    const std::size_t own = coordination::characters(text);
    left -= std::min(left, own);
    for (const reference& each : references) left += each.end - each.begin;
    std::set<std::string> full;  // phases of which nothing has a place any more
    std::string out;
    std::size_t from = 0;
    for (const reference& each : references) {
        out += text.substr(from, each.begin - from);
        from = each.end;
        const phase* quoted = of.find_phase(each.phase);
        if (quoted != nullptr && remembers(*quoted)) continue;
        const auto said = done.find(each.phase);
        const bool has_lines =
            said != done.end() && std::ranges::any_of(said->second.lines, is_spoken);
        if (full.contains(each.phase)) continue;
        if (has_lines) {
            const std::string lines = quote(of, each, said->second, left);
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

std::set<std::string> phases_quoted(const phase& which) {
    std::set<std::string> names;
    const auto add = [&](std::string_view text) {
        for (const reference& each : references_in(text)) names.insert(each.phase);
    };
    add(which.initial_template);
    for (const auto& [key, text] : which.own_templates) add(text);
    return names;
}

coordination::opening opening_of(const scenario& of, const phase& which, std::string session_id,
                                 std::string prefix, const phases_done& done) {
    coordination::opening out;
    session& made = out.made;
    made.id = std::move(session_id);
    made.form = which.form;
    made.format = which.format;
    made.decides = which.decides;
    made.max_turns = which.max_turns;
    made.prefix = std::move(prefix);
    for (const std::string& key : which.agents) {
        const scenario_agent& each = *of.find_agent(key);
        made.agents.push_back(
            {agent_id_of(of, key), each.name, each.role, each.system_prompt, each.life});
    }
    const auto quoted = [&](std::size_t reader, std::string_view text) {
        const coordination::agent& who = made.agents[reader];
        const std::string& key = which.agents[reader];
        return quoted_for(of, text, done, [&](const phase& earlier) {
            return coordination::outlives(made, who) && has(earlier, key);
        });
    };
    // What is quoted depends on who reads it.
    if (references_in(which.initial_template).empty()) {
        out.initial_prompt = which.initial_prompt;
    } else {
        for (std::size_t i = 0; i < which.agents.size(); ++i)
            out.own_prompts.emplace_back(static_cast<int>(i), quoted(i, which.initial_template));
    }
    for (const auto& [key, text] : which.own_templates) {
        const auto reader =
            static_cast<std::size_t>(std::ranges::find(which.agents, key) - which.agents.begin());
        out.own_prompts.emplace_back(static_cast<int>(reader), quoted(reader, text));
    }
    std::erase_if(out.own_prompts, [](const auto& each) {
        return each.second.find_first_not_of(" \t\r\n") == std::string::npos;
    });
    return out;
}

run_result result_of(const scenario& of, const phases_done& done) {
    run_result out;
    const session& last = done.at(of.phases.back().name);
    const auto spoken = std::find_if(last.lines.rbegin(), last.lines.rend(), is_spoken);
    if (spoken != last.lines.rend()) out.text = spoken->text;
    if (!of.end) return out;
    if (of.end->what == outcome::kind::parse_choice) {
        read_choices(of, done, out);
    } else if (of.end->what == outcome::kind::vote_tally) {
        for (const coordination::question& each : last.questions)
            out.choices.emplace_back(each.text, each.winner);
    }
    out.worth = worth_of(of, out);
    return out;
}

}  // namespace semantic::protocol::scenarios
