// SPDX-License-Identifier: Apache-2.0
// What every object store promises, on each of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <sys/mman.h>
#include <thread>

#include "storage/objects/directory_objects.hpp"
#include "storage/objects/encryption/encrypted_objects.hpp"
#include "tests/objects/stores.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

/// Opens the same store again and again, as several machines do.
class object_store_contract : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        if (GetParam() == std::string("encrypted")) {
            open_ = [this] {
                return make_encrypted_objects(
                    std::move(*open_directory_objects(posix_file_system(), dir_.path())),
                    {std::string(object_key_bytes, 'k')});
            };
        } else if (GetParam() == std::string("s3")) {
            if (!tests::s3_url()) GTEST_SKIP() << "SEMANTIC_TEST_S3 names no S3 store";
            const s3_options options = tests::s3_options_for_test();
            open_ = [options] { return make_s3_objects(options); };
        } else {
            open_ = [this] {
                return std::move(*open_directory_objects(posix_file_system(), dir_.path()));
            };
        }
        store_ = open_();
    }

    object_errc error_of_get(const std::string& name) {
        std::string bytes = "stale";
        const auto got = store_->get(name, bytes);
        EXPECT_EQ(bytes, "") << name;
        return got ? object_errc{} : got.error().code;
    }
    std::string read(const std::string& name) {
        std::string bytes;
        const auto got = store_->get(name, bytes);
        EXPECT_TRUE(got) << got.error().what;
        return bytes;
    }
    std::string write(const std::string& name, std::string_view bytes) {
        const auto put = store_->put(name, bytes, always());
        EXPECT_TRUE(put) << put.error().what;
        return put ? *put : std::string();
    }
    /// Every page, one after the other.
    std::vector<std::string> names(const std::string& prefix, std::size_t page_objects) {
        std::vector<std::string> all;
        std::string from;
        do {
            const auto page = store_->list(prefix, from, page_objects);
            EXPECT_TRUE(page) << page.error().what;
            if (!page || all.size() > 100) return {};
            EXPECT_LE(page->objects.size(), page_objects);
            for (const listed_object& each : page->objects) all.push_back(each.name);
            from = page->next;
        } while (!from.empty());
        return all;
    }

    tests::temp_dir dir_;
    std::function<std::unique_ptr<object_store>()> open_;
    std::unique_ptr<object_store> store_;
};

std::string many_bytes(std::size_t count) {
    std::string bytes(count, '\0');
    std::uint32_t state = 1;
    for (char& each : bytes) {
        state = state * 1664525 + 1013904223;
        each = static_cast<char>(state >> 24);
    }
    return bytes;
}

TEST_P(object_store_contract, what_was_put_comes_back_whole_anywhere) {
    for (std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{3} << 20}) {
        const std::string name = "blocks/" + std::to_string(count), bytes = many_bytes(count);
        const std::string version = write(name, bytes);
        std::string contents = "stale";
        const auto got = open_()->get(name, contents);
        ASSERT_TRUE(got) << got.error().what;
        EXPECT_TRUE(contents == bytes) << count;
        EXPECT_EQ(got->bytes, count);
        EXPECT_EQ(got->version, version);
    }
}

TEST_P(object_store_contract, a_range_is_those_bytes_and_never_fewer) {
    const std::string bytes = many_bytes(1000);
    const std::string version = write("ranged", bytes);
    const std::vector<std::pair<std::uint64_t, std::size_t>> inside{
        {0, 1}, {0, 1000}, {999, 1}, {500, 500}, {17, 100}};
    for (const auto& [offset, count] : inside) {
        std::string target(count, '\0');
        const auto got =
            store_->get_range("ranged", offset, std::as_writable_bytes(std::span(target)));
        ASSERT_TRUE(got) << got.error().what;
        EXPECT_TRUE(target == bytes.substr(offset, count)) << offset << " " << count;
        EXPECT_EQ(got->bytes, 1000U);
        EXPECT_EQ(got->version, version);
    }
    const std::vector<std::pair<std::uint64_t, std::size_t>> outside{
        {0, 1001}, {1000, 1}, {999, 2}, {5000, 1}, {0, 0}};
    for (const auto& [offset, count] : outside) {
        std::string target(count, '\0');
        const auto got =
            store_->get_range("ranged", offset, std::as_writable_bytes(std::span(target)));
        ASSERT_FALSE(got) << offset << " " << count;
        EXPECT_EQ(got.error().code, object_errc::bad_value) << got.error().what;
    }
}

