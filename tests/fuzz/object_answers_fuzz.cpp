// SPDX-License-Identifier: Apache-2.0
// What an object store answers, the files of its credentials and keys, and what is encrypted there,
// in bytes that nobody wrote: a list gives names that are names and gets on, or is an error with
// its reason.

#include <cstdint>
#include <string_view>

#include "storage/objects/encryption/encrypted_objects.hpp"
#include "storage/objects/encryption/object_cipher.hpp"
#include "storage/objects/open_object_store.hpp"
#include "storage/objects/redis/agent_leases.hpp"
#include "storage/objects/s3_xml.hpp"
#include "storage/types/assert.hpp"

using namespace semantic::storage;

namespace {

/// What a key file, a Redis URL and an encrypted object may be; nothing that nobody sealed opens.
void check_encryption(std::string_view text) {
    const auto keys = parse_object_keys(text);
    if (keys)
        for (const std::string& each : *keys) ASSERT(each.size() == object_key_bytes);
    else
        ASSERT(!keys.error().what.empty());
    std::string why;
    ASSERT(parse_redis_url(text, why) || !why.empty());
    if (is_node_url(text)) ASSERT(text.find_first_of("\r\n") == std::string_view::npos);
    const auto header = decode_cipher_header(text);
    if (!header) return;
    ASSERT(encode(*header) == text.substr(0, cipher_header_bytes));
    if (const auto contents = decrypted_bytes(text.size()))
        ASSERT(encrypted_bytes(*contents) == text.size());
    std::string contents = "kept";
    const object_cipher cipher(std::string(object_key_bytes, 'k'), *header, "name");
    ASSERT(!cipher.open(0, true, text.substr(cipher_header_bytes), contents) && contents == "kept");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t count) {
    const std::string_view text(reinterpret_cast<const char*>(data), count);
    const auto page = parse_s3_list(text, "p/");
    if (!page) ASSERT(!page.error().what.empty());
    if (page)
        for (const listed_object& each : page->objects) ASSERT(check_object_name(each.name));
    for (char each : parse_s3_error(text).message) ASSERT(each >= ' ' && each <= '~');
    const auto keys = parse_s3_credentials(text, "p");
    if (keys) ASSERT(!keys->access_key.empty() && !keys->secret_key.empty());
    const auto url = parse_object_url(text);
    if (url) ASSERT(url->directory.empty() != url->bucket.empty());
    ASSERT(percent_decode(percent_encode(text, false)) == text);
    check_encryption(text);
    return 0;
}
