// SPDX-License-Identifier: Apache-2.0
// A bucket over TLS: whom a node trusts.

#include <gtest/gtest.h>

#include "tests/objects/stores.hpp"

namespace semantic::storage {
namespace {

constexpr const char* others = "/etc/ssl/certs/ca-certificates.crt";

/// With the certificates of `ca_file`, and little patience.
std::unique_ptr<object_store> open_trusting(const std::string& ca_file) {
    s3_options options = semantic::tests::s3_options_for_test();
    options.http.ca_file = ca_file;
    options.retries.attempts_max = 2;
    return make_s3_objects(options);
}

TEST(s3_over_tls, a_certificate_that_nobody_vouches_for_is_refused_before_anything_is_sent) {
    if (!semantic::tests::s3_url() || !semantic::tests::s3_url()->starts_with("s3://"))
        GTEST_SKIP() << "SEMANTIC_TEST_S3 names no S3 store with TLS";
    const auto known = process_environment("AWS_CA_BUNDLE");
    ASSERT_TRUE(known);
    ASSERT_TRUE(*posix_file_system().exists(others)) << "no other authorities to trust";
    ASSERT_TRUE(open_trusting(*known)->put("a", "hello", always()));
    const auto refused = open_trusting(others)->put("a", "x", always());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, object_errc::io);  // no later try succeeds
    EXPECT_NE(refused.error().what.find("ertificate"), std::string::npos) << refused.error().what;
}

}  // namespace
}  // namespace semantic::storage
