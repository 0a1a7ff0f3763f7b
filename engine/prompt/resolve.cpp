#include "engine/prompt/resolve.hpp"

#include <xxhash.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <set>
#include <sstream>

#include "engine/prompt/miss_reason.hpp"
#include "engine/prompt/next_turn.hpp"
#include "storage/types/hex.hpp"

namespace semantic::engine {

namespace {

constexpr std::string_view anonymous_prefix = "msg_";
constexpr const char* system_note = "system_hash";
constexpr const char* tools_note = "tools_hash";
constexpr const char* day_note = "day";  // that the template was told
// Of an agent that keeps a thread: its tools, the effort that its prompt tells, and where in its
// text the latest answer begins and the one behind it, if that is being made.
constexpr const char* thread_tools_note = "thread_tools";
constexpr const char* thread_effort_note = "thread_effort";
constexpr const char* answers_note = "thread_answers";
// Days of other agents that a conversation of yesterday, or before, is looked for under.
constexpr std::size_t days_max = 8;
// How often a prompt is rendered anew with what models wrote in the closest memory.
constexpr int replays_max = 4;
// Agents whose memory is searched for a safe cut. The first has the most in common; others count
// only where that one's tokens cannot be cut as late as theirs.
constexpr std::size_t neighbours_max = 32;

std::string hash_of(std::string_view text) {
    return storage::hex_of(XXH3_64bits(text.data(), text.size()));
}

storage::agent_id new_anonymous_id() {
    thread_local std::random_device entropy;
    std::uint64_t value = (static_cast<std::uint64_t>(entropy()) << 32) | entropy();
    return *storage::agent_id::parse(std::string(anonymous_prefix) + storage::hex_of(value));
}

std::map<std::string, std::string> notes_of(const conversation& chat) {
    std::string tools;
    for (const tool_definition& tool : chat.tools)
        for (const std::string* field : {&tool.name, &tool.description, &tool.parameters_json})
            tools += std::to_string(field->size()) + ":" + *field;
    return {{system_note, hash_of(chat.system)}, {tools_note, hash_of(tools)}};
}

std::string note_of(const storage::agent_state& state, const char* key) {
    auto found = state.notes.find(key);
    return found == state.notes.end() ? std::string() : found->second;
}

render_options rendering_of(const thinking_params& wanted, std::string day) {
    render_options options;
    options.date = std::move(day);
    options.thinking = wanted.enabled.value_or(options.thinking);
    options.reasoning_effort = wanted.effort.value_or(options.reasoning_effort);
    return options;
}

// The conversation up to the first answer.
conversation opening_of(const conversation& chat) {
    conversation opening{chat.system, {}, chat.tools};
    for (const message& one : chat.messages) {
        if (one.from == role::assistant) break;
        opening.messages.push_back(one);
    }
    return opening;
}

bool same_note(const storage::agent_state& state, const resolved_prompt& prompt, const char* key) {
    auto found = state.notes.find(key);
    return found != state.notes.end() && found->second == prompt.notes.at(key);
}

// The agent had a memory that the prompt does not continue: which part of the request changed.
miss_reason why_diverged(const storage::agent_state& state, const resolved_prompt& prompt) {
    if (!same_note(state, prompt, tools_note)) return miss_reason::tools_changed;
    if (!same_note(state, prompt, system_note)) return miss_reason::system_changed;
    return miss_reason::messages_changed;
}

// An agent's conversation up to the end of its last complete answer. An answer that was cut off by
// its client is none: what is appended then takes its place.
std::string conversation_of(const storage::agent_state& own) {
    if (own.messages.empty()) return own.text;
    const storage::message_end& last = own.messages.back();
    const std::size_t bytes = last.tokens == 0 ? 0 : own.token_ends[last.tokens - 1];
    return own.text.substr(0, bytes) + last.rest;
}

bool is_whole(match_kind kind) { return kind == match_kind::exact || kind == match_kind::extend; }

// The agent's answers that the prompt still has in front.
std::vector<storage::message_end> messages_kept(const storage::agent_state& own,
                                                const std::vector<token_id>& tokens) {
    auto parting = std::ranges::mismatch(own.tokens, tokens).in1;
    auto common = static_cast<std::uint32_t>(parting - own.tokens.begin());
    std::vector<storage::message_end> kept;
    for (const storage::message_end& each : own.messages)
        if (each.tokens <= common) kept.push_back(each);
    return kept;
}

std::string begin_note(const std::string& message_id, std::size_t begin) {
    return message_id + " " + std::to_string(begin) + " ";
}

// Where in the text the answer begins; nothing when the note does not have it.
std::optional<std::size_t> begin_of(const std::string& note, const std::string& message_id) {
    std::istringstream words(note);
    std::string id;
    std::size_t begin = 0;
    while (words >> id >> begin)
        if (id == message_id) return begin;
    return std::nullopt;
}

// Those of the source's turns that stand in the prompt, at the same place.
std::vector<sampled_turn> turns_in(const storage::agent_state& state, std::size_t common_bytes) {
    auto note = state.notes.find(turns_note);
    if (note == state.notes.end()) return {};
    auto turns = decode_turns(note->second, state.text.size());
    std::erase_if(turns, [&](const sampled_turn& turn) { return turn.end > common_bytes; });
    return turns;
}

bool is_anonymous(const storage::agent_id& id) { return id.str().starts_with(anonymous_prefix); }

}  // namespace

std::string local_day() {
    std::time_t now = std::time(nullptr);
    std::tm day{};
    localtime_r(&now, &day);
    char text[16];
    return {text, std::strftime(text, sizeof text, "%Y-%m-%d", &day)};
}

// Where the prompt may be cut, asked of the tokenizer once for each place: agents that share a
// prefix are asked about the same places, and each answer may take milliseconds.
class resolver::cuts {
  public:
    cuts(const tokenizer& words, std::string_view prompt) : words_(words), prompt_(prompt) {}

