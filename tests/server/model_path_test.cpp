// SPDX-License-Identifier: Apache-2.0
#include "server/config/model_path.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "server/config/name_list.hpp"
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

void put_file(const std::string& path, const std::string& bytes = "GGUF") {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
}

void put_folder(const std::string& folder) {
    put_file(folder + "/config.json", "{}");
    put_file(folder + "/model.safetensors", "");
}

/// Places of a user who has fetched models, some of them in the Hugging Face cache.
class find_model_test : public testing::Test {
  protected:
    /// A file of a repository as its cache keeps it: a link into blobs/.
    void put_in_hub(const std::string& repository, const std::string& file) {
        const std::string root = dir_ / ("hub/" + repository);
        const std::string link = root + "/snapshots/c0ffee/" + file;
        std::filesystem::create_directories(std::filesystem::path(link).parent_path());
        put_file(root + "/refs/main", "c0ffee");
        put_file(root + "/blobs/" + std::to_string(++blobs_));
        std::filesystem::create_symlink(root + "/blobs/" + std::to_string(blobs_), link);
    }

    std::string hub(const std::string& repository, const std::string& file = "") const {
        return dir_ /
               ("hub/" + repository + "/snapshots/c0ffee" + (file.empty() ? "" : "/" + file));
    }

    void expect_found(const std::string& name, const std::string& path, const std::string& id) {
        const auto found = find_model(name, places_);
        ASSERT_TRUE(found) << found.error().what;
        EXPECT_EQ(found->path, path) << name;
        EXPECT_EQ(found->id, id) << name;
    }

    /// What find_model() calls a model of a folder by its path.
    static std::string model_at_id(const found_model& model) {
        const std::filesystem::path path(model.path);
        return gguf_stem(path.filename().string());
    }

    void expect_refused(const std::string& name, const std::vector<std::string>& named) {
        const auto found = find_model(name, places_);
        ASSERT_FALSE(found) << found->path;
        for (const std::string& part : named)
            EXPECT_NE(found.error().what.find(part), std::string::npos)
                << part << " in: " << found.error().what;
        EXPECT_EQ(found.error().what.find('\n'), std::string::npos) << found.error().what;
    }

    tests::temp_dir dir_;
    model_places places_{dir_.path(), dir_ / "own", dir_ / "hub", dir_ / "embedded"};
    int blobs_ = 0;
};

TEST_F(find_model_test, a_path_that_exists_is_the_model) {
    put_folder(dir_ / "models/qwen");
    put_file(dir_ / "models/smol.Q4_1.gguf");
    put_file(dir_ / "models/big-00001-of-00003.gguf");
    put_file(dir_ / "models/sha256-1234");
    expect_found(dir_ / "models/qwen", dir_ / "models/qwen", "qwen");
    expect_found(dir_ / "models/qwen/", dir_ / "models/qwen/", "qwen");
    expect_found("~/models/qwen", dir_ / "models/qwen", "qwen");
    expect_found(dir_ / "models/smol.Q4_1.gguf", dir_ / "models/smol.Q4_1.gguf", "smol.Q4_1");
    expect_found(dir_ / "models/big-00001-of-00003.gguf", dir_ / "models/big-00001-of-00003.gguf",
                 "big");
    expect_found(dir_ / "models/sha256-1234", dir_ / "models/sha256-1234", "sha256-1234");
}

TEST_F(find_model_test, a_folder_of_models_has_each_once_by_name) {
    put_folder(dir_ / "m/qwen");
    put_file(dir_ / "m/smol.Q4_1.gguf");
    for (const char* part : {"1", "2"})
        put_file(dir_ / (std::string("m/big-0000") + part + "-of-00002.gguf"));
    put_file(dir_ / "m/mmproj-big.gguf");
    put_file(dir_ / "m/one/model-Q8_0.gguf");
    put_file(dir_ / "m/two/Q4.gguf");
    put_file(dir_ / "m/two/Q8.gguf");
    put_file(dir_ / "m/.part/model.gguf");
    put_file(dir_ / "m/.half.gguf");
    put_file(dir_ / "m/notes/readme.txt");
    put_file(dir_ / "m/lora/adapter_config.json", "{}");
    for (const std::string& folder : {dir_ / "m", dir_ / "m/", std::string("~/m")}) {
        const auto found = models_in(folder, places_);
        ASSERT_TRUE(found) << found.error().what;
        std::string names;
        for (const found_model& each : found->models) {
            names += each.id + " ";
            expect_found(each.path, each.path, model_at_id(each));
        }
        EXPECT_EQ(names, "big one qwen smol.Q4_1 two/Q4 two/Q8 ");
        EXPECT_TRUE(found->models[0].path.ends_with("/big-00001-of-00002.gguf"));
        ASSERT_EQ(found->notes.size(), 1u);
        EXPECT_NE(found->notes[0].find("lora has an adaptation (LoRA)"), std::string::npos);
    }
    EXPECT_FALSE(models_in(dir_ / "nowhere", places_));
    EXPECT_FALSE(models_in(dir_ / "m/smol.Q4_1.gguf", places_));
}

