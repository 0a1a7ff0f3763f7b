#include "protocol/anthropic/thinking_signature.hpp"

#include <cstdint>

namespace semantic::protocol::anthropic {

namespace {

constexpr std::string_view prefix = "semantic-1-";

}  // namespace

std::string signature_of(std::string_view thinking) {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (char c : thinking) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    constexpr char digits[] = "0123456789abcdef";
    std::string text(prefix);
    for (int shift = 60; shift >= 0; shift -= 4) text += digits[(hash >> shift) & 15];
    return text;
}

bool may_be_signed(std::string_view thinking, std::string_view signature) {
    return !signature.starts_with(prefix) || signature == signature_of(thinking);
}

}  // namespace semantic::protocol::anthropic
