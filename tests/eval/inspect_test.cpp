// SPDX-License-Identifier: Apache-2.0
// inspect: what it says of models that load, and every reason why one does not.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "storage/pool/kv_recipe.hpp"
#include "tests/eval/eval_program.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/latent_model.hpp"
#include "tests/support/real_models.hpp"

namespace semantic {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

const std::string golden = std::string(SEMANTIC_SOURCE_DIR) + "/tests/golden";

class inspect_test : public semantic_eval {
  protected:
    json::object report(const std::string& arguments, int status) {
        const outcome done = run("inspect --json " + arguments);
        EXPECT_EQ(done.status, status) << done.out << done.err;
        boost::system::error_code ec;
        json::value value = json::parse(done.out, ec);
        EXPECT_TRUE(value.is_object()) << done.out << done.err;
        return value.is_object() ? value.get_object() : json::object();
    }

    /// Whether one of the problems has all these parts.
    static bool has_problem(const json::object& report, const std::vector<std::string>& parts) {
        for (const json::value& problem : report.at("problems").as_array()) {
            const std::string text(problem.as_string());
            bool all = true;
            for (const std::string& part : parts) all = all && text.find(part) != text.npos;
            if (all) return true;
        }
        return false;
    }
};

TEST_F(inspect_test, tells_what_the_embedded_model_is_and_costs) {
    const json::object is = report("--memory-mb 1024", 0);
    EXPECT_TRUE(is.at("loads").as_bool());
    EXPECT_EQ(is.at("model"), "semantic-tiny");
    EXPECT_EQ(is.at("container"), "folder of safetensors");
    const json::object& geometry = is.at("geometry").as_object();
    EXPECT_EQ(geometry.at("family"), "llama");
    EXPECT_EQ(geometry.at("layers").to_number<int>(), 8);
    EXPECT_EQ(geometry.at("kv_heads").to_number<int>(), 2);
    EXPECT_EQ(geometry.at("context_tokens").to_number<int>(), 16384);
    EXPECT_EQ(is.at("tokenizer").at("kind"), "BPE");
    EXPECT_EQ(is.at("chat_template"), "chatml");
    EXPECT_EQ(is.at("types").as_array().front().at("type"), "U32");
    const json::array& kv = is.at("kv").as_array();
    ASSERT_EQ(kv.size(), storage::kv_recipes().size());
    const json::value& plain = kv.back();
    // 8 layers of 2 heads of 64, K and V, 2 bytes each.
    EXPECT_EQ(plain.at("bytes_per_token").to_number<int>(), 8 * 2 * 64 * 2 * 2);
    EXPECT_EQ(plain.at("agents_4k").to_number<int>(), (1024 << 20) / 4096 / 4096);
    EXPECT_EQ(plain.at("kv"), "k16v16");
    EXPECT_EQ(plain.at("bits").to_number<int>(), 16);
    EXPECT_TRUE(is.at("kv_default").is_null());  // not measured
    const outcome text = run("inspect");
    EXPECT_EQ(text.status, 0);
    for (const char* part :
         {"8 layers, hidden 384", "6 heads of 64, 2 for K and V", "chatml",
          "| k16v16 | 4096 | 4096 | 512 | 128 |", "in a pool of 8192 MiB", "It will load."})
        EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
}

TEST_F(inspect_test, measures_what_each_recipe_costs_and_tells_what_is_beyond_the_context) {
    const tests::golden_byte_model model("qwen25");
    const json::object is = report("--measure --model " + model.path(), 0);
    EXPECT_TRUE(storage::find_kv_recipe(is.at("kv_default").as_string()));
    for (std::size_t i = 0; i < storage::kv_recipes().size(); ++i) {
        const json::object& each = is.at("kv").as_array()[i].as_object();
        const bool is_candidate = storage::kv_recipes()[i].is_candidate;
        ASSERT_NE(each.contains("divergence_mean"), each.contains("not_measured")) << each.at("kv");
        if (!is_candidate) {
            EXPECT_EQ(each.at("not_measured"), "no candidate");
        }
        if (!each.contains("divergence_mean")) continue;
        EXPECT_GE(each.at("divergence_mean").to_number<double>(), 0.0);
        EXPECT_LE(each.at("same_top_share").to_number<double>(), 1.0);
    }
    const outcome text = run("inspect --measure --model " + model.path());
    EXPECT_NE(text.out.find(" | no candidate | - |\n"), std::string::npos) << text.out;
    EXPECT_NE(text.out.find("measured in "), std::string::npos) << text.out;
    EXPECT_NE(text.out.find(" (default) | "), std::string::npos) << text.out;
    EXPECT_TRUE(is.at("kv").as_array()[0].at("agents_16k").is_null());
    EXPECT_FALSE(is.at("weight_bytes").is_null());
}

TEST_F(inspect_test, gives_the_verdict_of_the_server_about_the_memory) {
    const json::object fits = report("--memory-limit-mb 2048", 0);
    EXPECT_EQ(fits.at("memory").at("limit_bytes"), std::int64_t{2048} << 20);
    EXPECT_EQ(fits.at("memory").at("limit"), "memory-limit-mb");
    const json::object small = report("--memory-limit-mb 16", 1);
    EXPECT_TRUE(small.at("memory").is_null());
    const std::string why(small.at("problems").as_array().at(0).as_string());
    EXPECT_NE(why.find("the memory does not suffice: weights "), std::string::npos) << why;
    EXPECT_NE(why.find(" of 16 MiB, memory-limit-mb"), std::string::npos) << why;
    EXPECT_NE(run("perplexity --memory-limit-mb 16 --context 512 --text " SEMANTIC_SOURCE_DIR
                  "/README.md")
                  .err.find("the memory does not suffice"),
              std::string::npos);
}

TEST_F(inspect_test, tells_experts_windows_and_latents) {
    const json::object mixture = report("--model " + golden + "/models/qwen3moe", 1);
    EXPECT_GT(mixture.at("geometry").at("experts").to_number<int>(), 1);
    const json::object sliding = report("--model " + golden + "/models/gemma3", 1);
    EXPECT_NE(sliding.at("geometry").at("windows").as_string().find("layers see"),
              std::string::npos);
    const json::object latent = report("--model " + golden + "/models/deepseek2", 1);
    EXPECT_GT(latent.at("geometry").at("latent_rank").to_number<int>(), 0);
}

TEST_F(inspect_test, tells_every_reason_why_a_folder_will_not_load) {
    const std::string model = path("model");
    fs::create_directories(model);
    write(model + "/config.json",
          R"({"model_type": "llama", "hidden_size": 96, "num_attention_heads": 2, "vocab_size": 40,
              "intermediate_size": 128, "num_hidden_layers": 1})");
    write(model + "/tokenizer_config.json", R"({"chat_template": "{{ nothing }}"})");
    fs::copy(golden + "/models/qwen25/model.safetensors", model);
    const json::object is = report("--model " + model, 1);
    EXPECT_FALSE(is.at("loads").as_bool());
    EXPECT_TRUE(has_problem(is, {"model.safetensors", "shape"})) << json::serialize(is);
    EXPECT_TRUE(has_problem(is, {"tokenizer.json"})) << json::serialize(is);
    EXPECT_TRUE(has_problem(is, {"chat template"})) << json::serialize(is);
    EXPECT_TRUE(is.at("kv").as_array().back().as_object().contains("bytes_per_token"));
    EXPECT_TRUE(is.at("kv").as_array().front().as_object().contains("refused"));
    const outcome text = run("inspect --model " + model);
    EXPECT_EQ(text.status, 1);
    EXPECT_NE(text.out.find("It will not load:\n- "), std::string::npos) << text.out;
}