TEST_F(find_model_test, a_file_that_is_no_gguf_is_refused_by_name) {
    put_folder(dir_ / "qwen");
    expect_refused(dir_ / "qwen/model.safetensors", {dir_ / "qwen/model.safetensors", ".gguf"});
}

TEST_F(find_model_test, a_folder_without_safetensors_is_its_only_gguf) {
    put_file(dir_ / "one/model-Q8_0.gguf");
    put_file(dir_ / "one/mmproj-F16.gguf");
    put_file(dir_ / "one/config.json", "{}");
    expect_found(dir_ / "one", dir_ / "one/model-Q8_0.gguf", "one");
    for (const char* part : {"1", "2", "3"})
        put_file(dir_ / (std::string("split/model-0000") + part + "-of-00003.gguf"));
    expect_found(dir_ / "split", dir_ / "split/model-00001-of-00003.gguf", "split");
}

TEST_F(find_model_test, a_folder_of_several_or_of_none_is_refused_with_what_is_in_it) {
    put_file(dir_ / "two/model-Q8_0.gguf");
    put_file(dir_ / "two/model-Q4_0.gguf");
    expect_refused(dir_ / "two", {"name one", "model-Q4_0, model-Q8_0"});
    put_file(dir_ / "none/readme.md");
    expect_refused(dir_ / "none", {dir_ / "none", "config.json", ".gguf"});
}

TEST_F(find_model_test, a_bare_name_is_one_of_the_fetched_models) {
    put_file(dir_ / "own/smollm2-135m.gguf");
    put_file(dir_ / "own/big-00001-of-00002.gguf");
    put_folder(dir_ / "own/qwen");
    put_file(dir_ / "own/.smollm2-360m.gguf");
    expect_found("smollm2-135m", dir_ / "own/smollm2-135m.gguf", "smollm2-135m");
    expect_found("smollm2-135m.gguf", dir_ / "own/smollm2-135m.gguf", "smollm2-135m");
    expect_found("big", dir_ / "own/big-00001-of-00002.gguf", "big");
    expect_found("qwen", dir_ / "own/qwen", "qwen");
    expect_refused("smol",
                   {"smol", dir_ / "own", "big, qwen, smollm2-135m", dir_ / "hub", "no models"});
}

TEST_F(find_model_test, what_comes_with_the_program_is_found_by_name_behind_the_fetched_models) {
    put_folder(dir_ / "embedded/semantic-tiny");
    put_folder(dir_ / "embedded/semantic-tiny-recurrent");
    put_file(dir_ / "embedded/published.list", "");
    expect_found("semantic-tiny-recurrent", dir_ / "embedded/semantic-tiny-recurrent",
                 "semantic-tiny-recurrent");
    expect_refused("smol", {dir_ / "own", dir_ / "embedded",
                            "where there are semantic-tiny, semantic-tiny-recurrent"});
    expect_refused("published.list", {"published.list", dir_ / "embedded"});
    put_folder(dir_ / "own/semantic-tiny");
    expect_found("semantic-tiny", dir_ / "own/semantic-tiny", "semantic-tiny");
    EXPECT_EQ(find_embedded_models(SEMANTIC_SOURCE_DIR "/build/bin/semantic-server"),
              SEMANTIC_SOURCE_DIR "/etc/models");
    EXPECT_TRUE(find_model("semantic-tiny-recurrent", model_places::of_environment()));
}

