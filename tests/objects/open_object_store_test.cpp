// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/open_object_store.hpp"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

environment environment_of(std::map<std::string, std::string> values) {
    return [values = std::move(values)](const char* name) -> std::optional<std::string> {
        const auto found = values.find(name);
        if (found == values.end()) return std::nullopt;
        return found->second;
    };
}

void write_file(const std::string& path, std::string_view text) {
    auto file = posix_file_system().create(path);
    ASSERT_TRUE(file);
    ASSERT_TRUE((*file)->write(std::as_bytes(std::span(text))));
}

TEST(object_url, says_where_the_objects_are) {
    EXPECT_EQ(parse_object_url("dir:/mnt/shared/")->directory, "/mnt/shared");
    EXPECT_EQ(parse_object_url("dir:/")->directory, "/");
    const auto plain = parse_object_url("s3+http://127.0.0.1:9000/bucket");
    EXPECT_EQ(plain->endpoint, "http://127.0.0.1:9000");
    EXPECT_EQ(plain->bucket, "bucket");
    EXPECT_EQ(plain->prefix, "");
    const auto secure = parse_object_url("s3://store.example/bucket/team/one/");
    EXPECT_EQ(secure->endpoint, "https://store.example");
    EXPECT_EQ(secure->prefix, "team/one");
}

TEST(object_url, anything_else_is_refused_with_the_reason) {
    for (const char* url :
         {"", "dir:", "/mnt/shared", "http://h/b", "s3:b", "s3://", "s3://h", "s3://h/", "s3:///b",
          "s3://h//p", "s3://h/b/../c", "s3://h/b/p?x=1", "s3://h h/b", "S3://h/b"}) {
        const auto parsed = parse_object_url(url);
        ASSERT_FALSE(parsed) << url;
        EXPECT_EQ(parsed.error().code, object_errc::bad_value) << url;
    }
    const auto with_keys = parse_object_url("s3://me:hunter2@h/b");
    ASSERT_FALSE(with_keys);
    EXPECT_EQ(with_keys.error().what.find("hunter2"), std::string::npos);
}

TEST(s3_credentials_of, the_environment_come_first) {
    const auto found = find_s3_credentials(environment_of({{"AWS_ACCESS_KEY_ID", "k"},
                                                           {"AWS_SECRET_ACCESS_KEY", "s"},
                                                           {"AWS_SESSION_TOKEN", "t"}}),
                                           posix_file_system());
    ASSERT_TRUE(found);
    EXPECT_EQ(found->access_key, "k");
    EXPECT_EQ(found->secret_key, "s");
    EXPECT_EQ(found->session_token, "t");
    const auto half =
        find_s3_credentials(environment_of({{"AWS_ACCESS_KEY_ID", "k"}}), posix_file_system());
    ASSERT_FALSE(half);
    EXPECT_EQ(half.error().code, object_errc::denied);
}

TEST(s3_credentials_of, a_file_are_those_of_the_profile) {
    const char* text =
        "# comment\n[default]\r\naws_access_key_id = k1\naws_secret_access_key=s=1=\n"
        "[ other ]\naws_access_key_id=k2\n aws_secret_access_key = s2 \naws_session_token=t2\n"
        "[half]\naws_access_key_id=k3\n";
    const auto first = parse_s3_credentials(text, "default");
    ASSERT_TRUE(first);
    EXPECT_EQ(first->access_key, "k1");
    EXPECT_EQ(first->secret_key, "s=1=");
    EXPECT_EQ(first->session_token, "");
    EXPECT_EQ(parse_s3_credentials(text, "other")->session_token, "t2");
    for (const char* profile : {"half", "none", ""}) {
        const auto missing = parse_s3_credentials(text, profile);
        ASSERT_FALSE(missing) << profile;
        EXPECT_EQ(missing.error().code, object_errc::denied);
        EXPECT_EQ(missing.error().what.find("s=1="), std::string::npos);
    }
    tests::temp_dir dir;
    write_file(dir / "keys", text);
    EXPECT_EQ(find_s3_credentials(environment_of({{"AWS_SHARED_CREDENTIALS_FILE", dir / "keys"},
                                                  {"AWS_PROFILE", "other"}}),
                                  posix_file_system())
                  ->access_key,
              "k2");
    EXPECT_EQ(find_s3_credentials(environment_of({{"HOME", dir.path()}}), posix_file_system())
                  .error()
                  .code,
              object_errc::denied);
    EXPECT_EQ(find_s3_credentials(environment_of({}), posix_file_system()).error().code,
              object_errc::denied);
}

TEST(open_object_store, opens_what_the_url_names) {
    tests::temp_dir dir;
    const auto directory =
        open_object_store("dir:" + dir.path(), environment_of({}), posix_file_system());
    ASSERT_TRUE(directory);
    EXPECT_TRUE((*directory)->put("a", "x", if_absent()));
    EXPECT_EQ(open_object_store("dir:" + (dir / "none"), environment_of({}), posix_file_system())
                  .error()
                  .code,
              object_errc::not_found);
    EXPECT_EQ(open_object_store("s3://h/b", environment_of({}), posix_file_system()).error().code,
              object_errc::denied);
    EXPECT_TRUE(open_object_store(
        "s3://h/b", environment_of({{"AWS_ACCESS_KEY_ID", "k"}, {"AWS_SECRET_ACCESS_KEY", "s"}}),
        posix_file_system()));
}

}  // namespace
}  // namespace semantic::storage
