// SPDX-License-Identifier: Apache-2.0
// perplexity: its numbers against those of logits, and how it refuses.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "storage/files/safetensors.hpp"
#include "tests/eval/eval_program.hpp"
#include "tests/support/latent_model.hpp"
#include "tests/support/real_models.hpp"

namespace semantic {
namespace {

const std::string golden = std::string(SEMANTIC_SOURCE_DIR) + "/tests/golden";
const std::string header =
    "model,kv,tokens,ppl,ppl_change_pct,ppl_change_se,kl_mean,kl_p999,same_top_pct,kv_bytes_pct";

/// The lines of a CSV file: kv -> column -> value.
std::map<std::string, std::map<std::string, double>> rows_of(const std::string& csv) {
    std::map<std::string, std::map<std::string, double>> rows;
    std::istringstream text(csv), columns(header);
    std::vector<std::string> names;
    for (std::string name; std::getline(columns, name, ',');) names.push_back(name);
    std::string line;
    std::getline(text, line);
    EXPECT_EQ(line, header);
    while (std::getline(text, line)) {
        std::istringstream fields(line);
        std::vector<std::string> values;
        for (std::string value; std::getline(fields, value, ',');) values.push_back(value);
        EXPECT_EQ(values.size(), names.size()) << line;
        for (std::size_t i = 2; i < values.size(); ++i)
            rows[values[1]][names[i]] = std::stod(values[i]);
    }
    return rows;
}

/// A golden model with a token for each byte, in front of which its tokenizer puts token 256.
class byte_model {
  public:
    explicit byte_model(bool begins) {
        if (!begins) return;
        std::string json = read(model_.path() + "/tokenizer.json");
        const std::string none = "\"post_processor\":null", bos = "<｜begin▁of▁sentence｜>";
        json.replace(json.find(none), none.size(),
                     R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":)"
                     R"({"id":")" +
                         bos +
                         R"(","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],)"
                         R"("pair":[],"special_tokens":{")" +
                         bos + R"(":{"id":")" + bos + R"(","ids":[256],"tokens":[")" + bos +
                         R"("]}}})");
        write(model_.path() + "/tokenizer.json", json);
    }
    std::string path() const { return model_.path(); }

  private:
    tests::golden_byte_model model_{"qwen25"};
};

class perplexity_test : public semantic_eval {
  protected:
    std::map<std::string, std::map<std::string, double>> measure(const std::string& arguments) {
        const outcome done = run("perplexity --csv " + path("csv") + " " + arguments);
        EXPECT_EQ(done.status, 0) << done.err;
        table_ = done.out;
        return rows_of(read(path("csv")));
    }

    /// Log probabilities of every token after each position of a window.
    std::vector<std::vector<double>> log_probabilities(const std::string& model,
                                                       const std::vector<int>& ids,
                                                       const std::string& kv) {
        std::string json;
        for (const int id : ids) json += (json.empty() ? "[" : ",") + std::to_string(id);
        write(path("ids.json"), json + "]");
        const outcome done = run("logits --model " + model + " --tokens " + path("ids.json") +
                                 " --kv-bits " + kv + " --out " + path("x"));
        EXPECT_EQ(done.status, 0) << done.err;
        const auto file = storage::safetensors_file::open(path("x"));
        const auto& tensor = file->view().tensors.at("logits");
        const auto* logit = reinterpret_cast<const float*>(tensor.bytes.data());
        const auto vocabulary = static_cast<std::size_t>(tensor.shape[1]);
        std::vector<std::vector<double>> rows;
        for (std::size_t r = 0; r < ids.size(); ++r, logit += vocabulary) {
            double sum = 0;
            for (std::size_t i = 0; i < vocabulary; ++i) sum += std::exp(double(logit[i]));
            std::vector<double> row(logit, logit + vocabulary);
            for (double& each : row) each -= std::log(sum);
            rows.push_back(std::move(row));
        }
        return rows;
    }

    std::string table_;
};

struct expected_scores {
    double ppl = 0, change = 0, error = 0, kl = 0, same_top = 0;
};

