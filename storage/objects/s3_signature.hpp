// SPDX-License-Identifier: Apache-2.0
#pragma once
// Signing requests to an S3 store (AWS Signature Version 4, single chunk). libcurl 7.88 signs too,
// but takes the query as it is, hashes no upload, and cannot be checked against published examples.
// Pure; safe from any thread.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace semantic::storage {

/// HMAC-SHA256 (RFC 2104), of which signatures are made here and in redis/redis_seal. Returns: 32
/// bytes.
std::string hmac_sha256(std::string_view key, std::string_view text);
/// Compares in a time that says nothing of where the two differ.
bool is_same_mac(std::string_view a, std::string_view b);

/// Never part of a message or a log.
struct s3_credentials {
    std::string access_key;
    std::string secret_key;
    std::string session_token;  // empty: none
};

using name_values = std::vector<std::pair<std::string, std::string>>;

struct s3_signed_request {
    std::string method;
    std::string path;            // as percent_encode writes it, from the first '/'
    name_values query;           // not encoded, in any order
    name_values headers;         // all that are signed: host and every x-amz-*; lower-case names
    std::string payload_sha256;  // 64 hex digits
};

/// Every byte but letters, digits, '-', '.', '_', '~' (and '/', where it is kept) as %XX.
std::string percent_encode(std::string_view text, bool keeps_slashes);
/// Returns: `text` with every %XX as its byte; one that is no such escape stays as it is.
std::string percent_decode(std::string_view text);

/// Encoded and sorted, as it is signed and sent.
std::string canonical_query(const name_values& query);

/// Returns: SHA-256 of `bytes`, 64 lower-case hex digits.
std::string sha256_hex(std::string_view bytes);

/// `seconds` since 1970. Returns: as `20130524T000000Z`.
std::string amz_date(std::int64_t seconds);

/// Returns: the value of the header Authorization. `date`: as amz_date has it.
std::string s3_authorization(const s3_signed_request& request, const s3_credentials& credentials,
                             std::string_view region, std::string_view date);

}  // namespace semantic::storage
