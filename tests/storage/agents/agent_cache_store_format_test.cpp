// SPDX-License-Identifier: Apache-2.0
// Directories of other formats: those of the first are brought up to date, whatever interrupts it;
// those of a later program are left alone.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "storage/agents/agent_cache_store.hpp"
#include "storage/disk/directory_format.hpp"
#include "storage/disk/manifest.hpp"
#include "storage/types/hex.hpp"
#include "tests/storage/agents/store_test.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;
using semantic::tests::fault;
using semantic::tests::fault_file_system;
using semantic::tests::lost;
using semantic::tests::temp_dir;
namespace fs = std::filesystem;

constexpr const char* mark = "semantic-cache 2\n";

std::string contents(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

void write_contents(const fs::path& path, const std::string& bytes) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
}

std::string bytes_of_hex(std::string_view digits) {
    std::string bytes;
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
        bytes += static_cast<char>(*number_of_hex(digits.substr(i, 2)));
    return bytes;
}

/// Every file below a directory, the lock apart.
std::map<std::string, std::string> files_of(const std::string& directory) {
    std::map<std::string, std::string> files;
    for (const auto& each : fs::recursive_directory_iterator(directory))
        if (each.is_regular_file() && each.path().filename() != "lock")
            files[fs::relative(each.path(), directory).string()] = contents(each.path());
    return files;
}

/// Puts a directory that the last program of format 1 has written under `directory`: of the model
/// "model" (weights "weights one") the agents a with two answers, b, which shares a's first 16
/// tokens, "imported", a private copy of b, "empty", and another tenant's a; of the model "another"
/// ("weights two") c and d.
void write_format_1(const std::string& directory) {
    std::ifstream golden(std::string(SEMANTIC_SOURCE_DIR) +
                         "/tests/golden/storage/directory_of_format_1.txt");
    for (std::string path, digits; golden >> path >> digits;)
        write_contents(fs::path(directory) / path, bytes_of_hex(digits));
}

class agent_cache_store_format_test : public store_test {
  protected:
    agent_cache_store_format_test() : store_test(small_layout(), 400) {}

    result<std::unique_ptr<agent_cache_store>> try_open(const std::string& path,
                                                        file_system* files = nullptr,
                                                        const std::string& model = "model") {
        store_options options = options_for(path, files);
        options.fingerprint = fingerprint_of(model);
        options.model = model == "model" ? "weights one" : "weights two";
        options.disk_budget_bytes = 1 << 30;
        return agent_cache_store::open(options, pool);
    }
    static std::vector<token_id> tokens_of_b() {
        auto tokens = some_tokens(16);
        tokens.push_back(5);
        return tokens;
    }
    /// Every memory of write_format_1(), with every byte.
    void expect_all(const std::string& path, file_system* files) {
        {
            const auto store = try_open(path, files);
            ASSERT_TRUE(store) << store.error().what;
            expect_whole(**store, "a", some_tokens(27));
            expect_whole(**store, "b", tokens_of_b());
            expect_whole(**store, "imported", tokens_of_b());
            EXPECT_TRUE((*store)->find(id_of("imported"))->is_private());
            EXPECT_EQ((*store)->find_message({}, "msg_1")->tokens, 9);
            EXPECT_TRUE((*store)->find_message({}, "msg_2")->is_last);
            const tenant_id tenant = (*store)->tenant("key k1");
            EXPECT_EQ((*store)->find(id_of("a").owned_by(tenant))->tokens, some_tokens(13, 3));
            EXPECT_EQ((*store)->list().size(), 5u);
            EXPECT_EQ((*store)->list_others().size(), 2u);
            EXPECT_EQ((*store)->why_absent(id_of("c")), shortfall::model_changed);
            EXPECT_EQ((*store)->probe().manifests_incompatible, 0u);
        }
        const auto other = try_open(path, files, "another");
        ASSERT_TRUE(other) << other.error().what;
        expect_whole(**other, "c", some_tokens(13, 5));
        expect_whole(**other, "d", some_tokens(9, 6));
        EXPECT_EQ((*other)->list_others().size(), 5u);
        EXPECT_EQ((*other)->probe().disk_bytes, bytes_below(posix_file_system(), path).value());
    }
    std::string former_path(const std::string& id) {
        return directory / former_manifest_path(manifest_path("salt", id, {}));
    }
    std::string path_of(const std::string& id) {
        return directory / manifest_path("salt", id, fingerprint_of("model"));
    }
};

TEST_F(agent_cache_store_format_test, a_directory_of_format_1_opens_with_every_memory_kept) {
    write_format_1(directory.path());
    const auto before = files_of(directory.path());
    expect_all(directory.path(), nullptr);
    std::map<std::string, std::string> expected{{"format", mark}};
    for (const auto& [path, bytes] : before) {
        const bool is_manifest = is_former_manifest_path(path);
        const auto now =
            is_manifest ? renamed_manifest_path(path, decode_manifest(bytes)->agent.fingerprint)
                        : path;
        expected[now] = bytes;
    }
    EXPECT_EQ(files_of(directory.path()), expected) << "names changed, and no byte of a file";
}

TEST_F(agent_cache_store_format_test, a_directory_of_this_format_is_not_touched_by_an_opening) {
    write_format_1(directory.path());
    ASSERT_TRUE(try_open(directory.path()));
    fault_file_system files(directory.path());
    ASSERT_TRUE(try_open(directory.path(), &files));
    for (const std::string& each : files.log()) EXPECT_TRUE(each.starts_with("make_directory"));
}