TEST_F(find_model_test, a_repository_of_the_hugging_face_cache_is_found_behind_its_links) {
    put_in_hub("models--org--name", "config.json");
    put_in_hub("models--org--name", "model.safetensors");
    put_in_hub("models--gpt2", "config.json");
    put_in_hub("models--gpt2", "model.safetensors");
    expect_found("org/name", hub("models--org--name"), "org/name");
    expect_found("gpt2", hub("models--gpt2"), "gpt2");
    expect_found(hub("models--org--name"), hub("models--org--name"), "org/name");
    std::filesystem::create_directories(dir_ / "hub/models--a--b/snapshots");
    expect_refused("org/other", {"org/other", dir_ / "hub", "a/b, gpt2, org/name"});
    expect_refused("a/b", {"a/b", "snapshot", "download"});
    std::filesystem::remove(dir_ / "hub/models--org--name/refs/main");
    expect_found("org/name", hub("models--org--name"), "org/name");
}

TEST_F(find_model_test, one_of_several_files_of_a_repository_is_named_behind_a_colon) {
    const std::string repository = "models--org--name-GGUF";
    put_in_hub(repository, "name-Q4_K_M.gguf");
    put_in_hub(repository, "name-IQ4_XS.gguf");
    put_in_hub(repository, "BF16/name-BF16-00001-of-00002.gguf");
    put_in_hub(repository, "BF16/name-BF16-00002-of-00002.gguf");
    const std::string q4 = hub(repository, "name-Q4_K_M.gguf");
    expect_found("org/name-GGUF:Q4_K_M", q4, "org/name-GGUF:Q4_K_M");
    expect_found("org/name-GGUF:q4_k_m", q4, "org/name-GGUF:q4_k_m");
    expect_found("org/name-GGUF:name-Q4_K_M.gguf", q4, "org/name-GGUF:name-Q4_K_M.gguf");
    expect_found("org/name-GGUF:BF16", hub(repository, "BF16/name-BF16-00001-of-00002.gguf"),
                 "org/name-GGUF:BF16");
    expect_refused("org/name-GGUF", {"name one", "BF16/name-BF16, name-IQ4_XS, name-Q4_K_M"});
    expect_refused("org/name-GGUF:Q8_0", {"\"Q8_0\"", "none", "name-Q4_K_M"});
}

TEST_F(find_model_test, what_looks_like_a_path_is_looked_for_nowhere_else) {
    put_file(dir_ / "own/smol.gguf");
    for (const std::string& name :
         {std::string("./smol"), std::string("/smol"), std::string("a/b/smol"),
          std::string("smol/"), std::string("../own/smol"), dir_ / "smol.gguf"}) {
        const auto found = find_model(name, places_);
        ASSERT_FALSE(found) << name;
        EXPECT_EQ(found.error().what, "model " + name + ": no such file or folder");
    }
}

TEST(model_places, of_the_hugging_face_cache_are_as_its_own_programs_have_them) {
    const char* home = std::getenv("HOME");
    ASSERT_NE(home, nullptr);
    const std::string before = home;
    for (const char* name : {"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"}) unsetenv(name);
    setenv("HOME", "/h", 1);
    EXPECT_EQ(model_places::of_environment().own, "/h/.semantic/models");
    EXPECT_EQ(model_places::of_environment().hub, "/h/.cache/huggingface/hub");
    setenv("XDG_CACHE_HOME", "/x", 1);
    EXPECT_EQ(model_places::of_environment().hub, "/x/huggingface/hub");
    setenv("HF_HOME", "/y", 1);
    EXPECT_EQ(model_places::of_environment().hub, "/y/hub");
    setenv("HF_HUB_CACHE", "/z", 1);
    EXPECT_EQ(model_places::of_environment().hub, "/z");
    for (const char* name : {"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"}) unsetenv(name);
    setenv("HOME", before.c_str(), 1);
}

TEST(name_list, twelve_names_are_shown_and_the_thirteenth_is_counted) {
    std::vector<std::string> names(names_shown, "m");
    const std::string all = list_names(names);
    EXPECT_EQ(all.find("more"), std::string::npos);
    names.emplace_back("last");
    EXPECT_EQ(list_names(names), all + " and 1 more");
    EXPECT_EQ(list_names({}), "");
}

}  // namespace
}  // namespace semantic::server
