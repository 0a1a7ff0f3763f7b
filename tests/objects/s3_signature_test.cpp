// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/s3_signature.hpp"

#include <gtest/gtest.h>

namespace semantic::storage {
namespace {

// The keys, date and requests of the examples that AWS publishes for Signature Version 4 in one
// chunk, with the signatures that it states for them.
const s3_credentials example_keys{"AKIAIOSFODNN7EXAMPLE",
                                  "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
constexpr const char* example_date = "20130524T000000Z";

s3_signed_request example(const std::string& method, const std::string& path,
                          const name_values& query, const name_values& more_headers,
                          std::string_view body) {
    s3_signed_request request{method, path, query, more_headers, sha256_hex(body)};
    request.headers.emplace_back("host", "examplebucket.s3.amazonaws.com");
    request.headers.emplace_back("x-amz-content-sha256", request.payload_sha256);
    request.headers.emplace_back("x-amz-date", example_date);
    return request;
}

std::string signature_of(const s3_signed_request& request) {
    const std::string all = s3_authorization(request, example_keys, "us-east-1", example_date);
    return all.substr(all.rfind('=') + 1);
}

TEST(s3_signature, is_the_one_that_aws_publishes_for_its_examples) {
    EXPECT_EQ(signature_of(example("GET", "/test.txt", {}, {{"range", "bytes=0-9"}}, "")),
              "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    EXPECT_EQ(signature_of(example("PUT", "/" + percent_encode("test$file.text", true), {},
                                   {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                                    {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                                   "Welcome to Amazon S3.")),
              "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
    EXPECT_EQ(signature_of(example("GET", "/", {{"lifecycle", ""}}, {}, "")),
              "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    EXPECT_EQ(signature_of(example("GET", "/", {{"prefix", "J"}, {"max-keys", "2"}}, {}, "")),
              "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(s3_signature, names_the_key_the_scope_and_the_signed_headers) {
    const std::string all =
        s3_authorization(example("GET", "/", {}, {{"x-amz-security-token", "t"}}, ""), example_keys,
                         "eu-central-1", example_date);
    EXPECT_TRUE(
        all.starts_with("AWS4-HMAC-SHA256 "
                        "Credential=AKIAIOSFODNN7EXAMPLE/20130524/eu-central-1/s3/"
                        "aws4_request,SignedHeaders=host;x-amz-content-sha256;x-amz-date;"
                        "x-amz-security-token,Signature="))
        << all;
    EXPECT_EQ(all.find(example_keys.secret_key), std::string::npos);
}

TEST(s3_signature, differs_with_each_part_of_a_request) {
    const auto base = example("GET", "/a", {{"q", "1"}}, {{"x-amz-meta-m", "1"}}, "body");
    auto method = base, path = base, query = base, header = base, body = base;
    method.method = "PUT";
    path.path = "/b";
    query.query[0].second = "2";
    header.headers[0].second = "2";
    body.payload_sha256 = sha256_hex("Body");
    for (const auto& other : {method, path, query, header, body})
        EXPECT_NE(signature_of(other), signature_of(base));
    auto blanks = base;
    blanks.headers[0].second = "  1 ";
    EXPECT_EQ(signature_of(blanks), signature_of(base));
}

TEST(s3_signature, dates_are_in_utc_and_basic_form) {
    EXPECT_EQ(amz_date(0), "19700101T000000Z");
    EXPECT_EQ(amz_date(1369353600), "20130524T000000Z");
    EXPECT_EQ(amz_date(4102444799), "20991231T235959Z");
}

TEST(s3_signature, sums_are_sha256) {
    EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(sha256_hex("abc"),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(percent_encoding, leaves_the_unreserved_and_goes_both_ways) {
    EXPECT_EQ(percent_encode("aZ09-._~", false), "aZ09-._~");
    EXPECT_EQ(percent_encode("a/b c+d%\xc3\xa4", true), "a/b%20c%2Bd%25%C3%A4");
    EXPECT_EQ(percent_encode("a/b", false), "a%2Fb");
    std::string every;
    for (int i = 0; i < 256; ++i) every += static_cast<char>(i);
    EXPECT_EQ(percent_decode(percent_encode(every, false)), every);
    EXPECT_EQ(percent_decode("%4"), "%4");
    EXPECT_EQ(percent_decode("%"), "%");
    EXPECT_EQ(percent_decode("%zz%41%6a"), "%zzAj");
}

TEST(percent_encoding, queries_are_sorted_by_encoded_name_and_value) {
    EXPECT_EQ(canonical_query({{"b", "2"}, {"a", "x y"}, {"a", "1"}, {"c", ""}}),
              "a=1&a=x%20y&b=2&c=");
    EXPECT_EQ(canonical_query({}), "");
}

}  // namespace
}  // namespace semantic::storage