expected_scores scores_by_hand(const std::vector<std::vector<int>>& windows,
                               const std::vector<std::vector<std::vector<double>>>& reference,
                               const std::vector<std::vector<std::vector<double>>>& form,
                               std::size_t from) {
    std::vector<double> losses, differences;
    double kl = 0, same = 0;
    for (std::size_t w = 0; w < windows.size(); ++w) {
        for (std::size_t j = from; j + 1 < windows[w].size(); ++j) {
            const auto &p = reference[w][j], &q = form[w][j];
            const auto next = static_cast<std::size_t>(windows[w][j + 1]);
            losses.push_back(-q[next]);
            differences.push_back(p[next] - q[next]);
            for (std::size_t i = 0; i < p.size(); ++i) kl += std::exp(p[i]) * (p[i] - q[i]);
            same += std::max_element(p.begin(), p.end()) - p.begin() ==
                            std::max_element(q.begin(), q.end()) - q.begin()
                        ? 1
                        : 0;
        }
    }
    const auto n = static_cast<double>(losses.size());
    const auto mean = [n](const std::vector<double>& values) {
        double sum = 0;
        for (const double value : values) sum += value;
        return sum / n;
    };
    double squares = 0;
    const double shift = mean(differences);
    for (const double each : differences) squares += (each - shift) * (each - shift);
    return {std::exp(mean(losses)), 100 * (std::exp(shift) - 1),
            100 * std::exp(shift) * std::sqrt(squares / (n - 1) / n), kl / n, 100 * same / n};
}

TEST_F(perplexity_test, is_what_the_logits_of_each_window_say) {
    const byte_model model(true);
    const std::string text = read(golden + "/recall_cases.jsonl").substr(0, 150);
    write(path("text"), text);
    std::vector<int> tokens{256};
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    std::vector<std::vector<int>> windows;  // the third one is not full
    for (int w = 0; w < 2; ++w) {
        windows.emplace_back(tokens.begin() + w * 64, tokens.begin() + (w + 1) * 64);
        windows.back()[0] = 256;
    }
    std::vector<std::vector<std::vector<double>>> wide, narrow;
    for (const auto& window : windows) {
        wide.push_back(log_probabilities(model.path(), window, "16"));
        narrow.push_back(log_probabilities(model.path(), window, "4"));
    }
    const std::string base =
        "--model " + model.path() + " --text " + path("text") + " --kv 16,4 --context 64";
    for (const bool half : {false, true}) {
        auto rows = measure(base + (half ? " --second-half" : ""));
        const expected_scores is = scores_by_hand(windows, wide, narrow, half ? 32 : 0);
        EXPECT_EQ(rows["16"]["tokens"], half ? 62 : 126);
        EXPECT_NEAR(rows["4"]["ppl"], is.ppl, 1e-4 * is.ppl);
        EXPECT_NEAR(rows["4"]["ppl_change_pct"], is.change, 1e-3);
        EXPECT_NEAR(rows["4"]["ppl_change_se"], is.error, 1e-3);
        EXPECT_NEAR(rows["4"]["kl_mean"], is.kl, 1e-5);
        EXPECT_NEAR(rows["4"]["same_top_pct"], is.same_top, 1e-6);
        EXPECT_GT(is.kl, 1e-4);  // or nothing was compared
    }
}

TEST_F(perplexity_test, of_a_tokenizer_that_adds_nothing_begins_with_the_text) {
    const byte_model model(false);
    write(path("text"), "the cat sat");
    auto rows =
        measure("--model " + model.path() + " --text " + path("text") + " --kv 16 --context 11");
    EXPECT_EQ(rows["16"]["tokens"], 10);
    std::vector<int> tokens;
    for (const char c : std::string("the cat sat")) tokens.push_back(c);
    const std::vector<std::vector<std::vector<double>>> logits{
        log_probabilities(model.path(), tokens, "16")};
    EXPECT_NEAR(rows["16"]["ppl"], scores_by_hand({tokens}, logits, logits, 0).ppl, 1e-2);
}

TEST_F(perplexity_test, of_a_form_against_itself_differs_in_nothing) {
    write(path("text"), read(golden + "/recall_cases.jsonl").substr(0, 4000));
    for (const char* kv : {"--kv 16,default,8,4", "--kv-bits 16,default,8,4"}) {
        auto rows = measure(std::string(kv) + " --context 256 --tokens 600 --text " + path("text"));
        ASSERT_EQ(rows.size(), 4u);
        EXPECT_EQ(rows["16"]["tokens"], 510);
        for (const char* none : {"ppl_change_pct", "ppl_change_se", "kl_mean", "kl_p999"})
            EXPECT_EQ(rows["16"][none], 0) << none;
        EXPECT_EQ(rows["16"]["same_top_pct"], 100);
        EXPECT_EQ(rows["16"]["kv_bytes_pct"], 100);
        EXPECT_LT(rows["default"]["kl_mean"], 0.01);  // the bound of what the server takes
        EXPECT_GT(rows["default"]["same_top_pct"], 96);
        EXPECT_NEAR(rows["8"]["ppl_change_pct"], 0, 1);
        EXPECT_LT(rows["8"]["kl_mean"], 0.01);
        EXPECT_GT(rows["4"]["kl_mean"], rows["8"]["kl_mean"]);
        EXPECT_GT(rows["4"]["kl_p999"], rows["4"]["kl_mean"]);
        EXPECT_NEAR(rows["8"]["kv_bytes_pct"], 53.125, 1e-6);
    }
}

