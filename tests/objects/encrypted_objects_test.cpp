// SPDX-License-Identifier: Apache-2.0
// What leaves the machine encrypted, and what becomes of those who change it there.

#include "storage/objects/encryption/encrypted_objects.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sys/stat.h>

#include "storage/objects/agents/object_sweep.hpp"
#include "storage/objects/directory_objects.hpp"
#include "storage/objects/encryption/object_cipher.hpp"
#include "storage/types/hex.hpp"
#include "tests/objects/machine.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

std::string key_of(char each) { return std::string(object_key_bytes, each); }

std::string counted(int from, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += static_cast<char>(from + i);
    return out;
}

std::string hex(std::string_view bytes) {
    std::string out;
    for (char each : bytes) append_hex(out, each);
    return out;
}

// Computed with Python's cryptography 43: HKDF and AESGCM.
TEST(object_cipher, is_hkdf_and_gcm_as_others_compute_them) {
    const std::string key = counted(0, 32);
    EXPECT_EQ(hex(cipher_key_id(key)), "760d3f811982dac28638bc1d82ebb3e2");
    const object_cipher cipher(key, {cipher_key_id(key), counted(32, 32)}, "a/b");
    std::string sealed;
    cipher.seal(0, true, "hello", sealed);
    EXPECT_EQ(hex(sealed), "3eb4d674e81a5d2244aab8ffb879f70bcf2e59ea83");
    sealed.clear();
    cipher.seal(1, false, "", sealed);
    EXPECT_EQ(hex(sealed), "b2942b10601856f105ce0332f40531d3");
}

TEST(object_cipher, sizes_are_known_from_either_side) {
    for (std::uint64_t contents = 0; contents < 3 * cipher_segment_bytes; contents += 13)
        ASSERT_EQ(decrypted_bytes(encrypted_bytes(contents)), contents);
    for (std::uint64_t none : {0U, 64U, 79U}) EXPECT_EQ(decrypted_bytes(none), std::nullopt);
    // A second segment of nothing.
    EXPECT_EQ(decrypted_bytes(encrypted_bytes(cipher_segment_bytes) + cipher_tag_bytes),
              std::nullopt);
}

class encrypted_objects : public testing::Test {
  protected:
    std::unique_ptr<object_store> open(object_keys keys) {
        return make_encrypted_objects(
            std::move(*open_directory_objects(posix_file_system(), dir_.path())), std::move(keys));
    }
    std::string raw(const std::string& name) {
        std::string bytes;
        EXPECT_TRUE(plain_->get(name, bytes));
        return bytes;
    }
    void put_raw(const std::string& name, std::string_view bytes) {
        EXPECT_TRUE(plain_->put(name, bytes, always()));
    }
    /// Of get() and of get_range().
    std::pair<object_errc, object_errc> errors(object_store& objects, const std::string& name) {
        std::string bytes = "stale", part(1, '\0');
        const auto got = objects.get(name, bytes);
        EXPECT_EQ(bytes, "");
        const auto ranged = objects.get_range(name, 0, std::as_writable_bytes(std::span(part)));
        return {got ? object_errc{} : got.error().code,
                ranged ? object_errc{} : ranged.error().code};
    }
    void write(object_store& to, const std::string& name, std::string_view bytes) {
        const auto put = to.put(name, bytes, always());
        EXPECT_TRUE(put) << put.error().what;
    }

    tests::temp_dir dir_;
    std::unique_ptr<object_store> plain_ =
        std::move(*open_directory_objects(posix_file_system(), dir_.path()));
    std::unique_ptr<object_store> store_ = open({key_of('a')});
};

constexpr std::pair both_corrupt(object_errc::corrupt, object_errc::corrupt);
constexpr std::pair both_denied(object_errc::denied, object_errc::denied);

TEST_F(encrypted_objects, leave_nothing_to_read_and_never_the_same_bytes_twice) {
    const std::string secret(300, 's');
    write(*store_, "one", secret);
    const std::string first = raw("one");
    EXPECT_EQ(first.find("ssss"), std::string::npos);
    EXPECT_EQ(first.size(), encrypted_bytes(secret.size()));
    EXPECT_TRUE(is_encrypted_object(first));
    EXPECT_FALSE(is_encrypted_object(secret));
    write(*store_, "one", secret);
    EXPECT_NE(raw("one"), first);
}

