// SPDX-License-Identifier: Apache-2.0
#pragma once
// The object stores that tests run on: a directory of their own, and the S3 store that
// SEMANTIC_TEST_S3 names (as open_object_store takes it), with the credentials of the environment.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "storage/objects/open_object_store.hpp"
#include "storage/objects/random_id.hpp"
#include "storage/objects/s3_objects.hpp"

namespace semantic::tests {

/// Nothing where there is no S3 store to test with.
inline std::optional<std::string> s3_url() {
    return storage::process_environment("SEMANTIC_TEST_S3");
}

/// With a prefix that nobody else has.
inline storage::s3_options s3_options_for_test() {
    const auto url = storage::parse_object_url(*s3_url());
    const auto keys =
        storage::find_s3_credentials(storage::process_environment, storage::posix_file_system());
    storage::s3_options options;
    options.endpoint = url->endpoint;
    options.bucket = url->bucket;
    options.prefix = "test/" + storage::random_id();
    options.credentials = *keys;
    options.http.ca_file = storage::process_environment("AWS_CA_BUNDLE").value_or("");
    return options;
}

inline std::uint16_t port_of(const std::string& endpoint) {
    return static_cast<std::uint16_t>(std::atoi(endpoint.c_str() + endpoint.rfind(':') + 1));
}

}  // namespace semantic::tests
