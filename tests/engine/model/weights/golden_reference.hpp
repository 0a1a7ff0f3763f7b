// SPDX-License-Identifier: Apache-2.0
#pragma once
// Logits and greedy answers of a golden model, which transformers computed in float32
// (tests/golden/README.md), and how far others are off.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "storage/files/safetensors.hpp"
#include "storage/types/ids.hpp"
#include "tests/engine/model/loaded_model.hpp"

namespace semantic::tests {

template <class Element, class Stored>
std::vector<Element> elements(const storage::safetensors_file& file, const char* name) {
    const storage::tensor_view& view = file.view().tensors.at(name);
    std::vector<Element> out(view.bytes.size() / sizeof(Stored));
    for (std::size_t i = 0; i < out.size(); ++i) {
        Stored value;
        std::memcpy(&value, view.bytes.data() + i * sizeof(Stored), sizeof(Stored));
        out[i] = static_cast<Element>(value);
    }
    return out;
}

struct reference {
    std::vector<storage::token_id> input;
    std::vector<std::int64_t> positions;
    std::vector<float> logits;
    std::vector<float> logits_q4kv;  // of latents, which the reference does not quantise: logits
    boost::json::value json;

    /// `weights`, `answers`: folders of golden models, which may be one, with the logits and with
    /// the greedy answers.
    static reference load(const std::string& weights, const std::string& answers) {
        auto file = storage::safetensors_file::open(weights + "/expected.safetensors");
        EXPECT_TRUE(file) << (file ? "" : file.error().what);
        std::ifstream stream(answers + "/expected.json");
        const std::string text((std::istreambuf_iterator<char>(stream)),
                               std::istreambuf_iterator<char>());
        return {elements<storage::token_id, std::int64_t>(*file, "input_ids"),
                elements<std::int64_t, std::int64_t>(*file, "positions"),
                elements<float, float>(*file, "logits"),
                elements<float, float>(
                    *file, file->view().tensors.contains("logits_q4kv") ? "logits_q4kv" : "logits"),
                boost::json::parse(text)};
    }
};

/// Root mean square of the difference over the standard deviation of what is expected.
inline double relative_error(const std::vector<float>& all, const reference& ref,
                             const std::vector<float>& expected) {
    const std::size_t vocabulary = expected.size() / ref.positions.size();
    double difference = 0.0, sum = 0.0, squares = 0.0;
    for (std::size_t p = 0; p < ref.positions.size(); ++p) {
        for (std::size_t i = 0; i < vocabulary; ++i) {
            const double want = expected[p * vocabulary + i];
            const double got = all[static_cast<std::size_t>(ref.positions[p]) * vocabulary + i];
            difference += (got - want) * (got - want);
            sum += want;
            squares += want * want;
        }
    }
    const auto n = static_cast<double>(expected.size());
    return std::sqrt(difference / n) / std::sqrt(squares / n - sum / n * (sum / n));
}

/// The same for each position apart; of these, the median. A token that a mixture routes
/// differently changes its own positions and leaves this as it is.
inline double median_error(const std::vector<float>& all, const reference& ref,
                           const std::vector<float>& expected) {
    const std::size_t vocabulary = expected.size() / ref.positions.size();
    std::vector<double> errors;
    for (std::size_t p = 0; p < ref.positions.size(); ++p) {
        reference one;
        one.positions = {ref.positions[p]};
        const auto first = expected.begin() + static_cast<std::ptrdiff_t>(p * vocabulary);
        errors.push_back(
            relative_error(all, one, {first, first + static_cast<std::ptrdiff_t>(vocabulary)}));
    }
    std::sort(errors.begin(), errors.end());
    return errors[errors.size() / 2];
}

/// One greedy answer of the reference, as another model sees it that is fed with it.
struct greedy_comparison {
    std::size_t prompt = 0;  // tokens
    std::size_t count = 0;   // tokens of the answer
    int equal = 0;           // of them, those that are the model's choice too
    double worst = 0.0;      // what one lacks to the model's choice; of the logits' spread
    double margin = 0.0;     // the reference's own nearest tie; of the spread
};

/// Puts what `model` answers to the first `count` prompts in place of the greedy answers of `ref`,
/// with the margins and the spread of its logits.
inline void answer_greedily(loaded_model& model, reference& ref, std::size_t count) {
    const auto vocabulary = static_cast<std::size_t>(model.config().vocabulary);
    boost::json::array answers;
    double sum = 0.0, squares = 0.0, numbers = 0.0;
    for (const boost::json::value& asked : ref.json.at("greedy").as_array()) {
        if (answers.size() == count) break;
        const auto prompt = asked.at("prompt_tokens").to_number<std::size_t>();
        const auto length = asked.at("new_tokens").as_array().size();
        std::vector<storage::token_id> ids(ref.input.begin(),
                                           ref.input.begin() + static_cast<std::ptrdiff_t>(prompt));
        const auto answer = model.greedy(ids, static_cast<int>(length));
        ids.insert(ids.end(), answer.begin(), answer.end());
        const auto sequence = model.new_sequence();
        const std::vector<float> logits = model.logits(*sequence, ids, 512);
        double margin = std::numeric_limits<double>::infinity();
        for (std::size_t i = 0; i < length; ++i) {
            const auto begin =
                logits.begin() + static_cast<std::ptrdiff_t>((prompt - 1 + i) * vocabulary);
            std::vector<float> row(begin, begin + static_cast<std::ptrdiff_t>(vocabulary));
            std::nth_element(row.begin(), row.begin() + 1, row.end(), std::greater<>());
            margin = std::min(margin, static_cast<double>(row[0] - row[1]));
        }
        for (const float logit : logits) {
            sum += static_cast<double>(logit);
            squares += static_cast<double>(logit) * static_cast<double>(logit);
        }
        numbers += static_cast<double>(logits.size());
        answers.push_back({{"prompt_tokens", prompt},
                           {"new_tokens", boost::json::value_from(answer)},
                           {"min_top2_margin", margin}});
    }
    const double mean = sum / numbers;
    ref.json = {{"logit_std", std::sqrt(squares / numbers - mean * mean)},
                {"greedy", std::move(answers)}};
}

/// Feeds `model` with the answers of `ref`.
inline std::vector<greedy_comparison> compare_greedy(loaded_model& model, const reference& ref) {
    const auto vocabulary = static_cast<std::size_t>(model.config().vocabulary);
    const double spread = ref.json.at("logit_std").to_number<double>();
    std::vector<greedy_comparison> all;
    for (const boost::json::value& answer : ref.json.at("greedy").as_array()) {
        const auto expected =
            boost::json::value_to<std::vector<storage::token_id>>(answer.at("new_tokens"));
        greedy_comparison one;
        one.prompt = answer.at("prompt_tokens").to_number<std::size_t>();
        one.count = expected.size();
        one.margin = answer.at("min_top2_margin").to_number<double>() / spread;
        std::vector<storage::token_id> ids(
            ref.input.begin(), ref.input.begin() + static_cast<std::ptrdiff_t>(one.prompt));
        ids.insert(ids.end(), expected.begin(), expected.end());
        const auto sequence = model.new_sequence();
        const std::vector<float> logits = model.logits(*sequence, ids, 512);
        for (std::size_t i = 0; i < expected.size(); ++i) {
            const auto row =
                std::span(logits).subspan((one.prompt - 1 + i) * vocabulary, vocabulary);
            const float ours = *std::max_element(row.begin(), row.end());
            const double gap =
                static_cast<double>(ours - row[static_cast<std::size_t>(expected[i])]) / spread;
            one.equal += gap == 0.0;
            one.worst = std::max(one.worst, gap);
        }
        all.push_back(one);
    }
    return all;
}

}  // namespace semantic::tests