TEST_F(encrypted_objects, sizes_and_ranges_are_those_of_the_contents) {
    std::string bytes;
    for (std::size_t i = 0; i < 3 * cipher_segment_bytes; ++i)
        bytes += static_cast<char>((i * 2654435761U) >> 13);
    write(*store_, "many", bytes);
    const std::string names[] = {"many"};
    EXPECT_EQ((*store_->stat(names))[0]->bytes, bytes.size());
    EXPECT_EQ(store_->list("", "", 10)->objects[0].bytes, bytes.size());
    constexpr std::size_t edge = cipher_segment_bytes;
    for (const auto& [offset, count] : std::vector<std::pair<std::size_t, std::size_t>>{
             {0, 3 * edge}, {edge - 1, 2}, {edge, edge}, {2 * edge, edge}, {3 * edge - 1, 1}}) {
        std::string target(count, '\0');
        const auto got =
            store_->get_range("many", offset, std::as_writable_bytes(std::span(target)));
        ASSERT_TRUE(got) << got.error().what;
        EXPECT_TRUE(target == bytes.substr(offset, count)) << offset;
        EXPECT_EQ(got->bytes, bytes.size());
    }
    std::string beyond(1, '\0');
    EXPECT_EQ(
        store_->get_range("many", 3 * edge, std::as_writable_bytes(std::span(beyond))).error().code,
        object_errc::bad_value);
}

TEST_F(encrypted_objects, any_changed_bit_is_found) {
    write(*store_, "it", "contents");
    const std::string good = raw("it");
    for (std::size_t at = 0; at < good.size(); ++at) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 1);
        put_raw("it", bad);
        const auto found = errors(*store_, "it");
        const bool is_key_id = at >= 16 && at < 32;
        EXPECT_EQ(found, is_key_id ? both_denied : both_corrupt) << at;
    }
}

TEST_F(encrypted_objects, what_is_cut_off_moved_or_appended_is_found) {
    write(*store_, "it", std::string(2 * cipher_segment_bytes, 'x'));
    const std::string good = raw("it");
    constexpr std::size_t sealed = cipher_segment_bytes + cipher_tag_bytes;
    const std::string head = good.substr(0, cipher_header_bytes);
    const std::string first = good.substr(cipher_header_bytes, sealed);
    const std::string second = good.substr(cipher_header_bytes + sealed);
    for (const std::string& bad :
         {head + first, head + second, head + second + first, head + first + first + second, head,
          head.substr(1), good.substr(0, good.size() - 1), good + "x", std::string()}) {
        put_raw("it", bad);
        std::string contents;
        EXPECT_EQ(store_->get("it", contents).error().code, object_errc::corrupt) << bad.size();
    }
    put_raw("it", good);
    std::string contents;
    EXPECT_TRUE(store_->get("it", contents));
}

TEST_F(encrypted_objects, one_under_anothers_name_is_found) {
    write(*store_, "agents/one", "of one");
    put_raw("agents/two", raw("agents/one"));
    EXPECT_EQ(errors(*store_, "agents/two"), both_corrupt);
}

TEST_F(encrypted_objects, what_is_not_encrypted_is_not_taken) {
    for (const std::string& plain : {std::string(), std::string("plain"), std::string(500, 'p')}) {
        put_raw("plain", plain);
        EXPECT_EQ(errors(*store_, "plain"), both_corrupt) << plain.size();
    }
}

TEST_F(encrypted_objects, keys_are_changed_while_old_ones_still_read) {
    write(*store_, "old", "by a");
    const auto rotated = open({key_of('b'), key_of('a')});
    std::string bytes;
    ASSERT_TRUE(rotated->get("old", bytes));
    EXPECT_EQ(bytes, "by a");
    write(*rotated, "new", "by b");
    EXPECT_EQ(errors(*store_, "new"), both_denied);
    EXPECT_EQ(errors(*open({key_of('c')}), "old"), both_denied);
}

TEST_F(encrypted_objects, conditions_and_absence_are_the_stores_own) {
    EXPECT_TRUE(check_conditions(*store_));
    EXPECT_EQ(errors(*store_, "none"), std::pair(object_errc::not_found, object_errc::not_found));
    EXPECT_EQ(store_->put("a name", "x", always()).error().code, object_errc::bad_value);
}

