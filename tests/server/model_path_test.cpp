#include "server/config/model_path.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.hpp"

namespace semantic::server {
namespace {

void put_model(const std::string& folder) {
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/config.json") << "{}";
}

TEST(model_path, is_found_from_an_installed_program) {
    tests::temp_dir prefix;
    put_model(prefix / "share/semantic/models/semantic-tiny");
    EXPECT_EQ(find_embedded_model(prefix / "bin/semantic-server"),
              prefix / "share/semantic/models/semantic-tiny");
}

TEST(model_path, is_found_from_a_build_folder_in_the_source_tree) {
    tests::temp_dir tree;
    put_model(tree / "etc/models/semantic-tiny");
    std::filesystem::create_directories(tree / "build/bin");
    EXPECT_EQ(find_embedded_model(tree / "build/bin/semantic-server"),
              tree / "etc/models/semantic-tiny");
}

TEST(model_path, is_empty_when_there_is_no_model) {
    tests::temp_dir nowhere;
    EXPECT_EQ(find_embedded_model(nowhere / "bin/semantic-server"), "");
}

TEST(model_path, the_running_program_knows_its_own_file) {
    EXPECT_TRUE(std::filesystem::exists(executable_path("nonsense")));
}

}  // namespace
}  // namespace semantic::server
