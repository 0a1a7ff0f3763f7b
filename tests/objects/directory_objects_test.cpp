// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/directory_objects.hpp"

#include <gtest/gtest.h>

#include "storage/files/checksum.hpp"
#include "storage/types/hex.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

using tests::fault;
using tests::fault_file_system;
using tests::lost;
using tests::temp_dir;

std::unique_ptr<object_store> open_in(file_system& files, const std::string& path,
                                      const directory_objects_options& options = {}) {
    auto store = open_directory_objects(files, path, options);
    EXPECT_TRUE(store) << store.error().what;
    return std::move(*store);
}

void write_file(const std::string& path, std::string_view bytes) {
    auto file = posix_file_system().create(path);
    ASSERT_TRUE(file) << path;
    ASSERT_TRUE((*file)->write(std::as_bytes(std::span(bytes))));
}

/// The object's bytes; what went wrong in their place.
std::string read(object_store& store, const std::string& name) {
    std::string bytes;
    const auto got = store.get(name, bytes);
    return got ? bytes : std::string("error: ") + to_string(got.error().code);
}

TEST(directory_objects, have_the_bytes_that_their_format_says) {
    temp_dir dir;
    const auto version = open_in(posix_file_system(), dir.path())->put("a/b", "hello", always());
    ASSERT_TRUE(version);
    const auto file = read_whole(posix_file_system(), dir / "objects/a/b", 1000);
    ASSERT_TRUE(file);
    EXPECT_EQ(file->substr(0, 16), std::string("SEMOBJCT\1\0\0\0\0\0\0\0", 16));
    EXPECT_EQ(file->substr(16, 16), *bytes_of_hex(*version));
    EXPECT_EQ(file->substr(32, 8), std::string("\5\0\0\0\0\0\0\0", 8));
    // XXH3-128 of "hello", big-endian.
    EXPECT_EQ(file->substr(40, 16), *bytes_of_hex("b5e9c1ad071b3e7fc779cfaa5e523818"));
    std::string seal;
    for (int i = 0; i < 8; ++i)
        seal += static_cast<char>(checksum_of(file->substr(0, 56)) >> (8 * i) & 255);
    EXPECT_EQ(file->substr(56, 8), seal);
    EXPECT_EQ(file->substr(64), "hello");
}

TEST(directory_objects, any_damage_to_an_object_is_seen) {
    temp_dir dir;
    const auto store = open_in(posix_file_system(), dir.path());
    ASSERT_TRUE(store->put("a", "contents", always()));
    const std::string path = dir / "objects/a";
    const std::string whole = *read_whole(posix_file_system(), path, 1000);
    ASSERT_EQ(read(*store, "a"), "contents");
    for (std::size_t i = 0; i < whole.size(); ++i) {
        std::string changed = whole;
        changed[i] = static_cast<char>(changed[i] ^ 1);
        write_file(path, changed);
        // Another id of the write is another version of the same bytes, so its seal says so.
        EXPECT_EQ(read(*store, "a"), "error: corrupt") << i;
        write_file(path, whole.substr(0, i));
        EXPECT_EQ(read(*store, "a"), "error: corrupt") << i;
    }
    write_file(path, whole + "x");
    EXPECT_EQ(read(*store, "a"), "error: corrupt");
    EXPECT_EQ(store->put("a", "new", if_version("x")).error().code, object_errc::corrupt);
    ASSERT_TRUE(store->put("a", "new", always()));
    EXPECT_EQ(read(*store, "a"), "new");
}

TEST(directory_objects, every_failing_step_of_a_write_leaves_the_old_or_the_new) {
    for (const fault kind : {fault::io_error, fault::no_space, fault::torn_write}) {
        bool is_done = false;
        for (int step = 1; !is_done; ++step) {
            ASSERT_LT(step, 50);
            temp_dir dir;
            fault_file_system files(dir.path());
            const auto store = open_in(files, dir.path());
            const auto old = store->put("a/b", "old", always());
            ASSERT_TRUE(old);
            files.fail_at(step, kind);
            const auto put = store->put("a/b", "new", if_version(*old));
            is_done = !files.has_fired();
            if (put) {
                EXPECT_EQ(read(*store, "a/b"), "new") << step;
            } else {
                const std::string is = read(*store, "a/b");
                EXPECT_TRUE(is == "old" || is == "new") << step << ": " << is;
            }
            EXPECT_TRUE(!is_done || put);
            files.reset();
            ASSERT_TRUE(store->put("a/b", "later", always())) << step;
            EXPECT_EQ(read(*store, "a/b"), "later") << step;
        }
    }
}

