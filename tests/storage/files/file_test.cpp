// SPDX-License-Identifier: Apache-2.0
#include "storage/files/file.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/fault_file_system.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

using semantic::tests::fault;
using semantic::tests::fault_file_system;
using semantic::tests::lost;
using semantic::tests::temp_dir;

mode_t mode_of(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 0777;
}

result<void> write_file(file_system& files, const std::string& path, const std::string& text,
                        bool sync = true) {
    auto file = files.create(path);
    if (!file) return file.error();
    if (auto ok = (*file)->write(std::as_bytes(std::span(text))); !ok) return ok;
    return sync ? (*file)->sync() : result<void>{};
}

TEST(posix_file_system, files_are_0600_and_directories_0700_whatever_the_umask) {
    const temp_dir directory;
    const mode_t before = ::umask(0);
    file_system& files = posix_file_system();
    ASSERT_TRUE(files.make_directory(directory / "a/b/c"));
    ASSERT_TRUE(write_file(files, directory / "a/b/c/file", "text"));
    ASSERT_TRUE(files.lock(directory.path()));
    ::umask(before);
    EXPECT_EQ(mode_of(directory / "a"), 0700u);
    EXPECT_EQ(mode_of(directory / "a/b/c"), 0700u);
    EXPECT_EQ(mode_of(directory / "a/b/c/file"), 0600u);
    EXPECT_EQ(mode_of(directory / "lock"), 0600u);
}

TEST(posix_file_system, reads_back_what_was_written) {
    const temp_dir directory;
    file_system& files = posix_file_system();
    ASSERT_TRUE(write_file(files, directory / "file", "0123456789"));
    auto file = files.open(directory / "file");
    ASSERT_TRUE(file);
    EXPECT_EQ((*file)->size().value(), 10u);
    std::string part(4, '\0');
    ASSERT_TRUE((*file)->read_at(3, std::as_writable_bytes(std::span(part))));
    EXPECT_EQ(part, "3456");
    const auto beyond = (*file)->read_at(7, std::as_writable_bytes(std::span(part)));
    ASSERT_FALSE(beyond);
    EXPECT_EQ(beyond.error().code, errc::corrupt);
}

TEST(posix_file_system, missing_things_are_not_found_and_named) {
    const temp_dir directory;
    file_system& files = posix_file_system();
    const std::string path = directory / "none";
    for (const auto& outcome :
         {files.open(path).error(), files.unlink(path).error(), files.list(path).error(),
          files.rename(path, path + "2").error(), files.sync_directory(path).error()}) {
        EXPECT_EQ(outcome.code, errc::not_found) << outcome.what;
        EXPECT_NE(outcome.what.find(path), std::string::npos) << outcome.what;
    }
}

TEST(posix_file_system, links_are_not_listed_so_that_nothing_leads_out_of_a_cache) {
    const temp_dir directory, elsewhere;
    file_system& files = posix_file_system();
    ASSERT_TRUE(write_file(files, elsewhere / "file", "text"));
    std::filesystem::create_symlink(elsewhere / "file", directory / "file");
    std::filesystem::create_directory_symlink(elsewhere.path(), directory / "folder");
    const auto entries = files.list(directory.path());
    ASSERT_TRUE(entries) << entries.error().what;
    EXPECT_TRUE(entries->empty());
}

TEST(posix_file_system, lists_files_and_directories_by_name) {
    const temp_dir directory;
    file_system& files = posix_file_system();
    ASSERT_TRUE(write_file(files, directory / "b", "22"));
    ASSERT_TRUE(files.make_directory(directory / "a"));
    const auto entries = files.list(directory.path());
    ASSERT_TRUE(entries);
    ASSERT_EQ(entries->size(), 2u);
    EXPECT_TRUE((*entries)[0].is_directory);
    EXPECT_EQ((*entries)[1].name, "b");
    EXPECT_EQ((*entries)[1].bytes, 2u);
}

TEST(posix_file_system, a_second_lock_is_refused_until_the_first_lets_go) {
    const temp_dir directory;
    file_system& files = posix_file_system();
    auto first = files.lock(directory.path());
    ASSERT_TRUE(first);
    const auto second = files.lock(directory.path());
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, errc::locked);
    first->reset();
    EXPECT_TRUE(files.lock(directory.path()));
}

TEST(posix_file_system,
     a_lock_holds_without_its_file_and_beside_programs_that_know_the_file_alone) {
    const temp_dir directory;
    file_system& files = posix_file_system();
    {
        const auto held = files.lock(directory.path());
        ASSERT_TRUE(held);
        std::filesystem::remove(directory / "lock");
        EXPECT_EQ(files.lock(directory.path()).error().code, errc::locked);
    }
    const int fd = ::open((directory / "lock").c_str(), O_RDWR | O_CREAT, 0600);
    ASSERT_EQ(::flock(fd, LOCK_EX | LOCK_NB), 0);
    EXPECT_EQ(files.lock(directory.path()).error().code, errc::locked);
    ::close(fd);
    EXPECT_TRUE(files.lock(directory.path()));
}

