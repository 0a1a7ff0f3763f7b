// SPDX-License-Identifier: Apache-2.0
#include "protocol/thinking_signature.hpp"

#include <boost/json/string.hpp>

#include <cstdint>

#include "protocol/wire/json.hpp"
#include "storage/types/hex.hpp"

namespace semantic::protocol {

namespace {

constexpr std::string_view prefix = "semantic-1-";
constexpr std::string_view carrying_prefix = "semantic-2-";

/// Returns: a hash of the text (FNV-1a, 64 bits) as hex digits.
std::string hash_of(std::string_view thinking) {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (char c : thinking) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return storage::hex_of(hash);
}

}  // namespace

std::string signature_of(std::string_view thinking) {
    return std::string(prefix) + hash_of(thinking);
}

std::string carrying_signature_of(std::string_view thinking) {
    std::string text = std::string(carrying_prefix) + hash_of(thinking);
    for (char c : thinking) storage::append_hex(text, c);
    return text;
}

std::optional<std::string> carried_by(std::string_view signature) {
    // A hash is 16 digits.
    const std::size_t head = carrying_prefix.size() + 16;
    if (!signature.starts_with(carrying_prefix) || signature.size() < head) return std::nullopt;
    auto text = storage::bytes_of_hex(signature.substr(head));
    if (!text || carrying_signature_of(*text) != signature) return std::nullopt;
    // A client could have made the hash itself, and the text goes into the prompt.
    const bool is_utf8 = parse_json(to_text(boost::json::string(*text)), json_limits{}).has_value();
    return is_utf8 ? std::move(text) : std::nullopt;
}

bool may_be_signed(std::string_view thinking, std::string_view signature) {
    if (signature.starts_with(carrying_prefix)) return carried_by(signature) == thinking;
    return !signature.starts_with(prefix) || signature == signature_of(thinking);
}

}  // namespace semantic::protocol
