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

/// Returns: HMAC-SHA256 (RFC 2104) of `text`, 32 bytes; signatures here and in redis/redis_seal use
/// it.
std::string hmac_sha256(std::string_view key, std::string_view text);
/// Whether two signatures are equal, compared in constant time, so that the time does not show
/// where they differ.
bool is_same_mac(std::string_view a, std::string_view b);

/// Keys of an S3 store. They never appear in a message or a log.
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

/// Returns: `text` with every byte as %XX but letters, digits, '-', '.', '_', '~' and, if
/// `keeps_slashes`, '/'.
std::string percent_encode(std::string_view text, bool keeps_slashes);
/// Returns: `text` with every %XX as its byte; one that is no such escape stays as it is.
std::string percent_decode(std::string_view text);

/// Returns: the query encoded and sorted by name, in the form in which it is signed and sent.
std::string canonical_query(const name_values& query);

/// Returns: SHA-256 of `bytes`, 64 lower-case hex digits.
std::string sha256_hex(std::string_view bytes);

/// Returns: a time, in seconds since 1970, in the form `20130524T000000Z`.
std::string amz_date(std::int64_t seconds);

/// Returns: the value of the header Authorization. `date`: as amz_date has it.
std::string s3_authorization(const s3_signed_request& request, const s3_credentials& credentials,
                             std::string_view region, std::string_view date);

}  // namespace semantic::storage
