// SPDX-License-Identifier: Apache-2.0
#include "storage/types/memory_policy.hpp"

#include <charconv>

namespace semantic::storage {

namespace {

constexpr std::string_view keep_word = "keep=";
constexpr std::string_view pin_word = "pin";

}  // namespace

memory_policy memory_policy::or_else(const memory_policy& former) const {
    memory_policy whole{keep_seconds ? keep_seconds : former.keep_seconds,
                        pinned ? pinned : former.pinned};
    // "Not pinned" has been merged, and is stored as absent (encode_policy()).
    if (!whole.pinned.value_or(false)) whole.pinned.reset();
    return whole;
}

std::string encode_policy(const memory_policy& policy) {
    std::string note;
    if (policy.keep_seconds)
        note.append(keep_word).append(std::to_string(policy.keep_seconds->count()));
    if (policy.pinned.value_or(false)) note.append(note.empty() ? "" : " ").append(pin_word);
    return note;
}

memory_policy decode_policy(std::string_view note) {
    memory_policy policy;
    while (!note.empty()) {
        const std::string_view word = note.substr(0, note.find(' '));
        note.remove_prefix(word.size() == note.size() ? word.size() : word.size() + 1);
        if (word == pin_word) {
            policy.pinned = true;
            continue;
        }
        if (!word.starts_with(keep_word)) return {};
        const std::string_view digits = word.substr(keep_word.size());
        std::int64_t seconds = 0;
        const auto [end, error] =
            std::from_chars(digits.data(), digits.data() + digits.size(), seconds);
        const bool is_number = error == std::errc() && end == digits.data() + digits.size();
        if (!is_number || seconds < 0 || seconds > memory_policy::keep_seconds_max.count())
            return {};
        policy.keep_seconds = std::chrono::seconds(seconds);
    }
    return policy;
}

const char* to_string(memory_claim claim) noexcept {
    switch (claim) {
        case memory_claim::first_to_go:
            return "first_to_go";
        case memory_claim::none:
            return "none";
        case memory_claim::kept:
            return "kept";
        case memory_claim::pinned:
            return "pinned";
    }
    return "unknown";
}

}  // namespace semantic::storage
