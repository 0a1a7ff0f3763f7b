// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/message_threads.hpp"

#include <algorithm>

#include "engine/prompt/next_turn.hpp"
#include "engine/prompt/prompt_notes.hpp"
#include "engine/prompt/prompt_text.hpp"
#include "engine/prompt/prompt_tokens.hpp"
#include "engine/prompt/told_day.hpp"

namespace semantic::engine {

// Renders the same chat with two efforts and compares.
bool message_threads::prints_effort() const {
    conversation chat;
    chat.messages.push_back({role::user, {text_part{"-"}}});
    render_options low;
    render_options high;
    low.reasoning_effort = "low";
    high.reasoning_effort = "high";
    auto one = template_.render(chat, low);
    auto other = template_.render(chat, high);
    return one && other && *one != *other;
}

namespace {

/// Notes the tools that later messages may add, and those that may be called, for later turns.
void note_late_tools(const conversation& chat, resolved_prompt& prompt) {
    prompt.notes.erase(thread_deferred_note);
    prompt.notes.erase(thread_callable_note);
    if (!chat.deferred_tools.empty())
        prompt.notes[thread_deferred_note] = encode_tools(chat.deferred_tools);
    if (chat.callable) prompt.notes[thread_callable_note] = encode_tools(*chat.callable);
}

tool_lists tools_in(const storage::agent_state& memory) {
    tool_lists tools{decode_tools(note_of(memory, thread_tools_note)),
                     decode_tools(note_of(memory, thread_deferred_note))};
    if (memory.notes.contains(thread_callable_note))
        tools.callable = decode_tools(note_of(memory, thread_callable_note));
    return tools;
}

}  // namespace

void message_threads::note(const generation_request& request, const render_options& options,
                           resolved_prompt& prompt) const {
    prompt.notes[thread_tools_note] = encode_tools(request.chat.tools);
    note_late_tools(request.chat, prompt);
    prompt.notes[answers_note] = begin_note(request.message_id.value(), prompt.answer_begin());
    if (prints_effort()) prompt.notes[thread_effort_note] = options.reasoning_effort;
}

std::shared_ptr<const storage::agent_state> message_threads::memory_of(
    const storage::tenant_id& tenant, const std::string& message_id) const {
    auto place = store_.find_message(tenant, message_id);
    auto memory = place ? store_.find(place->agent) : nullptr;
    // The memory may be newer than the found place, and no longer have the answer.
    bool is_there = memory && memory->notes.contains(thread_tools_note) &&
                    std::ranges::find(memory->messages, message_id, &storage::message_end::id) !=
                        memory->messages.end();
    return is_there ? memory : nullptr;
}

std::optional<thread_turn> message_threads::find(const storage::tenant_id& tenant,
                                                 const std::string& message_id) const {
    auto memory = memory_of(tenant, message_id);
    if (!memory) return std::nullopt;
    // A client that continues the answer before the last one may not have received the last one,
    // and asks for it again: only earlier answers count as continued.
    const auto named = std::ranges::find(memory->messages, message_id, &storage::message_end::id);
    return thread_turn{tools_in(*memory), note_of(*memory, thread_effort_note),
                       memory->messages.end() - named > 2};
}

storage::result<resolved_prompt> message_threads::resume(const generation_request& request,
                                                         const text_bound* bound) const {
    auto memory = memory_of(request.tenant, *request.continues);
    if (!memory)
        return storage::failure{storage::errc::not_found,
                                "there is no thread with the answer " + *request.continues};
    auto end = std::ranges::find(memory->messages, *request.continues, &storage::message_end::id);
    marked_text text = remembered_text(tokenizer_, *memory, end->tokens);
    text.write(end->rest);
    const std::size_t said = text.size();
    // Without a note the answer counts as empty: only the names of its calls are read.
    const std::size_t begin =
        std::min(begin_of(note_of(*memory, answers_note), *request.continues).value_or(said), said);
    std::vector<std::string> changes;
    auto tail =
        render_after_answer(template_, std::string_view(text.bytes()).substr(begin), request.chat,
                            rendering_of(request.thinking, note_of(*memory, day_note)), &changes);
    if (!tail) return tail.error();

    text.append(*tail);
    resolved_prompt prompt{memory->id, text.bytes(), text.content()};
    // The caller of a refused prompt reads only `refused`: it needs no tokens and no notes.
    if (const std::int64_t excess = bound ? bound->excess_of(prompt.text) : 0; excess > 0) {
        prompt.refused = bound->refusal(excess);
        return prompt;
    }
    prompt.template_fit = std::move(changes);
    prompt.notes = memory->notes;
    note_late_tools(request.chat, prompt);
    // The answer that is continued stays noted: if this turn is broken off, the client can continue
    // that answer again.
    prompt.notes[answers_note] = begin_note(*request.continues, begin);
    prompt.notes[last_answer_note] = encode_answer({begin, end->tokens, end->rest});
    prompt_source source{memory, {}, true};
    source.match.kind = match_kind::extend;
    source.match.tokens = end->tokens;
    // No text is compared: the prompt was made from this memory, up to the end of the answer.
    source.match.common_bytes = said;
    tokenise(tokenizer_, source, prompt);
    mark_turns(template_, source, request.chat.end, prompt);
    if (request.message_id)
        prompt.notes[answers_note] += begin_note(*request.message_id, prompt.answer_begin());
    if (auto ok = check_tokens(tokenizer_, vocabulary_, prompt); !ok) return ok.error();
    prompt.messages.assign(memory->messages.begin(), end + 1);
    return prompt;
}

}  // namespace semantic::engine
