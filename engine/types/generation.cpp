// SPDX-License-Identifier: Apache-2.0
#include "engine/types/generation.hpp"

#include <algorithm>

namespace semantic::engine {

sampling_rules sampling_params::or_else(const sampling_rules& preferred) const {
    sampling_rules rules;
    rules.temperature = temperature.value_or(preferred.temperature);
    rules.top_p = top_p.value_or(preferred.top_p);
    rules.min_p = min_p.value_or(preferred.min_p);
    rules.top_k = top_k.value_or(preferred.top_k);
    rules.repetition_penalty = repetition_penalty.value_or(preferred.repetition_penalty);
    rules.presence_penalty = presence_penalty.value_or(preferred.presence_penalty);
    rules.frequency_penalty = frequency_penalty.value_or(preferred.frequency_penalty);
    rules.biases = biases.empty() ? preferred.biases : biases;
    return rules;
}

namespace {

// Bytes of an excerpt before the difference and after it.
constexpr std::size_t excerpt_before = 80;
constexpr std::size_t excerpt_after = 160;

/// The last byte at or before `at` that begins a UTF-8 character.
std::size_t character_begin(std::string_view text, std::size_t at) {
    const auto continues = [&] { return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; };
    while (at > 0 && at < text.size() && continues()) --at;
    return at;
}

std::string excerpt(std::string_view text, std::size_t begin, std::size_t end) {
    end = character_begin(text, std::min(end, text.size()));
    begin = std::min(begin, end);
    return std::string(text.substr(begin, end - begin));
}

}  // namespace

text_difference difference_at(std::string_view remembered, std::string_view sent, std::size_t at) {
    at = std::min({at, remembered.size(), sent.size()});
    const std::size_t begin =
        character_begin(remembered, at - std::min(at, excerpt_before));  // the same text in both
    const std::size_t end = at + excerpt_after;
    return {at, begin, excerpt(remembered, begin, end), excerpt(sent, begin, end)};
}

const char* to_string(match_kind match) noexcept {
    switch (match) {
        case match_kind::exact:
            return "exact";
        case match_kind::extend:
            return "extend";
        case match_kind::diverge:
            return "diverge";
        case match_kind::miss:
            return "miss";
    }
    return "unknown";
}

const char* to_string(miss_reason why) noexcept {
    switch (why) {
        case miss_reason::none:
            return "none";
        case miss_reason::model_changed:
            return "model_changed";
        case miss_reason::system_changed:
            return "system_changed";
        case miss_reason::tools_changed:
            return "tools_changed";
        case miss_reason::messages_changed:
            return "messages_changed";
        case miss_reason::evicted:
            return "evicted";
        case miss_reason::corrupt:
            return "corrupt";
        case miss_reason::incompatible:
            return "incompatible";
        case miss_reason::too_short:
            return "too_short";
    }
    return "unknown";
}

const char* to_string(unsaved_reason reason) noexcept {
    switch (reason) {
        case unsaved_reason::none:
            return "";
        case unsaved_reason::late:
            return "late";
        case unsaved_reason::failed:
            return "failed";
        case unsaved_reason::over_bound:
            return "over_bound";
        case unsaved_reason::dropped:
            return "dropped";
    }
    return "unknown";
}

const char* to_string(stop_reason why) noexcept {
    switch (why) {
        case stop_reason::end_turn:
            return "end_turn";
        case stop_reason::max_tokens:
            return "max_tokens";
        case stop_reason::stop_sequence:
            return "stop_sequence";
        case stop_reason::context_full:
            return "context_full";
        case stop_reason::cancelled:
            return "cancelled";
        case stop_reason::deadline:
            return "deadline";
    }
    return "unknown";
}

}  // namespace semantic::engine
