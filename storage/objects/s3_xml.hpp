// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an S3 store answers in XML. Pure; safe from any thread.

#include <string>
#include <string_view>

#include "storage/objects/object_store.hpp"

namespace semantic::storage {

struct s3_error {
    std::string code;     // such as SlowDown
    std::string message;  // printable, at most 200 bytes
};

/// Returns: what of it can be read; empty fields for anything else, such as a proxy's page.
s3_error parse_s3_error(std::string_view xml);

/// A page of ListObjectsV2. The keys that begin with `key_prefix` are listed without it, the others
/// and those that are no names of objects are left out. Errors: corrupt: not such a page, a field
/// that is missing or no number, more pages promised without a word of where they are.
object_result<object_page> parse_s3_list(std::string_view xml, std::string_view key_prefix);

}  // namespace semantic::storage
