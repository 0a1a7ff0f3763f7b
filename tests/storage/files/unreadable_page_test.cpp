// SPDX-License-Identifier: Apache-2.0
// What is said when a page of a mapped file cannot be read.

#include "storage/files/unreadable_page.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "storage/files/mapped_file.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

using testing::KilledBySignal;

class unreadable_page : public testing::Test {
  protected:
    unreadable_page() { write(path_); }
    static void write(const std::string& path) {
        std::ofstream(path) << std::string(64 << 10, 'w');
    }
    /// Its pages are gone while it is mapped, as those that a disk cannot read.
    void shorten() const { std::filesystem::resize_file(path_, 0); }
    static char last_of(const mapped_file& file) {
        return static_cast<char>(*const_cast<const volatile std::byte*>(&file.bytes().back()));
    }

    const tests::temp_dir dir_;
    const std::string path_ = dir_ / "weights";
};

TEST_F(unreadable_page, ends_the_process_after_a_line_that_names_the_file) {
    const auto end = [&] {
        report_unreadable_pages("a-server");
        auto opened = mapped_file::open(path_);
        const mapped_file moved = std::move(*opened);
        shorten();
        std::printf("%c", last_of(moved));
    };
    EXPECT_EXIT(end(), KilledBySignal(SIGBUS),
                "^a-server: cannot read a page of .*/weights: the disk failed, .*again\n$");
}

TEST_F(unreadable_page, is_told_once_by_the_threads_that_meet_it) {
    const auto end = [&] {
        report_unreadable_pages("a-server");
        const auto file = mapped_file::open(path_);
        shorten();
        std::vector<std::jthread> threads;
        for (int i = 0; i < 8; ++i)
            threads.emplace_back([&] { std::printf("%c", last_of(*file)); });
    };
    EXPECT_EXIT(end(), KilledBySignal(SIGBUS), "^a-server: [^\n]*weights[^\n]*\n$");
}

TEST_F(unreadable_page, of_one_file_more_than_have_names_ends_it_too) {
    const auto end = [&](std::size_t others) {
        report_unreadable_pages("a-server");
        std::vector<mapped_file> files;
        for (std::size_t i = 0; i <= others; ++i)
            files.push_back(std::move(*mapped_file::open(path_)));
        shorten();
        std::printf("%c", last_of(files.back()));
    };
    EXPECT_EXIT(end(mapped_names_max - 1), KilledBySignal(SIGBUS), "page of /.*weights:");
    write(path_);
    EXPECT_EXIT(end(mapped_names_max), KilledBySignal(SIGBUS), "page of a mapped file:");
}

TEST_F(unreadable_page, is_of_a_file_that_is_still_mapped) {
    const auto end = [&] {
        report_unreadable_pages("a-server");
        // Names of files that were let go are free again, and name nothing.
        for (std::size_t i = 0; i < 2 * mapped_names_max; ++i)
            ASSERT_TRUE(mapped_file::open(path_));
        const std::string other = dir_ / "other";
        write(other);
        const auto file = mapped_file::open(other);
        std::filesystem::resize_file(other, 0);
        std::printf("%c", last_of(*file));
    };
    EXPECT_EXIT(end(), KilledBySignal(SIGBUS), "page of /.*other:");
}

TEST_F(unreadable_page, is_not_what_a_signal_from_outside_is_taken_for) {
    const auto end = [&] {
        report_unreadable_pages("a-server");
        ::kill(::getpid(), SIGBUS);
    };
    EXPECT_EXIT(end(), KilledBySignal(SIGBUS), "^$");
}

}  // namespace
}  // namespace semantic::storage
