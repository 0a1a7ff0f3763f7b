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

/// Returns: code and message of an error's body; empty fields for any other text, such as a proxy's
/// page.
s3_error parse_s3_error(std::string_view xml);

/// Parses a page of ListObjectsV2. Keys that begin with `key_prefix` are listed without it; all
/// others, and those that are no object names, are left out. Errors: corrupt: not such a page; a
/// field that is missing or no number; a page that says there are more and not where.
object_result<object_page> parse_s3_list(std::string_view xml, std::string_view key_prefix);

}  // namespace semantic::storage
