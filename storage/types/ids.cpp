// SPDX-License-Identifier: Apache-2.0
#include "storage/types/ids.hpp"

#include "storage/types/hex.hpp"

namespace semantic::storage {

namespace {

constexpr std::size_t agent_id_bytes_max = 128;

bool allowed_in_agent_id(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == ':' || c == '-';
}

}  // namespace

result<agent_id> agent_id::parse(std::string_view text) {
    if (text.empty()) return failure{errc::bad_value, "an agent id must not be empty"};
    if (text.size() > agent_id_bytes_max)
        return failure{errc::bad_value, "an agent id may have 128 characters, this one has " +
                                            std::to_string(text.size())};
    for (char c : text)
        if (!allowed_in_agent_id(c))
            return failure{errc::bad_value,
                           "an agent id may contain only letters, digits and . _ : - (ASCII)"};
    return agent_id(std::string(text));
}

std::string block_hash::hex() const {
    std::string text;
    text.reserve(bytes.size() * 2);
    for (std::uint8_t byte : bytes) append_hex(text, static_cast<char>(byte));
    return text;
}

result<block_hash> block_hash::from_hex(std::string_view text) {
    block_hash hash;
    if (text.size() != hash.bytes.size() * 2)
        return failure{errc::bad_value, "a block hash has 32 hex digits"};
    if (text.find_first_not_of(hex_digits) != std::string_view::npos)
        return failure{errc::bad_value, "a block hash has 32 lower-case hex digits"};
    for (std::size_t i = 0; i < hash.bytes.size(); ++i)
        hash.bytes[i] = static_cast<std::uint8_t>(*number_of_hex(text.substr(2 * i, 2)));
    return hash;
}

}  // namespace semantic::storage