TEST_F(inspect_test, names_what_a_known_architecture_lacks) {
    tests::gguf_writer file;
    file.pair("general.architecture", "gemma3n");
    file.tensor("output_norm.weight", {4}, 0, std::string(16, '\0'));
    write(path("odd.gguf"), file.bytes());
    const json::object is = report("--model " + path("odd.gguf"), 1);
    EXPECT_TRUE(has_problem(is, {"gemma3n", "AltUp", "not computed; supported are llama"}))
        << json::serialize(is);
}

TEST_F(inspect_test, tells_every_reason_why_a_gguf_will_not_load) {
    tests::gguf_writer file;
    file.pair("general.architecture", "mamba");
    constexpr auto iq2_xxs = static_cast<std::uint32_t>(storage::gguf_type::iq2_xxs);
    for (const char* name : {"blk.0.attn_q.weight", "blk.0.attn_k.weight"})
        file.tensor(name, {256, 1}, iq2_xxs, std::string(66, '\0'));
    file.tensor("output_norm.weight", {4}, 0, std::string(16, '\0'));
    write(path("odd.gguf"), file.bytes());
    const json::object is = report("--model " + path("odd.gguf"), 1);
    EXPECT_EQ(is.at("container"), "GGUF version 3");
    EXPECT_EQ(is.at("model"), "odd");
    EXPECT_TRUE(is.at("geometry").is_null());
    EXPECT_TRUE(has_problem(is, {"general.architecture", "mamba"})) << json::serialize(is);
    EXPECT_TRUE(has_problem(
        is, {"2 tensors", "IQ2_XXS", "blk.0.attn_k.weight", "supported are F32, F16, BF16, Q4_0"}))
        << json::serialize(is);
    EXPECT_TRUE(has_problem(is, {"tokenizer.ggml.model"})) << json::serialize(is);
    const json::array& types = is.at("types").as_array();
    ASSERT_EQ(types.size(), 2u);
    EXPECT_EQ(types[0].at("type"), "IQ2_XXS");
    EXPECT_FALSE(types[0].at("supported").as_bool());
    EXPECT_TRUE(types[1].at("supported").as_bool());
}

