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

/// The parts of a URL. Fields that its kind does not have are empty.
struct object_url {
    std::string directory;  // of dir:PATH
    std::string endpoint;  // of s3://HOST[:PORT]/BUCKET[/PREFIX]: https://…; of s3+http: http://…
    std::string bucket;
    std::string prefix;
};

/// Parses dir:PATH, s3://HOST[:PORT]/BUCKET[/PREFIX] and s3+http://…. Errors: bad_value, saying
/// which part is wrong; the message never repeats a password that the URL contains.
object_result<object_url> parse_object_url(std::string_view url);

/// How long an S3 store is waited for.
enum class object_patience {
    much,    // for background work: a minute of tries, 20 s without a byte
    little,  // for requests that an answer waits for: 2 s of tries, 3 s without a byte
};

/// Blocks. Opens the store that a URL names. `variables`: the environment, for credentials
/// (find_s3_credentials), AWS_REGION or AWS_DEFAULT_REGION (us-east-1 without them) and
/// AWS_CA_BUNDLE (else the system's authorities). `stop`: ends requests under way, which then fail
/// as unavailable. An S3 store is not contacted yet. Errors: bad_value, denied; those of
/// open_directory_objects().
object_result<std::unique_ptr<object_store>> open_object_store(
    std::string_view url, const environment& variables, file_system& files,
    std::stop_token stop = {}, object_patience patience = object_patience::much);

}  // namespace semantic::storage
