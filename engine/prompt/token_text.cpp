// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/token_text.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace semantic::engine {

namespace {

// Bounds of the context that is tokenised together with a run of rewritten tokens: tokens on either
// side, and bytes of both sides. A run of more than run_tokens_max tokens is compared in parts.
constexpr std::size_t context_tokens_max = 64;
constexpr std::size_t context_bytes_max = 4096;
constexpr std::size_t run_tokens_max = 256;

// The byte of the text at which a token begins.
std::size_t begin_of(const storage::agent_state& state, std::size_t token) {
    return token == 0 ? 0 : state.token_ends[token - 1];
}

// Whether a token's own bytes are those of the text that it is stored with.
bool spells_itself(const tokenizer& words, const storage::agent_state& state, std::size_t token) {
    const std::size_t begin = begin_of(state, token);
    return words.bytes(state.tokens[token]) ==
           std::string_view(state.text).substr(begin, state.token_ends[token] - begin);
}

// Indices [begin, end) of tokens.
struct token_range {
    std::size_t begin, end;
};

// Whether tokenising the text of the tokens `context`, which include those of `run`, gives the
// tokens of `run` at their bytes.
bool is_tokenised_so(const tokenizer& words, const storage::agent_state& state, token_range run,
                     token_range context) {
    const std::size_t from = begin_of(state, context.begin);
    std::vector<std::uint32_t> ends;
    const std::vector<token_id> ids = words.encode(
        std::string_view(state.text).substr(from, begin_of(state, context.end) - from), ends);
    const std::size_t count = run.end - run.begin;
    for (std::size_t at = 0; at + count <= ids.size(); ++at) {
        bool same = true;
        for (std::size_t i = 0; same && i < count; ++i)
            same = ids[at + i] == state.tokens[run.begin + i] &&
                   from + ends[at + i] == state.token_ends[run.begin + i];
        if (same && from + (at == 0 ? 0 : ends[at - 1]) == begin_of(state, run.begin)) return true;
    }
    return false;
}

// Whether the tokens of `run` are what the tokenizer makes of their text, with some context: tries
// with 0, 1, 2, 4, ... tokens on either side.
bool is_rewritten(const tokenizer& words, const storage::agent_state& state, token_range run) {
    for (std::size_t more = 0; more <= context_tokens_max; more = more == 0 ? 1 : more * 2) {
        const token_range context{run.begin - std::min(run.begin, more),
                                  std::min(state.tokens.size(), run.end + more)};
        const std::size_t before = begin_of(state, run.begin) - begin_of(state, context.begin);
        const std::size_t after = begin_of(state, context.end) - begin_of(state, run.end);
        if (before + after > context_bytes_max) break;
        if (is_tokenised_so(words, state, run, context)) return true;
    }
    return false;
}

}  // namespace

storage::result<void> check_token_text(const tokenizer& words, int vocabulary,
                                       const storage::agent_state& state) {
    const auto foreign =
        std::ranges::find_if(state.tokens, [&](token_id id) { return id >= vocabulary; });
    if (foreign != state.tokens.end())
        return storage::failure{storage::errc::bad_value,
                                "the file has the token id " + std::to_string(*foreign) +
                                    ", the model has " + std::to_string(vocabulary)};
    for (std::size_t at = 0; at < state.tokens.size(); ++at) {
        if (spells_itself(words, state, at)) continue;
        token_range run{at, at + 1};
        while (run.end < state.tokens.size() && run.end - run.begin < run_tokens_max &&
               !spells_itself(words, state, run.end))
            ++run.end;
        if (!is_rewritten(words, state, run))
            return storage::failure{
                storage::errc::corrupt,
                "its tokens do not stand for its text: token " + std::to_string(at) + ", id " +
                    std::to_string(state.tokens[at]) + ", is not what the text has from byte " +
                    std::to_string(begin_of(state, at)) + " to " +
                    std::to_string(state.token_ends[at])};
        at = run.end - 1;
    }
    const std::size_t end = begin_of(state, state.tokens.size());
    if (end == state.text.size()) return {};
    return storage::failure{storage::errc::corrupt,
                            "its text goes on behind its tokens, which end at byte " +
                                std::to_string(end) + " of " + std::to_string(state.text.size())};
}

}  // namespace semantic::engine
