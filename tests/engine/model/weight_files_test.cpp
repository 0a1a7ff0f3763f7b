// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/weight_files.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

namespace fs = std::filesystem;

void write(const std::string& path, const std::string& tensor) {
    const std::string bytes(4, '\1');
    const storage::tensor_to_write tensors[] = {
        {tensor, storage::dtype::f32, {1}, std::as_bytes(std::span(bytes))}};
    std::ofstream(path, std::ios::binary) << storage::safetensors_header(tensors, {}) << bytes;
}

/// Files as the Hugging Face cache keeps them: each a link to a blob.
void link(const tests::temp_dir& dir, const std::string& name, const std::string& blob) {
    fs::create_directories(dir / "snapshot");
    fs::create_symlink("../blobs/" + blob, dir / ("snapshot/" + name));
}

TEST(weight_files, behind_links_are_those_of_the_model) {
    tests::temp_dir dir;
    fs::create_directories(dir / "blobs");
    write(dir / "blobs/0a", "one");
    write(dir / "blobs/0b", "two");
    link(dir, "b.safetensors", "0b");
    link(dir, "a.safetensors", "0a");
    const auto shards = open_weight_files(dir / "snapshot");
    ASSERT_TRUE(shards) << shards.error().what;
    ASSERT_EQ(shards->size(), 2u);
    EXPECT_EQ((*shards)[0].path(), dir / "snapshot/a.safetensors");
    EXPECT_EQ((*shards)[1].tensors().front().name, "two");

    link(dir, "model.safetensors", "0a");
    const auto single = open_weight_files(dir / "snapshot");
    ASSERT_TRUE(single) << single.error().what;
    EXPECT_EQ(single->size(), 1u);
}

TEST(weight_files, behind_a_link_that_leads_nowhere_are_named) {
    tests::temp_dir dir;
    link(dir, "model.safetensors", "0a");
    const auto files = open_weight_files(dir / "snapshot");
    ASSERT_FALSE(files);
    EXPECT_EQ(files.error().code, storage::errc::not_found);
    EXPECT_NE(files.error().what.find("model.safetensors"), std::string::npos)
        << files.error().what;
}

TEST(weight_files, of_a_missing_folder_are_not_found) {
    tests::temp_dir dir;
    const auto files = open_weight_files(dir / "none");
    ASSERT_FALSE(files);
    EXPECT_EQ(files.error().code, storage::errc::not_found);
    EXPECT_NE(files.error().what.find(dir / "none"), std::string::npos) << files.error().what;
}

}  // namespace
}  // namespace semantic::engine
