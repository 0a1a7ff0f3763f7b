// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/prompt_tokens.hpp"

#include <algorithm>

#include "engine/prompt/prompt_notes.hpp"
#include "engine/text/template/template_families.hpp"

namespace semantic::engine {

namespace {

/// How many of the prompt's tokens are known to be canonical (see canonical_note). `known`: how
/// many were taken from `source`.
std::size_t count_canonical(const prompt_source& source, std::size_t known,
                            const resolved_prompt& prompt) {
    if (known == 0 || !source.as_sampled) return prompt.tokens.size();
    const std::size_t canonical = canonical_tokens(*source.state);
    // A prompt that diverges was cut at a safe boundary, so its new tokens are canonical, too.
    if (source.match.kind == match_kind::diverge && known <= canonical) return prompt.tokens.size();
    return std::min(known, canonical);
}

/// Bytes of the prompt's text that come from the source, including the rest of its last answer that
/// a limit kept out of the memory's tokens.
std::size_t shared_bytes(const prompt_source& source, std::string_view text) {
    if (!source.as_sampled) return source.match.bytes;
    const std::size_t shared = source.match.common_bytes;
    const storage::agent_state& state = *source.state;
    if (shared < state.text.size()) return shared;
    const auto last = last_answer(state);
    const bool goes_on = last && last->tokens == state.tokens.size() &&
                         text.substr(state.text.size()).starts_with(last->rest);
    return goes_on ? std::max(shared, state.text.size() + last->rest.size()) : shared;
}

// Texts with more bytes than both of these are counted in pieces before they are tokenised as a
// whole: 1 MiB, and 8 bytes for each token that a conversation may have.
constexpr std::size_t uncounted_bytes_max = std::size_t{1} << 20;
constexpr std::size_t uncounted_bytes_per_token = 8;
constexpr std::size_t counted_piece_bytes = 64 * 1024;
// A piece that is tokenised by itself may have so many tokens more than the same part of the whole
// text, because it is cut at both ends.
constexpr std::int64_t tokens_at_cuts = 32;

// Templates may leave out the blanks around a text.
std::string_view without_outer_blanks(std::string_view text) {
    constexpr std::string_view blanks = " \t\n\r\f\v";
    const std::size_t begin = text.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

// The texts that every template writes into the prompt. Reasoning and calls are not among them:
// some templates leave them out.
std::vector<std::string_view> texts_of(const conversation& chat) {
    std::vector<std::string_view> texts{without_outer_blanks(chat.system)};
    for (const message& each : chat.messages) {
        for (const content_part& part : each.parts) {
            if (const auto* text = std::get_if<text_part>(&part))
                texts.push_back(without_outer_blanks(text->text));
            if (const auto* result = std::get_if<tool_result_part>(&part))
                texts.push_back(without_outer_blanks(result->text));
        }
    }
    return texts;
}

}  // namespace

/// Counts a text's tokens, in pieces, until there are more than a conversation may have.
class text_bound::counter {
  public:
    explicit counter(const text_bound& bound) : bound_(bound) {}

    void add(std::string_view text) {
        for (; !text.empty() && excess() == 0;
             text.remove_prefix(std::min(counted_piece_bytes, text.size()))) {
            const std::string_view piece = text.substr(0, counted_piece_bytes);
            const auto count = static_cast<std::int64_t>(bound_.tokenizer_.encode(piece).size());
            tokens_ += std::max<std::int64_t>(count - tokens_at_cuts, 0);
        }
    }
    // Equal is too many: the answer needs a token, too.
    std::int64_t excess() const { return tokens_ >= bound_.context_tokens_max_ ? tokens_ : 0; }

