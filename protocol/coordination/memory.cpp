// SPDX-License-Identifier: Apache-2.0
#include "protocol/coordination/memory.hpp"

#include <algorithm>
#include <array>

namespace semantic::protocol::coordination {

namespace {

constexpr std::string_view persist_head = "persist_";
constexpr const char* nothing_new = "It is your turn to speak.";

const agent& member_at(const session& s, int index) {
    return s.agents[static_cast<std::size_t>(index)];
}

std::string_view trimmed(std::string_view text) {
    constexpr const char* blanks = " \t\r\n";
    const std::size_t begin = text.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

/// Returns: the text with every line but the first indented, so that no line of it looks like the
/// beginning of another agent's message ("Name: …").
std::string indented(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        // The two are one line break.
        if (text[i] == '\r' && text.substr(i + 1, 1) == "\n") continue;
        const bool is_break = text[i] == '\n' || text[i] == '\r';
        if (is_break)
            out += "\n  ";
        else
            out += text[i];
    }
    return out;
}

/// Returns: a line as the agent `reader` is shown it. It must never change afterwards, because the
/// agent's memory contains it.
std::string line_for(const session& s, const line& shown, int reader) {
    if (shown.sender == nobody && shown.sender_name.empty()) return indented(shown.text);
    std::string sender =
        shown.sender == nobody ? shown.sender_name : member_at(s, shown.sender).name;
    if (shown.sender == reader) sender = "You";
    if (shown.to != nobody)
        sender += shown.to == reader ? ", to you alone"
                                     : ", to " + member_at(s, shown.to).name + " alone";
    return sender + ": " + indented(shown.text);
}

/// Returns: a sentence about the debate format; empty for free_form.
std::string format_note(debate_format format) {
    constexpr std::array notes{
        "", "This is a structured debate: statements, rebuttals, closing words.",
        "This is a Socratic dialogue: one asks, the others answer.",
        "This is a debate with a devil's advocate, who argues against what is said.",
        "This is a parliamentary debate on a motion, with speeches for and against it."};
    return notes[static_cast<std::size_t>(index_of(format))];
}

/// Appends what an agent reads when it enters a session: that a new conversation begins, its role
/// where its memory does not have it, the debate format. Nothing where it has entered already.
void append_entry(const session& s, const memory& memory, const agent& reader,
                  std::vector<std::string>& parts) {
    if (reader.has_entered) return;
    if (!memory.is_new()) {
        std::string others;
        for (const agent& each : s.agents)
            if (each.id != reader.id) others += (others.empty() ? "" : ", ") + each.name;
        parts.push_back("A new conversation begins" +
                        (others.empty() ? "." : " with " + others + "."));
        if (!reader.system_prompt.empty() &&
            memory.system.find(reader.system_prompt) == std::string::npos)
            parts.push_back(reader.system_prompt);
    }
    if (std::string note = format_note(s.format); !note.empty()) parts.push_back(std::move(note));
}

/// Returns: what the agent has not read yet of the first `reads` lines, as far as it may see them,
/// without its own answers, which its memory has; without the cue.
std::vector<std::string> new_parts(const session& s, const memory& memory, int reader,
                                   std::size_t reads) {
    std::vector<std::string> parts;
    const agent& self = member_at(s, reader);
    append_entry(s, memory, self, parts);
    for (std::size_t i = self.lines_read; i < std::min(reads, s.lines.size()); ++i) {
        const line& one = s.lines[i];
        if (!may_see(one, reader) || (one.is_sampled && one.sender == reader)) continue;
        parts.push_back(line_for(s, one, reader));
    }
    return parts;
}

std::string joined(const std::vector<std::string>& parts) {
    std::string out;
    for (const std::string& each : parts) {
        if (!out.empty()) out += '\n';
        out += each;
    }
    return out;
}

engine::message text_message(engine::role from, const std::string& text) {
    return {from, {engine::text_part{text}}};
}

/// Returns: the system text of an agent, which says who it is.
std::string system_text(const agent& speaker) {
    std::string text = "Your name is " + speaker.name + ". ";
    text +=
        speaker.system_prompt.empty() ? "You are a " + speaker.role + "." : speaker.system_prompt;
    text +=
        "\nYou talk with others. What they say has their name in front. Speak as " + speaker.name;
    return text +
           " and as nobody else, in the first person, in one short reply, with no name in front.";
}

/// Returns: the prompt of an agent that reads `reading` after its memory.
prompt prompt_with(const agent& speaker, const memory& memory, std::string reading) {
    prompt out;
    out.append = memory.has_older;
    // Appended text needs no system text, unless there turns out to be nothing before it.
    out.chat.system = memory.exchanges.empty() ? system_text(speaker) : memory.system;
    for (const exchange& each : memory.exchanges) {
        out.chat.messages.push_back(text_message(engine::role::user, each.read));
        out.chat.messages.push_back(text_message(engine::role::assistant, each.said));
    }
    out.chat.messages.push_back(text_message(engine::role::user, reading));
    out.reading = std::move(reading);
    return out;
}

/// Returns: the length of a speaker's label, such as "Ada:", "**Ada**:" or "Ada said:", at the
/// start of `text`; 0 where there is none.
std::size_t label_length(std::string_view text, std::string_view name) {
    std::size_t at = 0;
    while (at < text.size() && at < 2 && (text[at] == '*' || text[at] == '[')) ++at;
    if (name.empty() || !text.substr(at).starts_with(name)) return 0;
    at += name.size();
    // The length of that word with its blank.
    if (text.substr(at).starts_with(" said")) at += 5;
    while (at < text.size() && (text[at] == '*' || text[at] == ']')) ++at;
    if (at >= text.size() || text[at] != ':') return 0;
    ++at;
    while (at < text.size() && text[at] == '*') ++at;
    return at;
}

}  // namespace

bool outlives(const session& s, const agent& agent) noexcept {
    return agent.life == lifecycle::permanent && !s.prefix.empty();
}

std::string memory_name(const session& s, const agent& agent) {
    if (!outlives(s, agent)) return "coord_" + s.id + "_" + agent.id;
    std::string name(persist_head);
    // Doubled, so that the single one after the prefix ends it.
    for (char c : s.prefix) name.append(c == '_' ? 2 : 1, c);
    return name + "_" + agent.id;
}

std::optional<std::string> prefix_of(std::string_view memory_name) {
    if (!memory_name.starts_with(persist_head)) return std::nullopt;
    std::string_view rest = memory_name.substr(persist_head.size());
    std::string prefix;
    for (std::size_t i = 0; i < rest.size(); ++i) {
        if (rest[i] != '_') {
            prefix += rest[i];
            continue;
        }
        const bool is_doubled = i + 1 < rest.size() && rest[i + 1] == '_';
        if (!is_doubled) {
            if (prefix.empty() || i + 1 == rest.size()) return std::nullopt;
            return prefix;
        }
        prefix += '_';
        ++i;
    }
    return std::nullopt;
}

std::string reading_of(const session& s, const memory& memory, const turn_plan& plan) {
    std::vector<std::string> parts = new_parts(s, memory, plan.agent, plan.reads);
    if (!plan.cue.empty()) parts.push_back(plan.cue);
    if (parts.empty()) parts.push_back(nothing_new);
    return joined(parts);
}

std::size_t unread_bytes(const session& s, int agent, std::size_t reads) noexcept {
    std::size_t bytes = 0;
    for (std::size_t i = member_at(s, agent).lines_read; i < std::min(reads, s.lines.size()); ++i)
        if (may_see(s.lines[i], agent)) bytes += s.lines[i].text.size();
    return bytes;
}

prompt prompt_of(const session& s, const memory& memory, const turn_plan& plan) {
    return prompt_with(member_at(s, plan.agent), memory, reading_of(s, memory, plan));
}

std::optional<prompt> prompt_ahead(const session& s, const memory& memory, const turn_plan& plan,
                                   bool is_followed) {
    std::vector<std::string> parts = new_parts(s, memory, plan.agent, plan.reads);
    // Where the agent has older memory than is known here, reading ahead would append to it for
    // good, so it is not possible.
    if (parts.empty() || memory.has_older) return std::nullopt;
    // Other lines, and the cue, will follow this text after a line break. The break is included,
    // since a tokenizer may join the end of a line and its break in one token.
    std::string reading = joined(parts);
    if (is_followed || !plan.cue.empty()) reading += '\n';
    return prompt_with(member_at(s, plan.agent), memory, std::move(reading));
}

prompt prompt_aside(const session& s, const memory& memory, int agent, std::string_view question) {
    std::vector<std::string> parts = new_parts(s, memory, agent, s.lines.size());
    parts.emplace_back(question);
    return prompt_with(member_at(s, agent), memory, joined(parts));
}

bool remember(memory& memory, const agent& speaker, std::string reading, std::string answer) {
    // The engine appends the text to memory that is not known here, so no exchange is kept.
    if (memory.has_older) return true;
    // No exchange: the agent reads the same lines again at its next turn.
    if (trimmed(answer).empty()) return false;
    if (memory.is_new()) memory.system = system_text(speaker);
    memory.exchanges.push_back({std::move(reading), std::move(answer)});
    return true;
}

std::string shown_text(std::string_view answer, std::string_view own_name,
                       const std::vector<std::string>& names) {
    answer = trimmed(answer);
    for (std::string_view label : {own_name, std::string_view("You")})
        if (const std::size_t length = label_length(answer, label); length > 0) {
            answer = trimmed(answer.substr(length));
            break;
        }
    // A model sometimes goes on in the name of other agents. Such text is cut off.
    for (std::size_t at = answer.find('\n'); at != std::string_view::npos;
         at = answer.find('\n', at + 1)) {
        const std::string_view rest = answer.substr(at + 1);
        const auto labels = [&](std::string_view name) { return label_length(rest, name) > 0; };
        if (std::ranges::any_of(names, labels) || labels("You") || labels("User") ||
            labels("System"))
            return std::string(trimmed(answer.substr(0, at)));
    }
    return std::string(answer);
}

}  // namespace semantic::protocol::coordination
