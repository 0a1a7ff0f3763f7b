// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/s3_signature.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "storage/types/assert.hpp"
#include "storage/types/hex.hpp"

namespace semantic::storage {

namespace {

constexpr std::string_view upper_hex_digits = "0123456789ABCDEF";
constexpr std::size_t sha256_bytes = 32;

std::string hex_of_bytes(std::string_view bytes) {
    std::string out;
    for (char each : bytes) append_hex(out, each);
    return out;
}

/// Returns: the value without blanks at its ends, several blanks in it as one, as the signature
/// wants it.
std::string trimmed_field(std::string_view value) {
    std::string out;
    for (char each : value) {
        const bool is_blank = each == ' ' || each == '\t';
        if (is_blank && (out.empty() || out.back() == ' ')) continue;
        out += is_blank ? ' ' : each;
    }
    if (!out.empty() && out.back() == ' ') out.pop_back();
    return out;
}

}  // namespace

std::string hmac_sha256(std::string_view key, std::string_view text) {
    std::array<unsigned char, sha256_bytes> mac{};
    unsigned size = 0;
    const auto* done =
        HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(), &size);
    ASSERT(done != nullptr && size == mac.size());
    return {reinterpret_cast<const char*>(mac.data()), mac.size()};
}

bool is_same_mac(std::string_view a, std::string_view b) {
    return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string percent_encode(std::string_view text, bool keeps_slashes) {
    std::string out;
    for (char each : text) {
        const bool is_plain = (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') ||
                              (each >= '0' && each <= '9') || each == '-' || each == '.' ||
                              each == '_' || each == '~' || (keeps_slashes && each == '/');
        if (is_plain) {
            out += each;
            continue;
        }
        const auto byte = static_cast<unsigned char>(each);
        out += '%';
        out += upper_hex_digits[byte >> 4];
        out += upper_hex_digits[byte & 15];
    }
    return out;
}

std::string percent_decode(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        // A '%' without two hex digits after it stays as it is.
        if (text[i] == '%' && i + 2 < text.size()) {
            if (const auto byte = bytes_of_hex(text.substr(i + 1, 2))) {
                out += *byte;
                i += 2;
                continue;
            }
        }
        out += text[i];
    }
    return out;
}

std::string canonical_query(const name_values& query) {
    name_values encoded;
    for (const auto& [name, value] : query)
        encoded.emplace_back(percent_encode(name, false), percent_encode(value, false));
    std::sort(encoded.begin(), encoded.end());
    std::string out;
    for (const auto& [name, value] : encoded) {
        if (!out.empty()) out += '&';
        out += name + "=" + value;
    }
    return out;
}

std::string sha256_hex(std::string_view bytes) {
    std::array<unsigned char, sha256_bytes> sum{};
    unsigned size = 0;
    const int done =
        EVP_Digest(bytes.data(), bytes.size(), sum.data(), &size, EVP_sha256(), nullptr);
    ASSERT(done == 1 && size == sum.size());
    return hex_of_bytes({reinterpret_cast<const char*>(sum.data()), sum.size()});
}

std::string amz_date(std::int64_t seconds) {
    const auto time = static_cast<std::time_t>(seconds);
    std::tm parts{};
    gmtime_r(&time, &parts);
    std::array<char, 32> text{};
    const std::size_t size = std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &parts);
    return {text.data(), size};
}

/// The steps of AWS Signature Version 4: the canonical request, the text that is signed, a key
/// derived from day, region and service, the header.
std::string s3_authorization(const s3_signed_request& request, const s3_credentials& credentials,
                             std::string_view region, std::string_view date) {
    name_values headers = request.headers;
    std::sort(headers.begin(), headers.end());
    std::string header_lines, names;
    for (const auto& [name, value] : headers) {
        header_lines += name + ":" + trimmed_field(value) + "\n";
        names += (names.empty() ? "" : ";") + name;
    }
    const std::string canonical = request.method + "\n" + request.path + "\n" +
                                  canonical_query(request.query) + "\n" + header_lines + "\n" +
                                  names + "\n" + request.payload_sha256;
    const std::string day(date.substr(0, 8));
    const std::string scope = day + "/" + std::string(region) + "/s3/aws4_request";
    const std::string to_sign =
        "AWS4-HMAC-SHA256\n" + std::string(date) + "\n" + scope + "\n" + sha256_hex(canonical);
    std::string key = "AWS4" + credentials.secret_key;
    for (std::string_view each :
         {std::string_view(day), region, std::string_view("s3"), std::string_view("aws4_request")})
        key = hmac_sha256(key, each);
    return "AWS4-HMAC-SHA256 Credential=" + credentials.access_key + "/" + scope +
           ",SignedHeaders=" + names + ",Signature=" + hex_of_bytes(hmac_sha256(key, to_sign));
}

}  // namespace semantic::storage