TEST_P(object_store_contract, one_byte_more_than_an_object_may_have_is_refused) {
    // Never touched, so that the pages are never there.
    constexpr std::size_t count = object_bytes_max + 1;
    void* const pages =
        mmap(nullptr, count, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(pages, MAP_FAILED);
    const auto put = store_->put("huge", {static_cast<const char*>(pages), count}, always());
    munmap(pages, count);
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, object_errc::bad_value);
    EXPECT_EQ(error_of_get("huge"), object_errc::not_found);
}

TEST_P(object_store_contract, what_is_not_there_is_said_to_be_absent) {
    EXPECT_EQ(error_of_get("nothing"), object_errc::not_found);
    std::string target(1, '\0');
    const auto ranged = store_->get_range("nothing", 0, std::as_writable_bytes(std::span(target)));
    ASSERT_FALSE(ranged);
    EXPECT_EQ(ranged.error().code, object_errc::not_found);
    EXPECT_TRUE(store_->remove("nothing"));
    EXPECT_TRUE(names("", 10).empty());
    write("something", "x");
    EXPECT_TRUE(store_->remove("something"));
    EXPECT_EQ(error_of_get("something"), object_errc::not_found);
    EXPECT_TRUE(names("", 10).empty());
}

TEST_P(object_store_contract, a_put_replaces_the_object_and_its_version) {
    const std::string first = write("agent", "first, and long");
    const std::string second = write("agent", "second");
    EXPECT_NE(first, second);
    EXPECT_EQ(read("agent"), "second");
}

TEST_P(object_store_contract, an_object_that_is_there_is_not_put_again_if_absent) {
    const auto first = store_->put("block", "first", if_absent());
    ASSERT_TRUE(first) << first.error().what;
    const auto second = open_()->put("block", "second", if_absent());
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, object_errc::precondition_failed) << second.error().what;
    EXPECT_EQ(read("block"), "first");
    ASSERT_TRUE(store_->remove("block"));
    EXPECT_TRUE(store_->put("block", "third", if_absent()));
    EXPECT_EQ(read("block"), "third");
}

TEST_P(object_store_contract, who_has_seen_an_older_version_writes_nothing) {
    const std::string first = write("agent", "1");
    const auto second = store_->put("agent", "2", if_version(first));
    ASSERT_TRUE(second) << second.error().what;
    for (const std::string& stale : {first, std::string("0123456789abcdef")}) {
        const auto refused = open_()->put("agent", "lost", if_version(stale));
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, object_errc::precondition_failed) << refused.error().what;
    }
    EXPECT_EQ(read("agent"), "2");
    ASSERT_TRUE(store_->remove("agent"));
    const auto refused = store_->put("agent", "3", if_version(*second));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, object_errc::precondition_failed) << refused.error().what;
    EXPECT_EQ(error_of_get("agent"), object_errc::not_found);
}

TEST_P(object_store_contract, many_are_looked_for_at_once) {
    std::vector<std::string> asked;
    for (int i = 0; i < 20; ++i) {
        asked.push_back("many/" + std::to_string(i));
        if (i % 3 == 0) write(asked.back(), std::string(static_cast<std::size_t>(i), 'x'));
    }
    const auto infos = store_->stat(asked);
    ASSERT_TRUE(infos) << infos.error().what;
    ASSERT_EQ(infos->size(), asked.size());
    for (std::size_t i = 0; i < asked.size(); ++i) {
        ASSERT_EQ((*infos)[i].has_value(), i % 3 == 0) << i;
        if ((*infos)[i]) {
            EXPECT_EQ((*infos)[i]->bytes, i);
            EXPECT_FALSE((*infos)[i]->version.empty());
        }
    }
    EXPECT_TRUE(store_->stat({})->empty());
}

