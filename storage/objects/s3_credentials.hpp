// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the credentials of an S3 store come from: the environment, or the file that the tools of
// AWS read too. They are in no message.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "storage/files/file.hpp"
#include "storage/objects/object_store.hpp"
#include "storage/objects/s3_signature.hpp"

namespace semantic::storage {

/// The value of an environment variable; nothing where it is not set, or empty.
using environment = std::function<std::optional<std::string>(const char* name)>;

/// The environment of this program. Thread: as ::getenv.
std::optional<std::string> process_environment(const char* name);

inline constexpr std::uint64_t credentials_file_bytes_max = 1 << 20;

/// Returns: the keys in section [profile] of a credentials file. Errors: denied, where there is no
/// such section or it lacks a key.
object_result<s3_credentials> parse_s3_credentials(std::string_view text, std::string_view profile);

/// Blocks. Returns: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, where the first
/// is set; else the keys in section AWS_PROFILE ("default") of the file AWS_SHARED_CREDENTIALS_FILE
/// (~/.aws/credentials). Errors: denied, saying what is missing where; io.
object_result<s3_credentials> find_s3_credentials(const environment& variables, file_system& files);

}  // namespace semantic::storage
