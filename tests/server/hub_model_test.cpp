// SPDX-License-Identifier: Apache-2.0
// Models by their names on a hub: which files are meant, and when a hub is asked.

#include "server/config/hub_model.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "server/config/quantisations.hpp"
#include "tests/support/hub_server.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::server {
namespace {

namespace fs = std::filesystem;
using names = std::vector<std::string>;
using storage::errc;
using storage::hub_file;

std::vector<hub_file> files_of(const names& paths) {
    std::vector<hub_file> files;
    for (const std::string& path : paths) files.push_back({path, 10, std::string(64, 'a'), true});
    return files;
}

names paths_of(const storage::result<hub_choice>& choice) {
    if (!choice) return {"error: " + choice.error().what};
    names paths;
    for (const hub_file& file : choice->files) paths.push_back(file.path);
    return paths;
}

TEST(quantisations, are_read_off_the_end_of_a_name) {
    EXPECT_EQ(quantisation_of("Qwen3-4B-Q4_K_M"), "Q4_K_M");
    EXPECT_EQ(quantisation_of("qwen3-4b.q8_0"), "Q8_0");
    EXPECT_EQ(quantisation_of("BF16/model-BF16"), "BF16");
    EXPECT_EQ(quantisation_of("F16"), "F16");
    EXPECT_EQ(quantisation_of("gemma-UD-Q4_K_XL"), "Q4_K_XL");
    EXPECT_EQ(quantisation_of("modelQ4_0"), "");
    EXPECT_EQ(quantisation_of("model"), "");
    EXPECT_EQ(quantisation_of("model-IQ2_XXS"), "");  // not read here
}

TEST(quantisations, the_one_that_nobody_named_is_q4_k_m_or_the_nearest) {
    const auto taken = [](const names& stems) {
        const auto best = preferred_quantisation(stems);
        return best ? stems[*best] : std::string();
    };
    EXPECT_EQ(taken({"m-F16", "m-Q8_0", "m-Q4_K_M", "m-Q4_0"}), "m-Q4_K_M");
    EXPECT_EQ(taken({"m-Q8_0", "m-Q4_0", "m-Q4_K_S"}), "m-Q4_K_S");
    EXPECT_EQ(taken({"m-Q8_0", "m-Q5_K_M", "m-Q3_K_M"}), "m-Q5_K_M");
    EXPECT_EQ(taken({"m-F16", "m-Q8_0", "m-Q2_K"}), "m-Q8_0");
    EXPECT_EQ(taken({"m-Q2_K", "m-IQ2_XS"}), "m-Q2_K");
    EXPECT_EQ(taken({"a-Q4_K_M", "b-Q4_K_M"}), "a-Q4_K_M");
    EXPECT_EQ(taken({"m", "m-IQ1_S"}), "");
    EXPECT_EQ(taken({}), "");
}

TEST(hub_model, a_form_a_file_or_none_names_a_gguf_with_all_its_parts) {
    const auto files =
        files_of({"README.md", "config.json", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "mmproj-F16.gguf",
                  "mtp-m-Q4_K_M.gguf", "m.imatrix.gguf", "BF16/m-BF16-00001-of-00002.gguf",
                  "BF16/m-BF16-00002-of-00002.gguf"});
    EXPECT_EQ(paths_of(choose_hub_files("", files)), (names{"m-Q4_K_M.gguf"}));
    EXPECT_EQ(paths_of(choose_hub_files("q8_0", files)), (names{"m-Q8_0.gguf"}));
    EXPECT_EQ(paths_of(choose_hub_files("m-Q8_0.gguf", files)), (names{"m-Q8_0.gguf"}));
    // That by which the model is found comes last, when all others are there.
    const names parts{"BF16/m-BF16-00002-of-00002.gguf", "BF16/m-BF16-00001-of-00002.gguf"};
    EXPECT_EQ(paths_of(choose_hub_files("BF16", files)), parts);
    EXPECT_EQ(paths_of(choose_hub_files("BF16/m-BF16-00001-of-00002.gguf", files)), parts);
    EXPECT_EQ(choose_hub_files("", files)->others, (names{"BF16/m-BF16", "m-Q8_0"}));
    EXPECT_EQ(choose_hub_files("BF16", files)->bytes, 20U);
    const auto none = choose_hub_files("Q5_K_M", files);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().what,
              "\"Q5_K_M\" means none of its models: BF16/m-BF16, m-Q4_K_M, m-Q8_0");
    const auto several = choose_hub_files("", files_of({"a-IQ1_S.gguf", "b-IQ1_M.gguf"}));
    ASSERT_FALSE(several);
    EXPECT_EQ(several.error().what, "name one of its models: a-IQ1_S, b-IQ1_M");
    EXPECT_EQ(paths_of(choose_hub_files("", files_of({"only-IQ1_S.gguf"}))),
              (names{"only-IQ1_S.gguf"}));
}