  private:
    const text_bound& bound_;
    std::int64_t tokens_ = 0;  // a lower bound
};

bool text_bound::is_far_too_long(std::size_t bytes) const {
    return bytes > uncounted_bytes_max &&
           bytes / uncounted_bytes_per_token > static_cast<std::size_t>(context_tokens_max_);
}

std::int64_t text_bound::least_tokens(std::size_t bytes) const {
    const std::size_t widest = tokenizer_.bytes_per_token_max();
    if (widest == 0) return 0;
    const auto least = static_cast<std::int64_t>((bytes + widest - 1) / widest);
    return least >= context_tokens_max_ ? least : 0;
}

std::int64_t text_bound::excess_of(std::string_view text) const {
    const std::int64_t least = least_tokens(text.size());
    if (least > 0 || !is_far_too_long(text.size())) return least;
    counter counted(*this);
    counted.add(text);
    return counted.excess();
}

std::int64_t text_bound::excess_of(const conversation& chat) const {
    const std::vector<std::string_view> texts = texts_of(chat);
    std::size_t bytes = 0;
    for (std::string_view each : texts) bytes += each.size();
    const std::int64_t least = least_tokens(bytes);
    if (least > 0 || !is_far_too_long(bytes)) return least;
    counter counted(*this);
    for (std::string_view each : texts) counted.add(each);
    return counted.excess();
}

void tokenise(const tokenizer& words, const prompt_source& source, resolved_prompt& prompt) {
    const std::size_t reuse = source.match.tokens;
    // In an exact match the last token, which runs again, is a stored one, too.
    const bool knows_last = source.as_sampled && source.match.kind == match_kind::exact;
    const std::size_t known = knows_last ? reuse + 1 : reuse;
    if (source.prompt && !source.as_sampled) {
        prompt.tokens = source.prompt->tokens;
        prompt.token_ends = source.prompt->token_ends;
    } else {
        std::size_t at = 0;
        if (known > 0) {
            const storage::agent_state& state = *source.state;
            auto count = static_cast<std::ptrdiff_t>(known);
            prompt.tokens.assign(state.tokens.begin(), state.tokens.begin() + count);
            prompt.token_ends.assign(state.token_ends.begin(), state.token_ends.begin() + count);
            at = prompt.token_ends.back();
        }
        std::vector<std::uint32_t> ends;
        std::vector<token_id> rest =
            words.encode(std::string_view(prompt.text).substr(at), ends,
                         ranges_within(prompt.content, at, prompt.text.size()));
        prompt.tokens.insert(prompt.tokens.end(), rest.begin(), rest.end());
        for (std::uint32_t end : ends)
            prompt.token_ends.push_back(static_cast<std::uint32_t>(at) + end);
    }
    prompt.reuse_tokens = static_cast<int>(reuse);
    if (reuse > 0) {
        prompt.source = source.state;
        prompt.private_salt = source.state->private_salt;
    }
    prompt.match = source.match.kind;
    prompt.notes[canonical_note] = std::to_string(count_canonical(source, known, prompt));
}

void mark_turns(const chat_template& chat, const prompt_source& source, prompt_end end,
                resolved_prompt& prompt) {
    const std::string_view text = prompt.text;
    std::optional<std::size_t> turn;
    const bool is_asked = end != prompt_end::messages && end != prompt_end::inside_message;
    if (is_asked) turn = find_turn(text, prompt.content, chat.turn_begin());
    prompt.turn_begin = turn.value_or(text.size());
    prompt.begun_bytes = 0;
    if (turn && end == prompt_end::inside_answer)
        prompt.begun_bytes = text.size() - *turn - chat.turn_begin().size();
    if (!source.state) return;
    prompt.turns = turns_in(*source.state, shared_bytes(source, text));
    // An answer that is continued is the wanted turn, not an earlier one.
    std::erase_if(prompt.turns,
                  [&](const sampled_turn& one) { return one.begin >= prompt.turn_begin; });
}

namespace {

/// The control token that begins a message's turn is searched for within so many tokens before the
/// message's text.
constexpr std::size_t head_tokens_max = 64;

/// The number of tokens that end within the first `bytes` bytes of the prompt.
std::size_t tokens_within(const resolved_prompt& prompt, std::size_t bytes) {
    const auto last_end = std::ranges::upper_bound(prompt.token_ends, bytes);
    return static_cast<std::size_t>(last_end - prompt.token_ends.begin());
}

/// The position after the last control token before a byte of the prompt: tokens before it do not
/// depend on the text after it. Without such a token, the position of that byte.
int place_before(const resolved_prompt& prompt, std::size_t byte, const tokenizer& words) {
    const std::size_t last = tokens_within(prompt, byte);
    for (std::size_t at = last; at > 0 && last - at < head_tokens_max; --at)
        if (words.is_special(prompt.tokens[at - 1])) return static_cast<int>(at);
    return static_cast<int>(last);
}

/// The first bytes of a user's message, by which it is found in the prompt's text; empty for other
/// messages and for those without text.
std::string_view opening_of(const message& said) {
    constexpr std::size_t compared_bytes = 64;
    if (said.from != role::user) return {};
    for (const content_part& part : said.parts)
        if (const auto* text = std::get_if<text_part>(&part))
            return without_outer_blanks(text->text).substr(0, compared_bytes);
    return {};
}

}  // namespace

prompt_places find_places(const conversation& chat, const resolved_prompt& prompt,
                          const tokenizer& words) {
    prompt_places places;
    const std::string_view text = prompt.text;
    const auto begins = [&](const text_range& range, std::string_view opening) {
        return text.substr(range.begin).starts_with(opening);
    };
    for (const message& said : chat.messages) {
        const std::string_view opening = opening_of(said);
        if (opening.empty()) continue;
        const auto found = std::ranges::find_if(
            prompt.content, [&](const text_range& range) { return begins(range, opening); });
        if (found != prompt.content.end()) places.root = place_before(prompt, found->begin, words);
        break;
    }
    // As many as plan_places() uses.
    std::size_t left = 2;  // of the latest messages
    auto range = prompt.content.rbegin();
    for (auto said = chat.messages.rbegin(); said != chat.messages.rend() && left > 0; ++said) {
        const std::string_view opening = opening_of(*said);
        if (opening.empty()) continue;
        --left;
        // Searched from the end, each before the message that follows it.
        const auto found = std::find_if(range, prompt.content.rend(), [&](const text_range& each) {
            return begins(each, opening);
        });
        if (found == prompt.content.rend()) continue;
        places.messages.insert(places.messages.begin(), place_before(prompt, found->begin, words));
        range = found + 1;
    }
    if (prompt.turn_begin < text.size())
        places.generation = static_cast<int>(tokens_within(prompt, prompt.turn_begin));
    return places;
}

storage::result<void> check_tokens(const tokenizer& words, int vocabulary,
                                   const resolved_prompt& prompt) {
    if (prompt.tokens.empty())
        return storage::failure{storage::errc::bad_value, "the prompt has no tokens"};
    auto foreign =
        std::ranges::find_if(prompt.tokens, [&](token_id id) { return id >= vocabulary; });
    if (foreign == prompt.tokens.end()) return {};
    std::string message = "the prompt contains ";
    message.append(words.bytes(*foreign)).append(", a token that this model has no meaning for");
    return storage::failure{storage::errc::bad_value, std::move(message)};
}

}  // namespace semantic::engine