// Method: opening a directory of format 1 meets trouble at operation 1, 2, 3, ... of it.
TEST_F(agent_cache_store_format_test, a_migration_that_is_cut_off_anywhere_loses_nothing) {
    struct trouble {
        fault kind;
        lost loss;
        unsigned seed;
    };
    std::vector<trouble> all = {
        {fault::io_error, lost::nothing, 1},  {fault::io_error, lost::everything, 1},
        {fault::no_space, lost::nothing, 1},  {fault::torn_write, lost::everything, 1},
        {fault::power_cut, lost::nothing, 1}, {fault::power_cut, lost::everything, 1}};
    for (unsigned seed = 1; seed <= 6; ++seed)
        all.push_back({fault::power_cut, lost::at_random, seed});
    int cut_off = 0;
    for (const bool links : {true, false})
        for (const trouble& each : all) {
            bool fired = true;
            for (int n = 1; fired; ++n) {
                SCOPED_TRACE(testing::Message()
                             << "links " << links << " kind " << int(each.kind) << " lost "
                             << int(each.loss) << " seed " << each.seed << " operation " << n);
                const temp_dir fresh;
                write_format_1(fresh.path());
                fault_file_system files(fresh.path());
                if (!links) files.refuse_links();
                files.fail_at(n, each.kind);
                cut_off += try_open(fresh.path(), &files) ? 0 : 1;
                fired = files.has_fired();
                files.restart(each.loss, each.seed);
                ASSERT_NO_FATAL_FAILURE(expect_all(fresh.path(), &files));
                for (const auto& [path, bytes] : files_of(fresh.path()))
                    EXPECT_FALSE(is_former_manifest_path(path) || path.ends_with(".tmp")) << path;
            }
        }
    EXPECT_GT(cut_off, 100);
}

// Goal: a program of format 1 was started once more on a directory of format 2. Method: it has
// saved a, or has an older a than there is.
TEST_F(agent_cache_store_format_test, of_two_memories_of_one_agent_and_model_the_newer_one_stays) {
    write_format_1(directory.path());
    const std::string saved_by_it = contents(former_path("a"));
    ASSERT_TRUE(try_open(directory.path()));
    {
        const auto store = std::move(*try_open(directory.path()));
        put_and_save(*store, "a", some_tokens(30), 2000);
    }
    write_contents(former_path("a"), saved_by_it);
    {
        const auto store = std::move(*try_open(directory.path()));
        expect_whole(*store, "a", some_tokens(30));
        EXPECT_FALSE(fs::exists(former_path("a")));
        put_and_save(*store, "b", some_tokens(9, 2), 900);
    }
    temp_dir elsewhere;
    write_format_1(elsewhere.path());
    fs::copy(elsewhere.path(), directory.path(),
             fs::copy_options::recursive | fs::copy_options::skip_existing);
    const auto store = std::move(*try_open(directory.path()));
    expect_whole(*store, "a", some_tokens(30));
    expect_whole(*store, "b", tokens_of_b());
    EXPECT_FALSE(fs::exists(former_path("b")));
    EXPECT_EQ(store->probe().disk_bytes,
              bytes_below(posix_file_system(), directory.path()).value());
}

TEST_F(agent_cache_store_format_test, damaged_and_unknown_manifests_of_format_1_say_what_they_are) {
    write_format_1(directory.path());
    write_contents(former_path("a"), "SEMAGENT and no more");
    write_contents(former_path("b"), later_manifest());
    const auto store = std::move(*try_open(directory.path()));
    EXPECT_EQ(store->why_absent(id_of("a")), shortfall::corrupt);
    EXPECT_EQ(store->why_absent(id_of("b")), shortfall::incompatible);
    EXPECT_FALSE(fs::exists(former_path("a")));
    EXPECT_TRUE(fs::exists(former_path("b"))) << "whoever wrote it may come back";
    EXPECT_EQ(store->probe().manifests_incompatible, 1u);
    expect_whole(*store, "imported", tokens_of_b());
    ASSERT_TRUE(store->erase(id_of("b"))) << "by its name it is found all the same";
    EXPECT_FALSE(fs::exists(former_path("b")));
}

TEST_F(agent_cache_store_format_test, a_later_programs_directory_is_refused_and_left_alone) {
    { put_and_save(*open(), "a", some_tokens(21)); }
    write_contents(directory / "format", "semantic-cache 3\n");
    write_contents(directory / "agents/x.manifest.tmp", "half");
    const auto before = files_of(directory.path());
    const auto store = agent_cache_store::open(options_for(directory.path()), pool);
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().code, errc::incompatible);
    EXPECT_EQ(store.error().what,
              directory.path() +
                  ": the cache directory is of format 3, made by a later program; this one knows "
                  "formats up to 2: start the later program, or give this one another directory");
    EXPECT_EQ(files_of(directory.path()), before);
    EXPECT_TRUE(agent_cache_store::open(options_for(directory / "other"), pool));
    write_contents(directory / "format", "semantic-cache 2\n");
    expect_whole(*open(), "a", some_tokens(21));
}

TEST_F(agent_cache_store_format_test, a_mark_that_says_nothing_is_written_anew) {
    { put_and_save(*open(), "a", some_tokens(21)); }
    for (const char* text : {"", "semantic-cache", "semantic-cache x\n", "semantic-cache 3"}) {
        write_contents(directory / "format", text);
        expect_whole(*open(), "a", some_tokens(21));
        EXPECT_EQ(contents(directory / "format"), mark) << text;
    }
}

}  // namespace
}  // namespace semantic::storage
