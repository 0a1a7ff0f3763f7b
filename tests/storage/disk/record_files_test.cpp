// SPDX-License-Identifier: Apache-2.0
#include "storage/disk/record_files.hpp"

#include <gtest/gtest.h>

#include <array>
#include <span>

#include "tests/support/fault_file_system.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

using tests::fault;
using tests::fault_file_system;
using tests::lost;
using tests::temp_dir;

const tenant_id nobody_else;
const tenant_id another{*block_hash::from_hex(std::string(32, 'a'))};

/// A directory with a budget, and its records.
struct kept {
    explicit kept(file_system& files, const std::string& path, std::uint64_t budget = 1 << 20,
                  std::uint64_t record_budget = 1 << 20)
        : quota(files, path, probe),
          records(files, path, quota,
                  [this](const tenant_id&, std::uint64_t bytes) { return promise(bytes); }) {
        EXPECT_TRUE(quota.set_budget(budget, record_budget));
        if (auto held = bytes_below(files, path)) quota.add(*held);
        EXPECT_TRUE(records.open());
    }
    result<disk_quota::promise> promise(std::uint64_t bytes) {
        auto answer = quota.try_promise(bytes, disk_use::record);
        if (!answer) return answer.error();
        if (answer->shortage.missing_bytes() > 0)
            return failure{errc::out_of_space, answer->sentence};
        return disk_quota::promise(quota, bytes);
    }
    store_probe probe{};
    disk_quota quota;
    record_files records;
};

TEST(record, comes_back_as_it_was_and_any_damage_is_seen) {
    const kept_record record{another, "session:coord_1", std::string("a\nb\0c", 5)};
    const std::string bytes = encode_record(record);
    const auto back = decode_record(bytes);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->tenant, record.tenant);
    EXPECT_EQ(back->name, record.name);
    EXPECT_EQ(back->bytes, record.bytes);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        EXPECT_FALSE(decode_record(bytes.substr(0, i))) << i;
        std::string changed = bytes;
        changed[i] = static_cast<char>(changed[i] ^ 1);
        EXPECT_FALSE(decode_record(changed)) << i;
    }
    EXPECT_FALSE(decode_record(bytes + "x"));
}

TEST(record_files, a_record_is_its_tenants_and_the_latest_one_counts) {
    temp_dir dir;
    file_system& files = posix_file_system();
    {
        kept at(files, dir.path());
        EXPECT_TRUE(at.records.read_all().whole.empty());
        ASSERT_TRUE(at.records.write({nobody_else, "a", "1"}));
        ASSERT_TRUE(at.records.write({another, "a", "2"}));
        ASSERT_TRUE(at.records.write({nobody_else, "a", "three"}));
        ASSERT_TRUE(at.records.write({nobody_else, "b", "4"}));
        ASSERT_TRUE(at.records.remove(nobody_else, "b"));
        EXPECT_TRUE(at.records.remove(nobody_else, "b")) << "it is gone already";
        EXPECT_EQ(at.quota.held_bytes(), *bytes_below(files, dir.path()));
    }
    kept at(files, dir.path());
    const kept_records found = at.records.read_all();
    ASSERT_EQ(found.whole.size(), 2u);
    for (const kept_record& each : found.whole)
        EXPECT_EQ(each.bytes, each.tenant == another ? "2" : "three");
    ASSERT_TRUE(at.records.remove(another, "a"));
    EXPECT_EQ(at.quota.held_bytes(), *bytes_below(files, dir.path()));
}

