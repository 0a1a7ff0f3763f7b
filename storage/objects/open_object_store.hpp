// SPDX-License-Identifier: Apache-2.0
#pragma once
// The object store that a URL names.

#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "storage/files/file.hpp"
#include "storage/objects/object_store.hpp"
#include "storage/objects/s3_credentials.hpp"

namespace semantic::storage {

/// What a URL says. Fields that its kind has no use for are empty.
struct object_url {
    std::string directory;  // of dir:PATH
    std::string endpoint;  // of s3://HOST[:PORT]/BUCKET[/PREFIX]: https://…; of s3+http: http://…
    std::string bucket;
    std::string prefix;
};

/// Errors: bad_value, saying which part is wrong; never with a user and password that it contains.
object_result<object_url> parse_object_url(std::string_view url);

/// How long an S3 store is waited for.
enum class object_patience {
    much,    // for what nobody waits for: a minute of tries, 20 s without a byte
    little,  // for what an answer waits for: 2 s of tries, 3 s without a byte
};

/// Blocks. `variables`: credentials (find_s3_credentials), AWS_REGION or AWS_DEFAULT_REGION
/// (us-east-1), AWS_CA_BUNDLE (the system's authorities). `stop` ends what is under way, which is
/// then unavailable. Asks an S3 store nothing. Errors: bad_value, denied; those of
/// open_directory_objects.
object_result<std::unique_ptr<object_store>> open_object_store(
    std::string_view url, const environment& variables, file_system& files,
    std::stop_token stop = {}, object_patience patience = object_patience::much);

}  // namespace semantic::storage