TEST(object_keys, are_lines_of_64_hex_digits) {
    const std::string digits(64, 'a'), others(64, 'B');
    const auto keys = parse_object_keys("# made in May\n\n  " + digits + "\r\n" + others);
    ASSERT_TRUE(keys) << keys.error().what;
    EXPECT_EQ(*keys, (object_keys{key_of('\xaa'), key_of('\xbb')}));
}

TEST(object_keys, what_is_none_is_said_with_its_line_and_without_a_digit_of_it) {
    const std::string digits(64, 'a');
    std::string many;
    for (std::size_t i = 0; i < object_keys_max; ++i)
        many += std::string(62, '0') + hex_digits[i / 16] + hex_digits[i % 16] + "\n";
    EXPECT_TRUE(parse_object_keys(many));
    const std::pair<std::string, std::string> bad[] = {
        {"", "there is no key"},
        {"# none\n", "there is no key"},
        {digits + "a", "line 1 is no key"},
        {digits.substr(1), "line 1 is no key"},
        {"\n" + digits.substr(1) + "g", "line 2 is no key"},
        {digits + "\n" + digits, "line 2 has a key that was there before"},
        {many + digits, "line 17 is one key more than 16"},
    };
    for (const auto& [text, why] : bad) {
        const auto keys = parse_object_keys(text);
        ASSERT_FALSE(keys) << text;
        EXPECT_EQ(keys.error().code, object_errc::bad_value);
        EXPECT_NE(keys.error().what.find(why), std::string::npos) << keys.error().what;
        EXPECT_EQ(keys.error().what.find("aaaa"), std::string::npos) << keys.error().what;
    }
}

TEST(object_keys, a_file_that_anybody_may_read_is_not_taken) {
    tests::temp_dir dir;
    const std::string path = dir / "keys";
    std::ofstream(path) << std::string(64, 'a') << "\n";
    ASSERT_EQ(chmod(path.c_str(), 0640), 0);
    EXPECT_TRUE(read_object_keys(posix_file_system(), path));
    ASSERT_EQ(chmod(path.c_str(), 0644), 0);
    const auto open = read_object_keys(posix_file_system(), path);
    ASSERT_FALSE(open);
    EXPECT_EQ(open.error().code, object_errc::denied);
    EXPECT_EQ(read_object_keys(posix_file_system(), dir / "none").error().code, object_errc::io);
}

TEST(object_keys, a_file_has_at_most_64_KiB) {
    tests::temp_dir dir;
    const std::string path = dir / "keys", key = std::string(64, 'a') + "\n";
    for (const std::size_t bytes : {std::size_t{64} * 1024, std::size_t{64} * 1024 + 1}) {
        std::ofstream(path) << key << std::string(bytes - key.size(), '\n');
        ASSERT_EQ(chmod(path.c_str(), 0600), 0);
        const auto keys = read_object_keys(posix_file_system(), path);
        EXPECT_EQ(keys.has_value(), bytes == std::size_t{64} * 1024) << bytes;
    }
}

TEST_F(encrypted_objects, a_directory_without_the_key_is_told_so) {
    tests::temp_dir agreeing, without;
    ASSERT_TRUE(agree_on_secret(*store_, posix_file_system(), agreeing.path()));
    const auto agreed = agree_on_secret(*plain_, posix_file_system(), without.path());
    ASSERT_FALSE(agreed);
    EXPECT_EQ(agreed.error().code, object_errc::denied);
    EXPECT_NE(agreed.error().what.find("--object-store-key-file"), std::string::npos);
}

TEST_F(encrypted_objects, a_sweep_without_the_key_is_refused_and_leaves_no_notice) {
    tests::temp_dir cache;
    ASSERT_TRUE(agree_on_secret(*store_, posix_file_system(), cache.path()));
    const auto other = open({key_of('b')});
    for (object_store* without : {plain_.get(), other.get()}) {
        const auto swept = sweep_objects(*without, {});
        ASSERT_FALSE(swept);
        EXPECT_EQ(swept.error().code, object_errc::denied);
    }
    EXPECT_TRUE(plain_->list(sweep_notice::name, "", 1)->objects.empty());
    EXPECT_TRUE(sweep_objects(*store_, {}));
}

}  // namespace
}  // namespace semantic::storage