TEST_P(object_store_contract, lists_are_in_the_order_of_names_whatever_the_page) {
    const std::vector<std::string> sorted{"a-b", "a.b", "a/b", "a/c/d", "a/c0", "a0", "b", "b0/x"};
    for (auto each = sorted.rbegin(); each != sorted.rend(); ++each) write(*each, *each);
    for (std::size_t page_objects : {1U, 2U, 3U, 7U, 8U, 9U, 1000U})
        EXPECT_EQ(names("", page_objects), sorted) << page_objects;
    EXPECT_EQ(names("a/", 1), (std::vector<std::string>{"a/b", "a/c/d", "a/c0"}));
    EXPECT_EQ(names("a/c", 1), (std::vector<std::string>{"a/c/d", "a/c0"}));
    EXPECT_EQ(names("b", 1), (std::vector<std::string>{"b", "b0/x"}));
    EXPECT_TRUE(names("c", 1).empty());
    EXPECT_EQ(store_->list("a.", "", 10)->objects.at(0).bytes, 3U);
    for (std::size_t count : {std::size_t{0}, object_page_max + 1})
        EXPECT_EQ(store_->list("", "", count).error().code, object_errc::bad_value) << count;
    EXPECT_EQ(store_->list("a b", "", 1).error().code, object_errc::bad_value);
}

TEST_P(object_store_contract, names_are_taken_up_to_their_bounds_and_refused_beyond) {
    const std::string part(object_name_part_bytes_max, 'p');
    const std::string longest = part + "/" + part + "/" + part + "/" + part.substr(3);
    ASSERT_EQ(longest.size(), object_name_bytes_max);
    write(part, "part");
    EXPECT_EQ(read(part), "part");
    ASSERT_TRUE(store_->remove(part));
    write(longest, "whole");
    EXPECT_EQ(read(longest), "whole");
    for (const std::string& name :
         {longest + "p", part + "p", std::string(), std::string("a b"), std::string("a/../b"),
          std::string(".."), std::string(".hidden"), std::string("a//b"), std::string("/a"),
          std::string("a/"), std::string("\xc3\xa4"), std::string("a\0b", 3)}) {
        EXPECT_EQ(error_of_get(name), object_errc::bad_value) << name;
        EXPECT_EQ(store_->put(name, "x", always()).error().code, object_errc::bad_value) << name;
        EXPECT_EQ(store_->remove(name).error().code, object_errc::bad_value) << name;
        EXPECT_EQ(store_->stat(std::vector{name}).error().code, object_errc::bad_value) << name;
    }
}

TEST_P(object_store_contract, of_many_who_make_an_object_at_once_one_wins) {
    std::atomic<int> winners{0}, losers{0};
    std::atomic<int> winner{-1};
    {
        std::vector<std::jthread> writers;
        for (int i = 0; i < 8; ++i)
            writers.emplace_back([&, i] {
                const auto put = open_()->put("made", std::to_string(i), if_absent());
                if (put) {
                    ++winners;
                    winner = i;
                } else if (put.error().code == object_errc::precondition_failed) {
                    ++losers;
                }
            });
    }
    EXPECT_EQ(winners, 1);
    EXPECT_EQ(losers, 7);
    EXPECT_EQ(read("made"), std::to_string(winner));
}

TEST_P(object_store_contract, no_update_is_lost_between_writers_who_compare_versions) {
    constexpr int writer_count = 4, rounds = 10;
    write("counter", "0");
    std::atomic<int> faults{0};
    {
        std::vector<std::jthread> writers;
        for (int i = 0; i < writer_count; ++i)
            writers.emplace_back([&] {
                const auto mine = open_();
                for (int done = 0, tries = 0; done < rounds && tries < 1000; ++tries) {
                    std::string bytes;
                    const auto seen = mine->get("counter", bytes);
                    if (!seen) {
                        ++faults;
                        return;
                    }
                    const std::string more = std::to_string(std::atoi(bytes.c_str()) + 1);
                    const auto put = mine->put("counter", more, if_version(seen->version));
                    if (put) ++done;
                    if (!put && put.error().code != object_errc::precondition_failed) ++faults;
                }
            });
    }
    EXPECT_EQ(faults, 0);
    EXPECT_EQ(read("counter"), std::to_string(writer_count * rounds));
}

TEST_P(object_store_contract, conditions_are_found_to_hold) {
    const auto checked = check_conditions(*store_);
    EXPECT_TRUE(checked) << checked.error().what;
    EXPECT_TRUE(names("", 10).empty());
}

INSTANTIATE_TEST_SUITE_P(on, object_store_contract, testing::Values("directory", "encrypted", "s3"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace semantic::storage
