// SPDX-License-Identifier: Apache-2.0
// semantic-eval fetch, with a hub of this machine: a whole model comes and is used by its name.

#include <gtest/gtest.h>

#include <filesystem>
#include <signal.h>
#include <thread>

#include "tests/eval/eval_program.hpp"
#include "tests/support/hub_server.hpp"

namespace semantic {
namespace {

namespace fs = std::filesystem;

const std::string llama = std::string(SEMANTIC_SOURCE_DIR) + "/tests/golden/models/llama31";

class semantic_eval_fetch : public semantic_eval {
  protected:
    void SetUp() override {
        ::setenv("HF_HUB_CACHE", path("hub").c_str(), 1);
        ::setenv("HF_ENDPOINT", hub_.url().c_str(), 1);
        for (const auto& file : fs::directory_iterator(llama)) {
            const std::string name = file.path().filename();
            hub_.add(name, read(file.path()), name.ends_with(".safetensors"));
        }
    }
    void TearDown() override {
        for (const char* name : {"HF_HUB_CACHE", "HF_ENDPOINT", "HF_HUB_OFFLINE"}) ::unsetenv(name);
    }

    tests::hub_server hub_;
};

TEST_F(semantic_eval_fetch, brings_a_folder_that_computes_as_its_original_does) {
    const outcome fetched = run("fetch org/llama");
    ASSERT_EQ(fetched.status, 0) << fetched.err;
    EXPECT_NE(fetched.err.find("the folder of safetensors"), std::string::npos) << fetched.err;
    EXPECT_NE(fetched.err.find("memory that this machine can give"), std::string::npos);
    EXPECT_NE(fetched.err.find("--model hf:org/llama"), std::string::npos) << fetched.err;
    EXPECT_TRUE(fs::exists(fetched.out.substr(0, fetched.out.size() - 1) + "/config.json"));
    const std::size_t asked = hub_.requests().size();
    write(path("ids.json"), "[1, 45, 87, 12]");
    const std::string rest = " --max-new 8 --kv-bits 16 --tokens " + path("ids.json");
    const outcome folder = run("greedy --model " + llama + rest);
    const outcome named = run("greedy --model hf:org/llama" + rest);
    EXPECT_EQ(named.status, 0) << named.err;
    EXPECT_EQ(named.out, folder.out);
    EXPECT_EQ(hub_.requests().size(), asked);
}

TEST_F(semantic_eval_fetch, says_what_is_wrong_and_asks_nothing_when_offline) {
    const outcome wrong = run("fetch org/llama:Q4_K_M");
    EXPECT_EQ(wrong.status, 1);
    EXPECT_NE(wrong.err.find("has no .gguf file"), std::string::npos) << wrong.err;
    const outcome nameless = run("fetch");
    EXPECT_EQ(nameless.status, 1);
    EXPECT_NE(nameless.err.find("which model"), std::string::npos) << nameless.err;
    const outcome dry = run("fetch hf:org/llama --dry-run");
    EXPECT_EQ(dry.status, 0) << dry.err;
    EXPECT_EQ(dry.out, "");
    EXPECT_EQ(hub_.requests_for("/resolve/"), 0u);
    const std::size_t asked = hub_.requests().size();
    ::setenv("HF_HUB_OFFLINE", "1", 1);
    const outcome offline = run("fetch org/llama");
    EXPECT_EQ(offline.status, 1);
    EXPECT_NE(offline.err.find("HF_HUB_OFFLINE"), std::string::npos) << offline.err;
    EXPECT_EQ(run("greedy --model hf:org/llama --tokens in", "[1]").status, 1);
    EXPECT_EQ(hub_.requests().size(), asked);
}

TEST_F(semantic_eval_fetch, goes_on_behind_a_kill) {
    std::string large(4'000'000, ' ');
    for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * i >> 7);
    hub_.add("m-Q4_K_M.gguf", large, true);
    hub_.order({.pause = std::chrono::milliseconds(40)});
    const std::string part = path("hub") + "/models--org--llama/blobs/" +
                             hub_.at("m-Q4_K_M.gguf").digest + ".semantic-part";
    const pid_t child = ::fork();
    if (child == 0) {
        ::execl((std::string(SEMANTIC_BINARY_DIR) + "/semantic-eval").c_str(), "semantic-eval",
                "fetch", "org/llama", nullptr);
        ::_exit(127);
    }
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::error_code ec;
    while ((!fs::exists(part, ec) || fs::file_size(part, ec) < 500'000) &&
           std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ASSERT_GE(fs::file_size(part), 500'000u);
    EXPECT_FALSE(fs::exists(path("hub") + "/models--org--llama/snapshots"));
    const outcome rest = run("fetch org/llama");
    ASSERT_EQ(rest.status, 0) << rest.err;
    EXPECT_EQ(read(rest.out.substr(0, rest.out.size() - 1)), large);
    EXPECT_FALSE(fs::exists(part));
}

}  // namespace
}  // namespace semantic