/// The names in the columns of the guide's table of families, one set a column.
std::vector<std::set<std::string>> families_of_the_guide() {
    std::istringstream guide(read(std::string(SEMANTIC_SOURCE_DIR) + "/etc/guide/models.md"));
    std::vector<std::set<std::string>> columns;
    bool is_table = false;
    for (std::string line; std::getline(guide, line);) {
        if (line.starts_with("| family |")) is_table = true;
        if (is_table && !line.starts_with("|")) break;
        if (!is_table) continue;
        std::size_t column = 0;
        for (std::size_t at = 1; at < line.size(); ++at) {
            if (line[at] == '|') ++column;
            if (line[at] != '`') continue;
            const std::size_t end = line.find('`', at + 1);
            columns.resize(std::max(columns.size(), column + 1));
            columns[column].insert(line.substr(at + 1, end - at - 1));
            at = end;
        }
    }
    return columns;
}

/// "a, b" after "supported are ".
std::set<std::string> supported_in(const json::object& report) {
    const std::string mark = "supported are ";
    std::set<std::string> names;
    for (const json::value& problem : report.at("problems").as_array()) {
        const std::string text(problem.as_string());
        const std::size_t at = text.find(mark);
        if (at == text.npos || !names.empty()) continue;
        std::istringstream list(text.substr(at + mark.size()));
        for (std::string name; std::getline(list >> std::ws, name, ',');) names.insert(name);
    }
    return names;
}

TEST_F(inspect_test, the_guide_names_every_family_that_loads_and_no_other) {
    fs::create_directories(path("odd"));
    write(path("odd/config.json"), R"({"model_type": "odd"})");
    tests::gguf_writer file;
    file.pair("general.architecture", "odd");
    write(path("odd.gguf"), file.bytes());
    const auto columns = families_of_the_guide();
    ASSERT_EQ(columns.size(), 3u);
    // The header names the two keys themselves.
    auto types = columns[1], architectures = columns[2];
    for (const char* key : {"model_type", "config.json"}) EXPECT_EQ(types.erase(key), 1u);
    EXPECT_EQ(architectures.erase("general.architecture"), 1u);
    EXPECT_EQ(types, supported_in(report("--model " + path("odd"), 1)));
    EXPECT_EQ(architectures, supported_in(report("--model " + path("odd.gguf"), 1)));
}

TEST_F(inspect_test, tells_that_no_layer_of_a_recurrent_model_attends) {
    const std::string model = path("recurrent");
    fs::copy(SEMANTIC_SOURCE_DIR "/etc/models/semantic-tiny-recurrent", model);
    std::ifstream file(model + "/config.json");
    json::value config = json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
    for (json::value& kind : config.at("layer_types").as_array()) kind = "linear_attention";
    write(model + "/config.json", json::serialize(config));
    const json::object is = report("--model " + model, 1);
    EXPECT_FALSE(is.at("loads").as_bool());
    EXPECT_TRUE(has_problem(
        is, {"config.json", "none of the 8 layers of this qwen3_5_text attends", "not supported"}))
        << json::serialize(is);
}

TEST_F(inspect_test, tells_a_damaged_file_once) {
    write(path("cut.gguf"), "GGUF");
    const json::object is = report("--model " + path("cut.gguf"), 1);
    EXPECT_EQ(is.at("problems").as_array().size(), 1u) << json::serialize(is);
    EXPECT_TRUE(has_problem(is, {path("cut.gguf")})) << json::serialize(is);
}

TEST_F(inspect_test, of_what_is_not_there_is_one_line_and_exit_1) {
    const outcome done = run("inspect --model /nowhere/x.gguf");
    EXPECT_EQ(done.status, 1);
    EXPECT_EQ(done.out, "");
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
    EXPECT_EQ(run("inspect --memory-mb 0").status, 1);
}

TEST_F(inspect_test, of_real_models_says_that_they_load) {
    int found = 0;
    for (const char* name :
         {"smollm2-135m", "gemma3-270m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"}) {
        const std::string file = tests::real_model(name);
        if (file.empty()) continue;
        ++found;
        const json::object is = report("--model " + file, 0);
        EXPECT_EQ(is.at("model"), name);
        EXPECT_EQ(is.at("geometry").at("family"), std::string(name).starts_with("smol") ? "llama"
                                                  : std::string(name).starts_with("gemma")
                                                      ? "gemma3_text"
                                                      : "qwen2");
        // The packed weights take what the file does.
        EXPECT_NEAR(is.at("weight_bytes").to_number<double>(),
                    is.at("file_bytes").to_number<double>(),
                    0.1 * is.at("file_bytes").to_number<double>());
    }
    if (found == 0) GTEST_SKIP() << tests::no_real_models;
}

}  // namespace
}  // namespace semantic