TEST_F(perplexity_test, is_told_by_depth) {
    write(path("text"), read(golden + "/recall_cases.jsonl").substr(0, 12000));
    measure("--kv 16,8 --context 1500 --tokens 1500 --text " + path("text"));
    for (const char* range : {"| 16 | 0 to 511 |", "| 16 | 512 to 1023 |", "| 16 | 1024 to 1499 |",
                              "| 8 | 1024 to 1499 |"})
        EXPECT_NE(table_.find(range), std::string::npos) << table_;
    measure("--kv 16 --context 1500 --tokens 1500 --second-half --text " + path("text"));
    EXPECT_EQ(table_.find("| 16 | 0 to 511 |"), std::string::npos) << table_;
}

// The logits of all tokens would take 128 MiB for each form.
TEST_F(perplexity_test, holds_the_logits_of_a_piece_and_not_of_the_text) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers take more memory than the limit";
#endif
    write(path("text"), read(golden + "/recall_cases.jsonl"));
    const outcome done =
        run("perplexity --kv 16,16 --context 512 --tokens 8192 --threads 1 --text " + path("text"));
    EXPECT_EQ(done.status, 0) << done.err;
    EXPECT_LT(done.memory_kib, 110'000);
}

// The reference: numpy in float32 over the dequantised weights, in one window of the same tokens.
// Our activations have 8 bits, which on so few tokens moves what a prediction costs either way.
TEST_F(perplexity_test, of_published_models_is_the_references) {
    struct row {
        const char* model;
        int tokens;
        double reference, tolerance;
    };
    int found = 0;
    for (const row& r :
         {row{"smollm2-135m", 1024, 24.1784, 0.005}, row{"qwen2.5-coder-0.5b", 512, 16.1390, 0.005},
          row{"gemma3-270m", 512, 17.5316, 0.015}}) {
        const std::string model = tests::real_model(r.model);
        if (model.empty()) continue;
        ++found;
        const std::string tokens = std::to_string(r.tokens);
        auto rows = measure("--model " + model + " --kv 16 --text " + golden +
                            "/recall_cases.jsonl --context " + tokens + " --tokens " + tokens);
        EXPECT_NEAR(rows["16"]["ppl"], r.reference, r.tolerance * r.reference) << r.model;
    }
    if (found == 0) GTEST_SKIP() << tests::no_real_models;
}

TEST_F(perplexity_test, that_cannot_be_measured_says_why_in_one_line) {
    write(path("text"), std::string(1000, 'a'));
    write(path("empty"), "");
    const std::string text = " --text " + path("text");
    struct row {
        std::string arguments, named;
    };
    for (const row& r :
         {row{"", "text"}, row{" --text " + path("none"), path("none")},
          row{" --text " + path("empty"), "0 tokens"},
          row{text + " --tokens 100", "--tokens 100 tokens"},
          row{text + " --context 1024", "1024: give a smaller --context"},
          row{text + " --context 16385", "--context 16385"},
          row{text + " --context 1", "--context is 1"}, row{text + " --context x", "context"},
          row{text + " --tokens 0", "--tokens is 0"}, row{text + " --tokens 1", "--tokens is 1"},
          row{text + " --kv ''", "--kv"}, row{text + " --kv ,", "--kv"},
          row{text + " --kv 16,5", "\"5\""}, row{text + " --kv-bits 16,5", "--kv-bits: \"5\""},
          row{text + " --kv 16 --kv-bits 8", "give one"},
          row{text + " --context 64 --csv /nowhere/x.csv", "/nowhere/x.csv"},
          row{text + " --model /nowhere", "/nowhere"}}) {
        const outcome done = run("perplexity" + r.arguments);
        EXPECT_EQ(done.status, 1) << r.arguments;
        EXPECT_NE(done.err.find(r.named), std::string::npos) << r.arguments << ": " << done.err;
        EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
        EXPECT_EQ(done.out, "") << r.arguments;
    }
    EXPECT_EQ(run("perplexity --kv 16 --context 16384 --tokens 16384" + text).status, 1);
    EXPECT_EQ(run("perplexity --kv 16 --context 2 --tokens 2" + text).status, 0);
}

}  // namespace
}  // namespace semantic