TEST(posix_file_system, a_lock_knows_whether_its_directory_is_still_there) {
    const temp_dir directory;
    file_system& files = posix_file_system();
    const std::string inner = directory / "inner";
    ASSERT_TRUE(files.make_directory(inner));
    const auto held = files.lock(inner);
    ASSERT_TRUE(held);
    EXPECT_TRUE((*held)->is_in_place());
    EXPECT_TRUE(*files.exists(inner + "/lock"));
    std::filesystem::remove_all(inner);
    EXPECT_FALSE((*held)->is_in_place());
    EXPECT_FALSE(*files.exists(inner + "/lock"));
    ASSERT_TRUE(files.make_directory(inner));
    EXPECT_FALSE((*held)->is_in_place());
    EXPECT_TRUE(files.lock(inner));
}

TEST(posix_file_system, a_full_device_is_out_of_space) {
    if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "skipped: no /dev/full here";
    const auto full = write_file(posix_file_system(), "/dev/full", "text");
    ASSERT_FALSE(full);
    EXPECT_EQ(full.error().code, errc::out_of_space);
}

TEST(posix_file_system, a_file_where_a_directory_is_needed_is_an_error) {
    const temp_dir directory;
    ASSERT_TRUE(write_file(posix_file_system(), directory / "file", ""));
    EXPECT_FALSE(posix_file_system().make_directory(directory / "file"));
    EXPECT_FALSE(posix_file_system().make_directory(directory / "file/below"));
}

TEST(posix_file_system, knows_the_space_that_is_left) {
    const temp_dir directory;
    const auto space = posix_file_system().space(directory.path());
    ASSERT_TRUE(space);
    EXPECT_GT(space->total_bytes, 0u);
    EXPECT_LE(space->free_bytes, space->total_bytes);
}

TEST(read_whole, a_file_of_one_byte_more_than_allowed_is_refused) {
    const temp_dir directory;
    ASSERT_TRUE(write_file(posix_file_system(), directory / "file", "12345"));
    EXPECT_EQ(read_whole(posix_file_system(), directory / "file", 5).value(), "12345");
    const auto refused = read_whole(posix_file_system(), directory / "file", 4);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, errc::corrupt);
}

// The crash tests rely on the fault injector, so its own model is tested.
TEST(fault_file_system, a_cut_takes_unsynced_bytes_names_and_renames) {
    const temp_dir directory;
    fault_file_system files(directory.path());
    ASSERT_TRUE(write_file(files, directory / "kept", "kept"));
    ASSERT_TRUE(write_file(files, directory / "old", "old"));
    ASSERT_TRUE(files.sync_directory(directory.path()));
    ASSERT_TRUE(write_file(files, directory / "unnamed", "synced, its name is not"));
    ASSERT_TRUE(write_file(files, directory / "new", "new"));
    ASSERT_TRUE(files.rename(directory / "new", directory / "old"));
    ASSERT_TRUE(files.unlink(directory / "kept"));
    files.restart(lost::everything);
    EXPECT_EQ(read_whole(files, directory / "old", 99).value(), "old");
    EXPECT_EQ(read_whole(files, directory / "kept", 99).value(), "kept");
    EXPECT_FALSE(files.open(directory / "unnamed"));
    EXPECT_FALSE(files.open(directory / "new"));
}

TEST(fault_file_system, a_synced_name_of_unsynced_bytes_is_an_empty_file) {
    const temp_dir directory;
    fault_file_system files(directory.path());
    ASSERT_TRUE(write_file(files, directory / "file", "text", false));
    ASSERT_TRUE(files.sync_directory(directory.path()));
    files.restart(lost::everything);
    EXPECT_EQ(read_whole(files, directory / "file", 99).value(), "");
}

TEST(fault_file_system, fails_the_operation_asked_for) {
    const temp_dir directory;
    fault_file_system files(directory.path());
    files.fail_at(2, fault::torn_write);
    EXPECT_FALSE(write_file(files, directory / "file", "0123456789"));
    EXPECT_TRUE(files.has_fired());
    EXPECT_EQ(read_whole(files, directory / "file", 99).value(), "01234");
    files.fail_at(1, fault::no_space);
    EXPECT_EQ(write_file(files, directory / "file", "x").error().code, errc::out_of_space);
    files.fail_at(1, fault::power_cut);
    EXPECT_FALSE(files.unlink(directory / "file"));
    EXPECT_FALSE(files.open(directory / "file"));
    files.restart(lost::nothing);
    EXPECT_TRUE(files.open(directory / "file"));
}

}  // namespace
}  // namespace semantic::storage
