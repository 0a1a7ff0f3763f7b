// SPDX-License-Identifier: Apache-2.0
// Published GGUF files, where they are: what loading one takes, and what a broken download says.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "storage/files/gguf.hpp"
#include "tests/eval/eval_program.hpp"
#include "tests/support/real_models.hpp"

namespace semantic {
namespace {

namespace fs = std::filesystem;

class real_files : public semantic_eval {};

TEST_F(real_files, take_no_more_memory_than_a_tenth_above_their_size) {
    const auto models = tests::real_models();
    if (models.empty()) GTEST_SKIP() << tests::no_real_models;
    for (const fs::path& model : models) {
        write(path("ids"), "[1, 2, 3]");
        const outcome done = run("logits --model " + model.string() + " --tokens " + path("ids") +
                                 " --kv-bits 16 --out " + path("logits"));
        ASSERT_EQ(done.status, 0) << done.err;
        const auto bytes = static_cast<double>(fs::file_size(model));
        const double most = 1.1 * bytes + 100e6;
        EXPECT_LE(static_cast<double>(done.memory_kib) * 1024.0, most) << model;
        std::printf("%s: %.0f MB resident at most, a file of %.0f MB\n", model.filename().c_str(),
                    static_cast<double>(done.memory_kib) / 976.6, bytes / 1e6);
    }
}

/// Of the smallest file: half of the places among the metadata, half anywhere.
TEST_F(real_files, cut_anywhere_are_refused_with_the_reason) {
    const auto models = tests::real_models();
    if (models.empty()) GTEST_SKIP() << tests::no_real_models;
    const fs::path& model = *std::min_element(
        models.begin(), models.end(),
        [](const fs::path& a, const fs::path& b) { return fs::file_size(a) < fs::file_size(b); });
    const std::uint64_t whole = fs::file_size(model);
    constexpr std::uint64_t places = 1000, early = std::uint64_t{2} << 20;
    std::vector<std::uint64_t> cuts;
    for (std::uint64_t i = 0; i < places / 2; ++i) {
        cuts.push_back(early * i / (places / 2) + i % 7);
        cuts.push_back(whole - 1 - (whole - 1) / (places / 2) * i);
    }
    std::sort(cuts.rbegin(), cuts.rend());
    const std::string copy = path("cut.gguf");
    fs::copy_file(model, copy);
    for (std::size_t i = 0; i < cuts.size(); ++i) {
        fs::resize_file(copy, cuts[i]);
        const auto opened = storage::open_gguf(copy);
        ASSERT_FALSE(opened) << "cut at " << cuts[i];
        EXPECT_EQ(opened.error().code, storage::errc::corrupt) << opened.error().what;
        EXPECT_GT(opened.error().what.size(), copy.size() + 8) << opened.error().what;
        if (i % 50 != 0) continue;
        const outcome done = run("inspect --model " + copy);
        EXPECT_EQ(done.status, 1) << "cut at " << cuts[i];
        EXPECT_NE((done.out + done.err).find("cut.gguf"), std::string::npos) << done.err;
    }
}

}  // namespace
}  // namespace semantic
