// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/redis/redis_seal.hpp"

#include <charconv>
#include <chrono>

#include "storage/objects/s3_signature.hpp"
#include "storage/types/hex.hpp"

namespace semantic::storage {

namespace {

std::int64_t system_seconds() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

/// Returns: the signature of a text for a purpose and a time, as hex digits.
std::string signature_of(std::string_view key, std::string_view purpose, std::string_view time,
                         std::string_view text) {
    std::string signed_text(purpose);
    signed_text.append("\n").append(time).append("\n").append(text);
    std::string hex;
    for (const char each : hmac_sha256(key, signed_text)) append_hex(hex, each);
    return hex;
}

/// Takes the first word and the blank after it off `text`.
std::string_view take_word(std::string_view& text) {
    const std::size_t blank = text.find(' ');
    const std::string_view word = text.substr(0, blank);
    text.remove_prefix(blank == std::string_view::npos ? text.size() : blank + 1);
    return word;
}

}  // namespace

redis_seal::redis_seal(std::function<std::int64_t()> unix_seconds)
    : unix_seconds_(unix_seconds ? std::move(unix_seconds) : system_seconds) {}

void redis_seal::set_secret(std::string_view secret) {
    std::string derived = hmac_sha256(secret, "semantic redis 1");
    std::lock_guard lock(mutex_);
    key_ = std::move(derived);
}

std::string redis_seal::key() const {
    std::lock_guard lock(mutex_);
    return key_;
}

bool redis_seal::has_secret() const { return !key().empty(); }

std::optional<std::string> redis_seal::seal(std::string_view purpose, std::string_view text) const {
    const std::string key = this->key();
    if (key.empty()) return std::nullopt;
    const std::string time = std::to_string(unix_seconds_());
    return time + " " + signature_of(key, purpose, time, text) + " " + std::string(text);
}

std::optional<std::string> redis_seal::open(std::string_view purpose,
                                            std::string_view sealed) const {
    const std::string key = this->key();
    if (key.empty()) return std::nullopt;
    const std::string_view time = take_word(sealed);
    const std::string_view signature = take_word(sealed);
    if (!is_same_mac(signature, signature_of(key, purpose, time, sealed))) return std::nullopt;
    std::int64_t made = 0;
    const auto [end, error] = std::from_chars(time.data(), time.data() + time.size(), made);
    if (error != std::errc{} || end != time.data() + time.size()) return std::nullopt;
    const std::int64_t now = unix_seconds_();
    if (made < now - seconds_max || made > now + seconds_max) return std::nullopt;
    return std::string(sealed);
}

}  // namespace semantic::storage
