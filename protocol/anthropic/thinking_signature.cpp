#include "protocol/anthropic/thinking_signature.hpp"

#include <boost/json/string.hpp>

#include <cstdint>

#include "protocol/wire/json.hpp"
#include "storage/types/hex.hpp"

namespace semantic::protocol::anthropic {

namespace {

constexpr std::string_view prefix = "semantic-1-";
constexpr std::string_view carrying_prefix = "semantic-2-";

int value_of(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

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
    const std::size_t head = carrying_prefix.size() + 16;
    if (!signature.starts_with(carrying_prefix) || signature.size() < head) return std::nullopt;
    std::string text;
    for (std::size_t i = head; i < signature.size(); i += 2) {
        const int high = value_of(signature[i]);
        const int low = i + 1 < signature.size() ? value_of(signature[i + 1]) : -1;
        if (high < 0 || low < 0) return std::nullopt;
        text += static_cast<char>(high * 16 + low);
    }
    if (carrying_signature_of(text) != signature) return std::nullopt;
    const bool is_utf8 = parse_json(to_text(boost::json::string(text)), json_limits{}).has_value();
    return is_utf8 ? std::optional(std::move(text)) : std::nullopt;
}

bool may_be_signed(std::string_view thinking, std::string_view signature) {
    if (signature.starts_with(carrying_prefix)) return carried_by(signature) == thinking;
    return !signature.starts_with(prefix) || signature == signature_of(thinking);
}

}  // namespace semantic::protocol::anthropic