    boundary_rules rules() {
        return {[this](std::size_t at) { return is_safe(at); },
                [this](token_id id) { return words_.is_special(id); }};
    }
    std::string_view prompt() const { return prompt_; }

  private:
    bool is_safe(std::size_t at) {
        auto [known, is_new] = known_.try_emplace(at, false);
        if (is_new)
            known->second = words_.is_safe_boundary(prompt_.substr(0, at), prompt_.substr(at));
        return known->second;
    }
    const tokenizer& words_;
    std::string_view prompt_;
    std::map<std::size_t, bool> known_;
};

resolver::candidate resolver::match(std::shared_ptr<const storage::agent_state> state,
                                    cuts& of) const {
    if (!state) return {};
    prefix_match found =
        match_prefix({state->text, state->tokens, state->token_ends}, of.prompt(), of.rules());
    return {std::move(state), found};
}

std::shared_ptr<const storage::agent_state> resolver::own_memory(
    const generation_request& request) const {
    return request.agent ? store_.find(*request.agent) : nullptr;
}

resolver::candidate resolver::best_source(const generation_request& request, cuts& of) const {
    candidate best;
    if (request.agent) {
        best = match(store_.find(*request.agent), of);
        if (is_whole(best.match.kind)) return best;
    }
    if (request.parent && !best.state) best = match(store_.find(*request.parent), of);
    auto others = store_.closest(request.tenant, of.prompt(), neighbours_max);
    for (storage::prefix_neighbour& other : others) {
        // As much again is of use only when it is all of a memory, which may then be continued.
        if (other.common_bytes < best.match.bytes ||
            (other.common_bytes == best.match.bytes && is_whole(best.match.kind)))
            break;
        candidate found = match(std::move(other.state), of);
        if (found.match.bytes > best.match.bytes ||
            (found.match.bytes == best.match.bytes && is_whole(found.match.kind)))
            best = std::move(found);
    }
    return best;
}

/// Renders again with the turns that the model wrote in `state`, and keeps that where it continues
/// a memory further.
storage::result<void> resolver::render_as_sampled(const generation_request& request,
                                                  const render_options& options,
                                                  const storage::agent_state& state,
                                                  rendering& best) const {
    auto note = state.notes.find(turns_note);
    if (note == state.notes.end()) return {};
    conversation chat = request.chat;
    auto turns = decode_turns(note->second, state.text.size());
    if (replay_turns(chat, state.text, turns, template_) == 0) return {};
    auto text = template_.render(chat, options);
    if (!text) return text.error();
    if (*text == best.text) return {};
    cuts of(tokenizer_, *text);
    candidate source = best_source(request, of);
    if (source.match.bytes > best.source.match.bytes) best = {std::move(*text), std::move(source)};
    return {};
}

storage::result<resolver::rendering> resolver::render(const generation_request& request,
                                                      const render_options& options) const {
    auto text = prompt_of(request, options);
    if (!text) return text.error();
    rendering best{std::move(*text), {}};
    cuts of(tokenizer_, best.text);
    best.source = best_source(request, of);
    if (request.append || request.text) return best;  // no turn of the model's comes back reworded
    if (auto own = own_memory(request); own && !is_whole(best.source.match.kind))
        if (auto ok = render_as_sampled(request, options, *own, best); !ok) return ok.error();
    // Each pass may get past a turn where the closest memories part, and so find others.
    for (int pass = 0; pass < replays_max; ++pass) {
        auto source = best.source.state;
        if (!source || is_whole(best.source.match.kind)) break;
        std::size_t before = best.source.match.bytes;
        if (auto ok = render_as_sampled(request, options, *source, best); !ok) return ok.error();
        if (best.source.match.bytes == before) break;
    }
    return best;
}

// Whether a memory holds this conversation's opening and more, told under `day`.
bool resolver::continues_on(const std::string& day, const generation_request& request,
                            const render_options& options) const {
    render_options then = options;
    then.date = day;
    auto opening = template_.render(opening_of(request.chat), then);
    auto whole = template_.render(request.chat, then);
    if (!opening || !whole) return false;
    auto closest = store_.closest(request.tenant, *whole, 1);
    return !closest.empty() &&
           closest[0].common_bytes >= storage::common_prefix_bytes(*opening, *whole);
}

render_options resolver::options_for(const generation_request& request) const {
    render_options options = rendering_of(request.thinking, today_());
    if (!template_.prints_day()) return options;
    auto own = own_memory(request);
    if (own) {
        if (std::string told = note_of(*own, day_note); !told.empty()) options.date = told;
        return options;
    }
    if (opening_of(request.chat).messages.size() == request.chat.messages.size()) return options;
    std::set<std::string, std::greater<>> days;  // the latest first
    for (const storage::agent_summary& other : store_.list(request.tenant))
        if (auto state = store_.find(other.id); state && !state->is_private())
            if (std::string day = note_of(*state, day_note); !day.empty()) days.insert(day);
    std::size_t tried = 0;
    for (const std::string& day : days) {
        if (tried++ == days_max) break;
        if (!continues_on(day, request, options)) continue;
        options.date = day;
        break;
    }
    return options;
}

// A prompt that has all up to the last answer is a turn: the next one, or the last one again.
// Where that answer begins, its note says if it was complete; families with channels begin inside
// of an answer anew.
bool resolver::is_branch(const generation_request& request, std::string_view text) const {
    auto own = request.agent_may_branch ? own_memory(request) : nullptr;
    if (!own || own->tokens.empty()) return false;
    std::size_t last_answer = std::min(own->text.rfind(template_.turn_begin()), own->text.size());
    const auto turns = turns_in(*own, own->text.size());
    if (!turns.empty()) last_answer = std::min<std::size_t>(last_answer, turns.back().begin);
    if (storage::common_prefix_bytes(own->text, text) >= last_answer) return false;
    return text.size() < own->text.size() ||
           note_of(*own, tools_note) != notes_of(request.chat).at(tools_note);
}

void resolver::tokenise(resolved_prompt& prompt, const candidate& source) const {
    std::size_t reuse = source.match.tokens;
    std::size_t known = reuse + (source.match.kind == match_kind::exact ? 1 : 0);
    std::size_t at = 0;
    if (known > 0) {
        const storage::agent_state& state = *source.state;
        auto count = static_cast<std::ptrdiff_t>(known);
        prompt.tokens.assign(state.tokens.begin(), state.tokens.begin() + count);
        prompt.token_ends.assign(state.token_ends.begin(), state.token_ends.begin() + count);
        at = prompt.token_ends.back();
    }
    std::vector<std::uint32_t> ends;
    std::vector<token_id> rest = tokenizer_.encode(std::string_view(prompt.text).substr(at), ends);
    prompt.tokens.insert(prompt.tokens.end(), rest.begin(), rest.end());
    for (std::uint32_t end : ends)
        prompt.token_ends.push_back(static_cast<std::uint32_t>(at) + end);
    prompt.reuse_tokens = static_cast<int>(reuse);
    if (reuse > 0) {
        prompt.source = source.state;
        prompt.private_salt = source.state->private_salt;
    }
    prompt.match = source.match.kind;
}

storage::result<std::string> resolver::prompt_of(const generation_request& request,
                                                 const render_options& options) const {
    auto own = request.append ? store_.find(*request.agent) : nullptr;
    const bool is_first = !own || own->tokens.empty();
    if (is_first) {
        if (!request.text) return template_.render(request.chat, options);
        const std::string bos = template_.bos();
        return request.text->starts_with(bos) ? *request.text : bos + *request.text;
    }
    if (request.text) return conversation_of(*own) + *request.text;
    const std::string text = conversation_of(*own);
    const std::size_t answers = own->messages.size();
    const std::uint32_t before = answers < 2 ? 0 : own->messages[answers - 2].tokens;
    const std::size_t begin = before == 0 ? 0 : own->token_ends[before - 1];
    auto tail = render_behind_answer(template_, std::string_view(text).substr(begin),
                                     request.chat.messages, options);
    if (!tail) return tail;
    return text + *tail;
}

storage::result<resolved_prompt> resolver::resolve(
    const generation_request& request,
    const std::function<bool(const storage::agent_id&)>& busy) const {
    if (request.continues) return continue_thread(request);
    render_options options = options_for(request);
    auto rendered = render(request, options);
    if (!rendered) return rendered.error();
    const candidate& source = rendered->source;
    const bool is_named = request.agent && !is_branch(request, rendered->text);
    bool continues = !is_named && source.state && is_whole(source.match.kind) &&
                     is_anonymous(source.state->id) && !busy(source.state->id);
    resolved_prompt prompt{is_named    ? *request.agent
                           : continues ? source.state->id
                                       : new_anonymous_id().of(request.tenant),
                           std::move(rendered->text)};
    auto own = own_memory(request);
    const bool appended = request.append && own && !own->tokens.empty();
    prompt.notes = appended ? own->notes : notes_of(request.chat);
    if (template_.prints_day()) prompt.notes.emplace(day_note, options.date);
    tokenise(prompt, source);
    if (auto ok = check_tokens(prompt); !ok) return ok.error();
    if (request.keeps_thread) note_thread(request, options, prompt);
    mark_turns(prompt, source);
    if (auto known = store_.find(prompt.agent))
        prompt.messages = messages_kept(*known, prompt.tokens);
    // What is appended changes nothing that was said.
    if (own && !own->tokens.empty() && !appended && !is_whole(source.match.kind)) {
        cuts again(tokenizer_, prompt.text);
        candidate mine = match(own, again);
        prompt.why = prompt.reuse_tokens == 0 && mine.match.common_bytes > 0
                         ? miss_reason::too_short
                         : why_diverged(*own, prompt);
        prompt.detail = "the prompt parts from the agent's memory at byte " +
                        std::to_string(mine.match.common_bytes) + " of " +
                        std::to_string(own->text.size());
    }
    if (request.agent && !own) prompt.why = reason_of(store_.why_absent(*request.agent));
    return prompt;
}

void resolver::mark_turns(resolved_prompt& prompt, const candidate& source) const {
    std::size_t turn = prompt.text.rfind(template_.turn_begin());
    prompt.turn_begin = turn == std::string::npos ? prompt.text.size() : turn;
    if (source.state) prompt.turns = turns_in(*source.state, source.match.common_bytes);
}

storage::result<void> resolver::check_tokens(const resolved_prompt& prompt) const {
    if (prompt.tokens.empty())
        return storage::failure{storage::errc::bad_value, "the prompt has no tokens"};
    auto foreign =
        std::ranges::find_if(prompt.tokens, [&](token_id id) { return id >= vocabulary_; });
    if (foreign == prompt.tokens.end()) return {};
    std::string what = "the prompt contains ";
    what.append(tokenizer_.bytes(*foreign)).append(", a token that this model has no meaning for");
    return storage::failure{storage::errc::bad_value, std::move(what)};
}

bool resolver::tells_effort() const {
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

void resolver::note_thread(const generation_request& request, const render_options& options,
                           resolved_prompt& prompt) const {
    prompt.notes[thread_tools_note] = encode_tools(request.chat.tools);
    prompt.notes[answers_note] = begin_note(request.message_id.value(), prompt.text.size());
    if (tells_effort()) prompt.notes[thread_effort_note] = options.reasoning_effort;
}

std::shared_ptr<const storage::agent_state> resolver::thread_memory(
    const storage::tenant_id& tenant, const std::string& message_id) const {
    auto place = store_.find_message(tenant, message_id);
    auto memory = place ? store_.find(place->agent) : nullptr;
    // The memory may be a newer one than the place is of.
    bool is_there = memory && memory->notes.contains(thread_tools_note) &&
                    std::ranges::find(memory->messages, message_id, &storage::message_end::id) !=
                        memory->messages.end();
    return is_there ? memory : nullptr;
}

std::optional<thread_turn> resolver::find_thread(const storage::tenant_id& tenant,
                                                 const std::string& message_id) const {
    auto memory = thread_memory(tenant, message_id);
    if (!memory) return std::nullopt;
    return thread_turn{decode_tools(note_of(*memory, thread_tools_note)),
                       note_of(*memory, thread_effort_note),
                       memory->messages.back().id != message_id};
}

storage::result<resolved_prompt> resolver::continue_thread(
    const generation_request& request) const {
    auto memory = thread_memory(request.tenant, *request.continues);
    if (!memory)
        return storage::failure{storage::errc::not_found,
                                "there is no thread with the answer " + *request.continues};
    auto end = std::ranges::find(memory->messages, *request.continues, &storage::message_end::id);
    std::string text =
        memory->text.substr(0, end->tokens == 0 ? 0 : memory->token_ends[end->tokens - 1]) +
        end->rest;
    const std::size_t begin =
        std::min(begin_of(note_of(*memory, answers_note), *request.continues).value_or(text.size()),
                 text.size());
    auto tail =
        render_behind_answer(template_, std::string_view(text).substr(begin), request.chat.messages,
                             rendering_of(request.thinking, note_of(*memory, day_note)));
    if (!tail) return tail.error();

    resolved_prompt prompt{memory->id, text + *tail};
    prompt.notes = memory->notes;
    // Both: should this turn be broken off, the answer before it can be gone on from once more.
    prompt.notes[answers_note] = begin_note(*request.continues, begin);
    if (request.message_id)
        prompt.notes[answers_note] += begin_note(*request.message_id, prompt.text.size());
    candidate source{memory, {}};
    source.match.kind = match_kind::extend;
    source.match.tokens = end->tokens;
    source.match.common_bytes = text.size();
    tokenise(prompt, source);
    mark_turns(prompt, source);
    if (auto ok = check_tokens(prompt); !ok) return ok.error();
    prompt.messages.assign(memory->messages.begin(), end + 1);
    return prompt;
}

storage::result<int> resolver::count_continued(const generation_request& request) const {
    auto prompt = continue_thread(request);
    if (!prompt) return prompt.error();
    return static_cast<int>(prompt->tokens.size());
}

storage::result<int> resolver::count_tokens(const conversation& chat,
                                            const thinking_params& thinking) const {
    auto rendered = template_.render(chat, rendering_of(thinking, today_()));
    if (!rendered) return rendered.error();
    return static_cast<int>(tokenizer_.encode(*rendered).size());
}

}  // namespace semantic::engine