TEST(hub_model, without_a_gguf_the_safetensors_come_with_what_belongs_to_them) {
    const auto files = files_of(
        {"config.json", "tokenizer.json", "chat_template.jinja", "model-00001-of-00002.safetensors",
         "model-00002-of-00002.safetensors", "model.safetensors.index.json",
         "consolidated.safetensors", "pytorch_model.bin", "README.md", "onnx/model.onnx",
         "original/model.safetensors", "additional_chat_templates/tool_use.jinja"});
    EXPECT_EQ(paths_of(choose_hub_files("", files)),
              (names{"tokenizer.json", "chat_template.jinja", "model-00001-of-00002.safetensors",
                     "model-00002-of-00002.safetensors", "model.safetensors.index.json",
                     "additional_chat_templates/tool_use.jinja", "config.json"}));
    EXPECT_FALSE(choose_hub_files("Q4_K_M", files));
    EXPECT_FALSE(choose_hub_files("", files_of({"pytorch_model.bin", "config.json"})));
    EXPECT_FALSE(choose_hub_files("", {}));
}

class hub_model_of_a_hub : public testing::Test {
  protected:
    hub_model_of_a_hub() {
        hub_.add("m-Q4_K_M.gguf", "GGUF" + std::string(3000, 'q'), true);
        hub_.add("m-Q8_0.gguf", "GGUF" + std::string(5000, 'r'), true);
        hub_.add("m-F16-00001-of-00002.gguf", "GGUF" + std::string(6000, 's'), true);
        hub_.add("m-F16-00002-of-00002.gguf", "GGUF" + std::string(7000, 't'), true);
        places_.hub = root_ / "hub";
        settings_.endpoint = hub_.url();
        report_.say = [this](const std::string& text) { said_.push_back(text); };
    }
    storage::result<found_model> find(const std::string& name) {
        return find_or_fetch_hub_model(name, places_, settings_, limits_, report_);
    }

    tests::temp_dir root_;
    tests::hub_server hub_;
    model_places places_;
    hub_settings settings_;
    hub_limits limits_;
    hub_report report_;
    names said_;
};

TEST_F(hub_model_of_a_hub, is_fetched_once_and_found_without_the_hub_from_then_on) {
    const auto first = find("hf:org/m");
    ASSERT_TRUE(first) << first.error().what;
    EXPECT_EQ(first->id, "org/m");
    EXPECT_TRUE(first->path.ends_with("/m-Q4_K_M.gguf")) << first->path;
    const std::size_t asked = hub_.requests().size();
    settings_.is_offline = true;
    const auto again = find("hf:org/m");
    ASSERT_TRUE(again) << again.error().what;
    EXPECT_EQ(again->path, first->path);
    EXPECT_EQ(again->id, first->id);
    EXPECT_EQ(hub_.requests().size(), asked);
    EXPECT_TRUE(find_model("org/m", places_));
    EXPECT_TRUE(find_hub_model("hf:org/m:Q4_K_M", places_));
    const auto other = find("hf:org/m:Q8_0");
    ASSERT_FALSE(other);
    EXPECT_NE(other.error().what.find("HF_HUB_OFFLINE"), std::string::npos);
}

TEST_F(hub_model_of_a_hub, the_form_that_nobody_named_is_q4_k_m_though_others_are_there) {
    ASSERT_TRUE(find("hf:org/m:Q8_0"));
    ASSERT_TRUE(find("hf:org/m:Q4_K_M"));
    const auto found = find_hub_model("hf:org/m", places_);
    ASSERT_TRUE(found) << found.error().what;
    EXPECT_TRUE(found->path.ends_with("/m-Q4_K_M.gguf")) << found->path;
    EXPECT_FALSE(find_model("org/m", places_));  // several, and none preferred
}

TEST_F(hub_model_of_a_hub, a_part_that_is_missing_is_fetched) {
    const auto found = find("hf:org/m:F16");
    ASSERT_TRUE(found) << found.error().what;
    EXPECT_TRUE(found->path.ends_with("/m-F16-00001-of-00002.gguf")) << found->path;
    EXPECT_TRUE(is_whole_model(found->path));
    const fs::path other = fs::path(found->path).parent_path() / "m-F16-00002-of-00002.gguf";
    fs::remove(places_.hub / "models--org--m/blobs" / fs::read_symlink(other).filename());
    EXPECT_FALSE(is_whole_model(found->path));
    ASSERT_TRUE(find("hf:org/m:F16"));
    EXPECT_TRUE(is_whole_model(found->path));
}

