// SPDX-License-Identifier: Apache-2.0
// Models by name: what semantic-eval loads is what the Hugging Face cache links to.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/eval/eval_program.hpp"

namespace semantic {
namespace {

namespace fs = std::filesystem;

const std::string llama = std::string(SEMANTIC_SOURCE_DIR) + "/tests/golden/models/llama31";

TEST_F(semantic_eval, a_model_behind_the_links_of_the_hugging_face_cache_is_the_model) {
    const fs::path repository = path("hub/models--org--llama");
    fs::create_directories(repository / "blobs");
    fs::create_directories(repository / "refs");
    fs::create_directories(repository / "snapshots/c0ffee");
    write(repository / "refs/main", "c0ffee");
    int blobs = 0;
    for (const auto& file : fs::directory_iterator(llama)) {
        const std::string blob = std::to_string(blobs++);
        fs::copy(file, repository / "blobs" / blob);
        fs::create_symlink("../../blobs/" + blob,
                           repository / "snapshots/c0ffee" / file.path().filename());
    }
    write(path("ids.json"), "[1, 45, 87, 12]");
    const std::string rest = " --max-new 8 --kv-bits 16 --tokens " + path("ids.json");
    const outcome folder = run("greedy --model " + llama + rest);
    ASSERT_EQ(folder.status, 0) << folder.err;
    setenv("HF_HUB_CACHE", path("hub").c_str(), 1);
    const outcome named = run("greedy --model org/llama" + rest);
    const outcome unknown = run("greedy --model org/other" + rest);
    unsetenv("HF_HUB_CACHE");
    EXPECT_EQ(named.status, 0) << named.err;
    EXPECT_EQ(named.out, folder.out);
    EXPECT_EQ(unknown.status, 1);
    EXPECT_NE(unknown.err.find("org/llama"), std::string::npos) << unknown.err;
}

}  // namespace
}  // namespace semantic