TEST(record_files, one_that_does_not_fit_is_refused_and_the_earlier_one_stays) {
    temp_dir dir;
    kept at(posix_file_system(), dir.path(), 1'000);
    ASSERT_TRUE(at.records.write({nobody_else, "a", "small"}));
    EXPECT_EQ(at.records.write({nobody_else, "a", std::string(1'000, 'x')}).error().code,
              errc::out_of_space);
    EXPECT_EQ(at.records.read_all().whole.at(0).bytes, "small");
}

/// A record whose file has so many bytes.
kept_record record_of(const tenant_id& tenant, const std::string& name, std::size_t file_bytes) {
    const std::size_t head = encode_record({tenant, name, {}}).size();
    return {tenant, name, std::string(file_bytes - head, 'x')};
}

TEST(record_files, a_tenant_takes_half_of_what_the_others_leave_of_the_share_and_no_byte_more) {
    temp_dir dir;
    file_system& files = posix_file_system();
    {
        kept at(files, dir.path(), 1 << 20, 8'000);
        ASSERT_TRUE(at.records.write(record_of(nobody_else, "a", 4'000)));
        const auto refused = at.records.write(record_of(nobody_else, "a", 4'001));
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, errc::out_of_space);
        EXPECT_EQ(refused.error().what.find('/'), std::string::npos) << refused.error().what;
        EXPECT_FALSE(at.records.write(record_of(nobody_else, "b", 200)));
        ASSERT_TRUE(at.records.write(record_of(another, "a", 2'000)));
        EXPECT_FALSE(at.records.write(record_of(another, "a", 2'001)));
        EXPECT_FALSE(at.records.write(record_of(another, "b", 200)));
        ASSERT_TRUE(at.records.write(record_of(nobody_else, "a", 4'000)))
            << "what it has may be replaced";
    }
    // What is there counts after a restart too, and what is removed no more.
    kept at(files, dir.path(), 1 << 20, 8'000);
    EXPECT_FALSE(at.records.write(record_of(nobody_else, "b", 200)));
    EXPECT_FALSE(at.records.write(record_of(another, "b", 200)));
    ASSERT_TRUE(at.records.write(record_of(another, "a", 1'000)));
    ASSERT_TRUE(at.records.write(record_of(another, "b", 1'000)));
    ASSERT_TRUE(at.records.remove(nobody_else, "a"));
    ASSERT_TRUE(at.records.write(record_of(another, "c", 2'000)));
    EXPECT_FALSE(at.records.write(record_of(another, "d", 200)));
    EXPECT_EQ(at.quota.held_bytes(), *bytes_below(files, dir.path()));
}

TEST(record_files, a_write_that_fails_leaves_the_share_as_it_was) {
    temp_dir dir;
    fault_file_system files(dir.path());
    kept at(files, dir.path(), 1 << 20, 8'000);
    ASSERT_TRUE(at.records.write(record_of(nobody_else, "a", 1'000)));
    for (const fault kind : {fault::io_error, fault::no_space, fault::torn_write})
        for (int operation = 1; operation < 5; ++operation) {
            files.fail_at(operation, kind);
            EXPECT_FALSE(at.records.write(record_of(nobody_else, "b", 3'000)));
            files.reset();
        }
    EXPECT_TRUE(at.records.write(record_of(nobody_else, "b", 3'000)));
    EXPECT_EQ(at.quota.held_bytes(), *bytes_below(files, dir.path()));
}

TEST(record_files, what_is_more_than_the_share_is_not_read_and_stays) {
    temp_dir dir;
    file_system& files = posix_file_system();
    {
        kept at(files, dir.path());
        for (int i = 0; i < 8; ++i)
            ASSERT_TRUE(at.records.write(record_of(nobody_else, "n" + std::to_string(i), 1'000)));
        for (int i = 0; i < 8; ++i)
            ASSERT_TRUE(at.records.write(record_of(another, "a" + std::to_string(i), 1'000)));
    }
    kept at(files, dir.path(), 1 << 20, 10'000);
    const kept_records found = at.records.read_all();
    EXPECT_EQ(found.whole.size(), 10u);
    EXPECT_EQ(found.damaged.size(), 6u);
    for (const failure& each : found.damaged) EXPECT_EQ(each.code, errc::out_of_space);
    kept larger(files, dir.path());
    EXPECT_EQ(larger.records.read_all().whole.size(), 16u);
}

TEST(record_files, only_records_of_the_names_that_are_asked_for_are_read) {
    temp_dir dir;
    kept at(posix_file_system(), dir.path());
    for (const char* name : {"session:1", "part:1:1", "response:1", "conversation:1"})
        ASSERT_TRUE(at.records.write({nobody_else, name, "x"}));
    const std::array<std::string_view, 2> heads{"session:", "part:"};
    const kept_records found = at.records.read_all(heads);
    ASSERT_EQ(found.whole.size(), 2u);
    for (const kept_record& each : found.whole)
        EXPECT_TRUE(each.name.starts_with("session:") || each.name.starts_with("part:"));
    EXPECT_TRUE(found.damaged.empty());
    EXPECT_EQ(at.records.read_all().whole.size(), 4u);
}

TEST(record_files, a_damaged_file_or_one_under_anothers_name_is_reported_and_the_rest_is_read) {
    temp_dir dir;
    file_system& files = posix_file_system();
    kept at(files, dir.path());
    for (const char* name : {"a", "b", "c"})
        ASSERT_TRUE(at.records.write({nobody_else, name, name}));
    const auto path = [&](const char* name) {
        return dir.path() + "/" + record_path(nobody_else, name);
    };
    ASSERT_TRUE(replace_file(files, path("a"), "nonsense"));
    ASSERT_TRUE(replace_file(files, path("b"), encode_record({nobody_else, "x", "b"})));
    const kept_records found = at.records.read_all();
    ASSERT_EQ(found.whole.size(), 1u);
    EXPECT_EQ(found.whole[0].name, "c");
    EXPECT_EQ(found.damaged.size(), 2u);
}

TEST(record_files, their_names_are_read_without_their_bytes_and_one_by_its_name) {
    temp_dir dir;
    kept store(posix_file_system(), dir.path());
    const std::string long_name(200, 'n');
    ASSERT_TRUE(store.records.write({nobody_else, "a", std::string(20'000, 'x')}));
    ASSERT_TRUE(store.records.write({another, long_name, "y"}));
    const record_names all = store.records.names();
    EXPECT_TRUE(all.damaged.empty());
    ASSERT_EQ(all.whole.size(), 2u);
    for (const record_name& each : all.whole) {
        const auto record = store.records.read(each.tenant, each.name);
        ASSERT_TRUE(record);
        EXPECT_EQ(record->bytes.size(), each.name == "a" ? 20'000u : 1u);
        EXPECT_GT(each.file_bytes, record->bytes.size() + record->name.size());
    }
    EXPECT_EQ(store.records.read(another, "a").error().code, errc::not_found);
    // What is wrong with the bytes of one is found when it is read.
    const std::string path = dir.path() + "/" + record_path(nobody_else, "a");
    auto file = posix_file_system().append(path);
    ASSERT_TRUE(file);
    ASSERT_TRUE((*file)->write(std::as_bytes(std::span("z", 1))));
    file->reset();
    EXPECT_EQ(store.records.names().whole.size(), 2u);
    EXPECT_EQ(store.records.read(nobody_else, "a").error().code, errc::corrupt);
}

TEST(record_files, a_power_cut_at_any_moment_leaves_the_earlier_record_or_the_new_one) {
    for (int operation = 1; operation < 8; ++operation)
        for (const lost loss : {lost::everything, lost::nothing, lost::at_random}) {
            temp_dir dir;
            fault_file_system files(dir.path());
            bool is_written = false;
            {
                kept at(files, dir.path());
                ASSERT_TRUE(at.records.write({nobody_else, "a", "old"}));
                files.fail_at(operation, fault::power_cut);
                is_written = at.records.write({nobody_else, "a", "new"}).has_value();
            }
            files.restart(loss);
            kept at(files, dir.path());
            const kept_records found = at.records.read_all();
            EXPECT_TRUE(found.damaged.empty());
            ASSERT_EQ(found.whole.size(), 1u);
            const std::string& bytes = found.whole[0].bytes;
            EXPECT_TRUE(bytes == "new" || (bytes == "old" && !is_written)) << bytes;
            EXPECT_EQ(at.quota.held_bytes(), *bytes_below(files, dir.path()))
                << "what was being written is gone";
        }
}

}  // namespace
}  // namespace semantic::storage