TEST_F(hub_model_of_a_hub, what_comes_and_whether_it_fits_is_said_before_a_byte_comes) {
    limits_.memory_bytes = 3004;
    ASSERT_TRUE(find("hf:org/m"));
    ASSERT_EQ(said_.size(), 2U);
    EXPECT_NE(said_[0].find("takes m-Q4_K_M"), std::string::npos) << said_[0];
    EXPECT_NE(said_[0].find("m-Q8_0"), std::string::npos) << said_[0];
    for (const std::string& part : {hub_.url(), hub_.commit.substr(0, 12), std::string("free"),
                                    std::string("memory that this machine can give")})
        EXPECT_NE(said_[1].find(part), std::string::npos) << said_[1];
    EXPECT_EQ(said_[1].find("does not fit"), std::string::npos) << said_[1];
    const std::size_t asked = hub_.requests_for("/resolve/");
    const auto refused = find("hf:org/m:Q8_0");  // two thousand bytes more
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, errc::out_of_space);
    EXPECT_NE(said_.back().find("does not fit"), std::string::npos) << said_.back();
    EXPECT_EQ(hub_.requests_for("/resolve/"), asked);
    limits_.must_fit = false;
    EXPECT_TRUE(find("hf:org/m:Q8_0"));
}

TEST_F(hub_model_of_a_hub, a_weight_of_one_byte_more_than_the_memory_is_refused) {
    limits_.memory_bytes = 3003;
    EXPECT_FALSE(find("hf:org/m:Q4_K_M"));
    limits_.memory_bytes = 3004;
    EXPECT_TRUE(find("hf:org/m:Q4_K_M"));
}

TEST_F(hub_model_of_a_hub, a_dry_run_says_and_fetches_nothing) {
    limits_.only_says = true;
    ASSERT_TRUE(fetch_hub_model("hf:org/m", places_, settings_, limits_, report_));
    EXPECT_FALSE(said_.empty());
    EXPECT_EQ(hub_.requests_for("/resolve/"), 0U);
    EXPECT_FALSE(find_model("org/m", places_));
}

TEST_F(hub_model_of_a_hub, other_names_ask_no_hub) {
    for (const char* name : {"org/m", "org/m:Q8_0"}) EXPECT_FALSE(find_model(name, places_));
    for (const char* name : {"hf:org/m", "hf:org/m:Q8_0"})
        EXPECT_FALSE(find_hub_model(name, places_));
    for (const char* name : {"hf:m", "hf:org/m:", "hf:", "hf:/etc", "hf:a/b/c", "hf:../x"}) {
        const auto found = find(name);
        ASSERT_FALSE(found) << name;
        EXPECT_EQ(found.error().code, errc::bad_value) << name;
    }
    EXPECT_TRUE(hub_.requests().empty());
}

TEST(hub_settings, come_from_the_variables_of_hugging_faces_tools) {
    for (const char* name : {"HF_ENDPOINT", "HF_TOKEN", "HF_HUB_OFFLINE"}) ::unsetenv(name);
    EXPECT_EQ(hub_settings::of_environment().endpoint, "https://huggingface.co");
    EXPECT_FALSE(hub_settings::of_environment().is_offline);
    ::setenv("HF_ENDPOINT", "http://127.0.0.1:1//", 1);
    ::setenv("HF_TOKEN", "t", 1);
    EXPECT_EQ(hub_settings::of_environment().endpoint, "http://127.0.0.1:1");
    EXPECT_EQ(hub_settings::of_environment().token, "t");
    for (const char* yes : {"1", "ON", "Yes", "true"}) {
        ::setenv("HF_HUB_OFFLINE", yes, 1);
        EXPECT_TRUE(hub_settings::of_environment().is_offline) << yes;
    }
    ::setenv("HF_HUB_OFFLINE", "0", 1);
    EXPECT_FALSE(hub_settings::of_environment().is_offline);
    for (const char* name : {"HF_ENDPOINT", "HF_TOKEN", "HF_HUB_OFFLINE"}) ::unsetenv(name);
}

TEST(hub_rate, tells_how_much_came_how_fast_and_how_long_it_will_take) {
    hub_rate rate;
    EXPECT_EQ(rate.text({0, 5'000'000'000}), "0 kB of 5.0 GB");
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    const std::string text = rate.text({50'000'000, 5'000'000'000});
    EXPECT_TRUE(text.starts_with("50.0 MB of 5.0 GB, ")) << text;
    EXPECT_NE(text.find(" MB/s, 1 min "), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with(" s left")) << text;
}

}  // namespace
}  // namespace semantic::server
