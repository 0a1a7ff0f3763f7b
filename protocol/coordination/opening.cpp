// SPDX-License-Identifier: Apache-2.0
#include "protocol/coordination/opening.hpp"

#include <algorithm>

#include "protocol/coordination/memory.hpp"
#include "protocol/wire/fields.hpp"
#include "storage/types/ids.hpp"

namespace semantic::protocol::coordination {

namespace {

bool has_control_character(std::string_view text) {
    return std::ranges::any_of(
        text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

/// Reads a word of an enumeration; `otherwise` where the field is absent.
template <class Enum, class Names>
Enum word_at(const json_cursor& object, std::string_view key, const Names& names, Enum otherwise) {
    auto field = object.find(key);
    if (!field) return otherwise;
    const std::string_view word = field->as_string();
    for (std::size_t i = 0; i < names.size(); ++i)
        if (word == names[i]) return static_cast<Enum>(i);
    std::string all;
    for (const char* each : names) all += (all.empty() ? "" : ", ") + std::string(each);
    field->fail(errc::bad_value, "must be one of " + all + ", is " + quoted(word));
    return otherwise;
}

/// Reads a display name, which is shown in front of what its agent says, on one line. Complains of
/// names that could be confused with other text. `so_far`: the agents read before.
std::string parse_display_name(const json_cursor& item, const session& so_far) {
    std::string name = text_at(item, "display_name", name_characters_max, presence::required);
    const json_cursor place = item.place("display_name");
    if (has_control_character(name) || name.find(':') != std::string::npos)
        place.fail(errc::bad_value, "may not have a colon or a control character");
    if (name.starts_with(' ') || name.ends_with(' '))
        place.fail(errc::bad_value, "may not begin or end with a blank");
    // Agents read these words in front of their own lines and the session's.
    if (name == "You" || name == "System")
        place.fail(errc::bad_value, quoted(name) + " is nobody's name");
    if (std::ranges::find(so_far.agents, name, &agent::name) != so_far.agents.end())
        place.fail(errc::bad_value, "there is another agent of the name " + quoted(name));
    return name;
}

/// Reads an agent's id, or makes one. `so_far`: the session with the agents read before, for names
/// that are taken.
std::string parse_agent_id(const json_cursor& item, const session& so_far,
                           const std::function<std::string()>& new_agent_id) {
    auto field = item.find("agent_id");
    if (!field) return new_agent_id();
    std::string id(field->as_string());
    if (!is_name(id)) field->fail(errc::bad_value, "must be of [A-Za-z0-9._:-], and not empty");
    if (so_far.find(id) != nobody)
        field->fail(errc::bad_value, "there is another agent of the id " + quoted(id));
    return id;
}

/// Reads one agent of the session. `so_far`: as above.
agent parse_agent(const json_cursor& item, const session& so_far,
                  const std::function<std::string()>& new_agent_id) {
    agent one{parse_agent_id(item, so_far, new_agent_id), parse_display_name(item, so_far)};
    if (item.find("role")) one.role = bounded_at(item, "role", role_bytes_max);
    if (has_control_character(one.role))
        item.place("role").fail(errc::bad_value, "may not have a control character");
    one.system_prompt = text_at(item, "system_prompt", system_characters_max, presence::optional);
    one.life = word_at(item, "lifecycle", lifecycle_names, lifecycle::ephemeral);
    if (!item.ok()) return one;
    if (outlives(so_far, one) && one.id.starts_with('_'))
        item.place("agent_id")
            .fail(errc::bad_value, "of a permanent agent may not begin with an underscore");
    if (!storage::agent_id::parse(memory_name(so_far, one)))
        item.place("agent_id")
            .fail(errc::bad_value, "is too long: its memory's name, " +
                                       quoted(memory_name(so_far, one)) +
                                       ", may have 128 characters");
    return one;
}

/// Reads the agents one by one, since each name is compared with those before it.
void parse_agents(const json_cursor& root, const std::function<std::string()>& new_agent_id,
                  session& opened) {
    const json_cursor list = root.at("agents");
    const std::size_t count = parse_count(list, agents_max);
    if (list.ok() && count == 0) list.fail(errc::bad_value, "must have at least one agent");
    for (std::size_t i = 0; i < count && root.ok(); ++i)
        opened.agents.push_back(parse_agent(list.item(i), opened, new_agent_id));
}

/// Complains of rules of a session that contradict each other.
void check_rules(const json_cursor& root, const session& made) {
    const std::size_t speakers = speakers_of(made).size();
    if (speakers == 0)
        root.place("agents").fail(errc::bad_value, "all are observers, who do not speak");
    if (made.form == topology::whisper && speakers < 2)
        root.place("agents").fail(errc::bad_value, "topology whisper needs two that speak");
    if (made.form == topology::broadcast && made.format == debate_format::socratic)
        root.place("debate_format")
            .fail(errc::bad_value,
                  "socratic answers questions as they are asked; in a broadcast nobody hears them");
}

/// Reads per_agent_prompts, texts for one agent each. Names of no agent are ignored.
void parse_own_prompts(const json_cursor& root, opening& wanted) {
    auto field = root.find("per_agent_prompts");
    if (!field) return;
    for (const auto& item : field->as_object()) {
        const std::string_view name(item.key().data(), item.key().size());
        std::string text = text_at(*field, name, prompt_characters_max, presence::optional);
        auto found = std::ranges::find(wanted.made.agents, name, &agent::name);
        if (found == wanted.made.agents.end() || text.empty()) continue;
        wanted.own_prompts.emplace_back(static_cast<int>(found - wanted.made.agents.begin()),
                                        std::move(text));
    }
}

// Reads the messages that agents have read before this session, by the id of the reader. Messages
// of an id that is no agent of the session are checked and left out, since a client may send those
// of all its agents.
void parse_prior(const json_cursor& root, opening& wanted) {
    auto field = root.find("prior_agent_messages");
    if (!field) return;
    std::size_t all = 0;
    for (const auto& item : field->as_object()) {
        const std::string_view id(item.key().data(), item.key().size());
        const json_cursor list = field->at(id);
        const std::size_t count = parse_count(list, prior_messages_max);
        all += count;
        if (all > lines_max)
            field->fail(errc::bad_value, "may have " + std::to_string(lines_max) +
                                             " messages, those of all agents together");
        std::vector<prior_message> messages;
        for (std::size_t i = 0; i < count && root.ok(); ++i) {
            const json_cursor one = list.item(i);
            messages.push_back(
                {text_at(one, "sender_id", prompt_characters_max, presence::optional),
                 text_at(one, "sender_name", name_characters_max, presence::required),
                 text_at(one, "content", prompt_characters_max, presence::optional)});
            if (has_control_character(messages.back().sender_name))
                one.place("sender_name").fail(errc::bad_value, "may not have a control character");
        }
        if (const int reader = wanted.made.find(id); reader != nobody)
            wanted.prior.emplace_back(reader, std::move(messages));
    }
}

/// Reads the prefix for memories of permanent agents; empty: none.
std::string parse_prefix(const json_cursor& root) {
    std::string prefix =
        text_at(root, "persistent_cache_prefix", prefix_bytes_max, presence::optional);
    if (!prefix.empty() && !is_name(prefix))
        root.place("persistent_cache_prefix").fail(errc::bad_value, "must be of [A-Za-z0-9._:-]");
    return prefix;
}

/// Reads the whole request that opens a session.
opening parse_root(const json_cursor& root, std::string session_id,
                   const std::function<std::string()>& new_agent_id) {
    opening out;
    session& made = out.made;
    made.id = std::move(session_id);
    made.form = word_at(root, "topology", topology_names, topology::turn_by_turn);
    made.format = word_at(root, "debate_format", format_names, debate_format::free_form);
    made.decides = word_at(root, "decision_mode", decision_names, decision_mode::none);
    made.prefix = parse_prefix(root);
    if (auto turns = root.find("max_turns"))
        made.max_turns = static_cast<int>(turns->as_integer(0, turns_max));
    parse_agents(root, new_agent_id, made);
    if (!root.ok()) return out;
    check_rules(root, made);
    out.initial_prompt = text_at(root, "initial_prompt", prompt_characters_max, presence::optional);
    parse_own_prompts(root, out);
    parse_prior(root, out);
    return out;
}

}  // namespace

std::size_t characters(std::string_view text) noexcept {
    return static_cast<std::size_t>(std::ranges::count_if(
        text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string text_at(const json_cursor& object, std::string_view key, std::size_t max,
                    presence demanded) {
    auto field = object.find(key);
    if (!field) {
        // Complains that the field is missing.
        if (demanded == presence::required) object.at(key).as_string();
        return {};
    }
    const std::string_view text = field->as_string();
    if (demanded == presence::required && text.empty())
        field->fail(errc::bad_value, "must not be empty");
    if (const std::size_t count = characters(text); count > max)
        field->fail(errc::bad_value, "may have " + std::to_string(max) + " characters, has " +
                                         std::to_string(count));
    return std::string(text);
}

bool is_name(std::string_view text) noexcept {
    return !text.empty() && std::ranges::all_of(text, [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '_' || c == ':' || c == '-';
    });
}

result<opening> parse_opening(std::string_view body, std::string session_id,
                              const std::function<std::string()>& new_agent_id,
                              const json_limits& limits) {
    return read_object(body, limits, [&](const json_cursor& root) {
        return parse_root(root, std::move(session_id), new_agent_id);
    });
}

session open_session(opening wanted, const std::function<bool(const agent&)>& remembers,
                     const std::function<std::string()>& line_id) {
    session made = std::move(wanted.made);
    for (auto& [reader, messages] : wanted.prior) {
        // Its memory has them already.
        if (remembers(made.agents[static_cast<std::size_t>(reader)])) continue;
        for (prior_message& each : messages) {
            line one{line_id(), made.find(each.sender_id)};
            if (one.sender == nobody) one.sender_name = std::move(each.sender_name);
            one.text = std::move(each.text);
            one.visible_to = {reader};
            one.is_hidden = true;
            add_line(made, std::move(one));
        }
    }
    // Of no agent, and seen by all.
    if (!wanted.initial_prompt.empty()) {
        line one{line_id()};
        one.text = std::move(wanted.initial_prompt);
        add_line(made, std::move(one));
    }
    for (auto& [reader, text] : wanted.own_prompts) {
        line one{line_id()};
        one.text = std::move(text);
        one.visible_to = {reader};
        one.is_hidden = true;
        add_line(made, std::move(one));
    }
    made.round_start = made.lines.size();
    return made;
}

}  // namespace semantic::protocol::coordination
