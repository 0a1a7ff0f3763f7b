// SPDX-License-Identifier: Apache-2.0
#include "server/http/request.hpp"

#include <algorithm>
#include <random>

#include "protocol/wire/ids.hpp"
#include "storage/types/hex.hpp"

namespace semantic::server {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Whether a client's request id is safe to repeat in headers and logs.
bool is_request_id(std::string_view text) {
    auto allowed = [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               c == '.' || c == '_' || c == '-';
    };
    return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), allowed);
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](char x, char y) { return lower(x) == lower(y); });
}

std::string percent_decode(std::string_view text) {
    std::string decoded;
    decoded.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool escape = text[i] == '%' && i + 2 < text.size();
        const auto byte =
            escape ? storage::number_of_hex(text.substr(i + 1, 2)) : std::optional<std::uint64_t>();
        decoded += byte ? static_cast<char>(*byte) : text[i];
        if (byte) i += 2;
    }
    return decoded;
}

std::optional<std::string> request::field(std::string_view name) const {
    for (const auto& [key, value] : fields)
        if (equal_ignoring_case(key, name)) return value;
    return std::nullopt;
}

std::optional<std::string> request::query(std::string_view name) const {
    std::string_view rest = target;
    std::size_t mark = rest.find('?');
    if (mark == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(mark + 1);
    while (!rest.empty()) {
        std::string_view pair = rest.substr(0, rest.find('&'));
        rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
        std::size_t equals = pair.find('=');
        if (percent_decode(pair.substr(0, equals)) != name) continue;
        return equals == std::string_view::npos ? std::string()
                                                : percent_decode(pair.substr(equals + 1));
    }
    return std::nullopt;
}

std::string path_of(std::string_view target) {
    for (std::string_view scheme : {"http://", "https://"}) {
        if (!target.starts_with(scheme)) continue;
        std::size_t slash = target.find('/', scheme.size());
        target = slash == std::string_view::npos ? "/" : target.substr(slash);
        break;
    }
    return std::string(target.substr(0, target.find('?')));
}

std::uint64_t random_bits() {
    thread_local std::mt19937_64 generator = [] {
        std::random_device device;
        std::seed_seq seed{device(), device(), device(), device(),
                           device(), device(), device(), device()};
        return std::mt19937_64(seed);
    }();
    return generator();
}

std::string request_id_of(const request& from) {
    auto given = from.field("x-request-id");
    if (given && is_request_id(*given)) return *given;
    return protocol::id_maker(random_bits).request_id();
}

}  // namespace semantic::server