TEST(directory_objects, of_two_that_are_new_one_wins_though_no_name_is_seen) {
    temp_dir dir;
    fault_file_system files(dir.path());
    const auto store = open_in(files, dir.path());
    files.forget_names();
    ASSERT_TRUE(store->put("a", "first", if_absent()));
    const auto second = store->put("a", "second", if_absent());
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, object_errc::precondition_failed);
    EXPECT_EQ(read(*store, "a"), "first");
}

TEST(directory_objects, where_there_are_no_links_the_lock_decides) {
    temp_dir dir;
    fault_file_system files(dir.path());
    files.refuse_links();
    const auto store = open_in(files, dir.path());
    ASSERT_TRUE(store->put("a", "first", if_absent()));
    EXPECT_FALSE(store->put("a", "second", if_absent()));
    EXPECT_EQ(read(*store, "a"), "first");
}

TEST(directory_objects, what_was_put_survives_a_power_cut_at_every_step) {
    for (const lost loss : {lost::everything, lost::nothing, lost::at_random}) {
        bool is_done = false;
        for (int step = 1; !is_done; ++step) {
            ASSERT_LT(step, 50);
            temp_dir dir;
            fault_file_system files(dir.path());
            bool is_made = false, is_replaced = false;
            {
                const auto store = open_in(files, dir.path());
                files.fail_at(step, fault::power_cut);
                is_made = store->put("a", "old", if_absent()).has_value();
                is_replaced = store->put("a", "new", always()).has_value();
                is_done = !files.has_fired();
            }
            files.restart(loss, static_cast<unsigned>(step));
            const auto store = open_in(files, dir.path());
            const std::string is = read(*store, "a");
            if (is_replaced)
                EXPECT_EQ(is, "new") << step;
            else if (is_made)
                EXPECT_TRUE(is == "old" || is == "new") << step << ": " << is;
            else
                EXPECT_TRUE(is == "old" || is == "error: not_found") << step << ": " << is;
            EXPECT_TRUE(!is_done || is_replaced);
        }
    }
}

TEST(directory_objects, a_writer_that_holds_the_lock_makes_others_wait_no_longer_than_their_bound) {
    temp_dir dir;
    directory_objects_options options;
    options.lock_wait_max = std::chrono::milliseconds(50);
    const auto store = open_in(posix_file_system(), dir.path(), options);
    ASSERT_TRUE(store->put("a", "old", always()));
    const auto folders = posix_file_system().list(dir / "locks");
    ASSERT_EQ(folders->size(), 1U);
    {
        const auto held = posix_file_system().lock((dir / "locks/") + folders->at(0).name);
        ASSERT_TRUE(held);
        EXPECT_EQ(store->put("a", "new", always()).error().code, object_errc::unavailable);
        EXPECT_EQ(store->remove("a").error().code, object_errc::unavailable);
        EXPECT_EQ(read(*store, "a"), "old");
    }
    EXPECT_TRUE(store->put("a", "new", always()));
    EXPECT_TRUE(posix_file_system().list(dir / "tmp")->empty());
}

TEST(directory_objects, temporaries_are_removed_when_they_are_older_than_a_day) {
    temp_dir dir;
    const std::int64_t now = 1'000'000'000;
    directory_objects_options options;
    options.now_seconds = now;
    (void)open_in(posix_file_system(), dir.path(), options);
    const auto left_at = [&](std::int64_t seconds) {
        return hex_of(static_cast<std::uint64_t>(seconds)) + "0123456789abcdef";
    };
    const std::string old = left_at(now - temporary_seconds_max - 1);
    const std::string young = left_at(now - temporary_seconds_max);
    for (const std::string& name : {old, young, std::string("stranger")})
        write_file(dir / "tmp/" + name, "x");
    (void)open_in(posix_file_system(), dir.path(), options);
    EXPECT_FALSE(*posix_file_system().exists(dir / "tmp/" + old));
    EXPECT_TRUE(*posix_file_system().exists(dir / "tmp/" + young));
    EXPECT_TRUE(*posix_file_system().exists(dir / "tmp/stranger"));
}

TEST(directory_objects, files_of_strangers_are_not_listed) {
    temp_dir dir;
    const auto store = open_in(posix_file_system(), dir.path());
    ASSERT_TRUE(store->put("a", "x", always()));
    write_file(dir / "objects/.nfs0001", std::string(100, 'x'));
    write_file(dir / "objects/short", "x");
    const auto page = store->list("", "", 10);
    ASSERT_EQ(page->objects.size(), 1U);
    EXPECT_EQ(page->objects[0].name, "a");
}

}  // namespace
}  // namespace semantic::storage
