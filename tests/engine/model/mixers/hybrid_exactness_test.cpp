// SPDX-License-Identifier: Apache-2.0
// The promise of engine/model/README.md of layers that keep a state: a position's logits, and the
// state after it, are the same bits whatever the chunking, the threads and the batch.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "storage/files/safetensors.hpp"
#include "storage/types/as_size.hpp"
#include "tests/engine/model/loaded_model.hpp"

namespace semantic::engine {
namespace {

using storage::token_id;
using tests::loaded_model;

constexpr int vocabulary = 320;

std::vector<token_id> some_tokens(int count, std::uint32_t seed) {
    std::vector<token_id> ids;
    for (int i = 0; i < count; ++i) {
        seed = seed * 1664525u + 1013904223u;
        ids.push_back(static_cast<token_id>((seed >> 8) % vocabulary));
    }
    return ids;
}

template <class Element>
bool same_bits(std::span<const Element> a, std::span<const Element> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}
bool same_logits(std::span<const float> a, std::span<const float> b) { return same_bits(a, b); }

class hybrid_exactness : public testing::TestWithParam<std::tuple<const char*, const char*>> {
  protected:
    struct reading {
        std::vector<float> logits;
        std::vector<std::byte> state;
        bool operator==(const reading& other) const {
            return same_logits(logits, other.logits) && state == other.state;
        }
    };

    static tests::model_run run(int threads, const std::string& kernels) {
        const auto [name, recipe] = GetParam();
        tests::model_run wanted;
        wanted.folder = std::string(SEMANTIC_SOURCE_DIR "/tests/golden/models/") + name;
        wanted.threads = threads;
        wanted.kernels = kernels;
        wanted.rows_max = 600;
        wanted.pool_tokens = 2048;
        wanted.recipe = recipe;
        return wanted;
    }
    static loaded_model model(int threads) { return loaded_model(run(threads, "auto")); }
    static reading read(loaded_model& m, const std::vector<token_id>& ids, int chunk) {
        const auto sequence = m.new_sequence();
        std::vector<float> logits = m.logits(*sequence, ids, chunk);
        const auto state = m.state(*sequence);
        return {std::move(logits), {state.begin(), state.end()}};
    }
    static std::vector<token_id> prompt() { return some_tokens(600, 7); }
};

TEST_P(hybrid_exactness, chunks_leave_no_trace) {
    loaded_model m = model(1);
    const reading whole = read(m, prompt(), 600);
    EXPECT_GT(whole.state.size(), 0u);
    for (const int chunk : {1, 7, 256})
        EXPECT_TRUE(whole == read(m, prompt(), chunk)) << "chunk " << chunk;
}

TEST_P(hybrid_exactness, threads_leave_no_trace) {
    const auto read_by = [](int threads, int chunk) {
        loaded_model m = model(threads);
        return read(m, prompt(), chunk);
    };
    const reading whole = read_by(1, 600);
    for (const int threads : {2, 5}) {
        EXPECT_TRUE(whole == read_by(threads, 600)) << "threads " << threads;
        EXPECT_TRUE(whole == read_by(threads, 50)) << "threads " << threads;
    }
}

TEST_P(hybrid_exactness, batch_mates_leave_no_trace) {
    loaded_model m = model(2);
    const std::vector<token_id> prompts[] = {prompt(), some_tokens(290, 1), some_tokens(33, 2)};
    reading alone[3], together[3];
    for (int i = 0; i < 3; ++i) alone[i] = read(m, prompts[i], 100);
    std::unique_ptr<storage::kv_sequence> sequences[] = {m.new_sequence(), m.new_sequence(),
                                                         m.new_sequence()};
    const std::size_t part[] = {97, 1, 5};
    for (int step = 0; step < 290; ++step) {
        std::vector<storage::kv_sequence*> batch;
        std::vector<std::vector<token_id>> tokens;
        std::vector<int> running;
        for (int i = 0; i < 3; ++i) {
            const auto done = static_cast<std::size_t>(sequences[i]->token_count());
            if (done >= prompts[i].size() || (i == 2 && step < 3)) continue;
            const auto first = prompts[i].begin() + static_cast<std::ptrdiff_t>(done);
            const std::size_t count = std::min(part[i], prompts[i].size() - done);
            tokens.emplace_back(first, first + static_cast<std::ptrdiff_t>(count));
            batch.push_back(sequences[i].get());
            running.push_back(i);
        }
        const std::vector<float> out = m.step(batch, tokens);
        auto from = out.begin();
        for (std::size_t i = 0; i < running.size(); ++i) {
            const auto count = static_cast<std::ptrdiff_t>(tokens[i].size() * vocabulary);
            together[running[i]].logits.insert(together[running[i]].logits.end(), from,
                                               from + count);
            from += count;
        }
    }
    for (int i = 0; i < 3; ++i) {
        const auto state = m.state(*sequences[i]);
        together[i].state.assign(state.begin(), state.end());
        EXPECT_TRUE(alone[i] == together[i]) << "sequence " << i;
    }
}

TEST_P(hybrid_exactness, a_state_that_two_sequences_share_gives_what_a_fresh_one_gives) {
    loaded_model m = model(2);
    const std::vector<token_id> ids = prompt();
    const reading whole = read(m, ids, 600);
    for (const int cut : {1, 2, 100, 256, 300}) {
        const auto owner = m.new_sequence();
        m.logits(*owner, std::span(ids).first(static_cast<std::size_t>(cut)), cut);
        const auto fork = m.fork(*owner);
        m.logits(*owner, some_tokens(200, 99), 200);  // the owner goes another way
        const std::vector<float> rest =
            m.logits(*fork, std::span(ids).subspan(static_cast<std::size_t>(cut)), 300);
        EXPECT_TRUE(same_logits(
            std::span(whole.logits).subspan(static_cast<std::size_t>(cut * vocabulary)), rest))
            << cut;
        EXPECT_TRUE(same_bits(std::span<const std::byte>(whole.state), m.state(*fork))) << cut;
    }
}

TEST_P(hybrid_exactness, every_instruction_set_gives_the_same_bits) {
    reading first;
    for (const std::string_view kernels : available_kernels()) {
        if (kernels == "portable") continue;  // BLAS orders its sums as it likes
        loaded_model m(run(1, std::string(kernels)));
        const reading some = read(m, some_tokens(300, 5), 300);
        if (first.logits.empty()) first = some;
        EXPECT_TRUE(first == some) << kernels;
    }
}

// The last layer's recurrence goes through rows whose logits nobody asks for.
TEST_P(hybrid_exactness, asking_for_few_logits_gives_the_same_ones_and_the_same_state) {
    loaded_model m = model(2);
    const std::vector<token_id> ids = prompt();
    const reading whole = read(m, ids, 600);
    const auto sequence = m.new_sequence();
    ASSERT_TRUE(sequence->reserve(600));
    std::vector<float> some(3 * vocabulary);
    std::vector<std::byte> state(m.config().state_bytes());
    const std::vector<int> asked{0, 255, 599};
    sequence_step step{ids, sequence.get(), asked, some.data()};
    step.next_state = state.data();
    m.model().forward({&step, 1});
    for (std::size_t i = 0; i < asked.size(); ++i) {
        const auto at = static_cast<std::size_t>(asked[i] * vocabulary);
        EXPECT_TRUE(same_logits(std::span(whole.logits).subspan(at, vocabulary),
                                std::span(some).subspan(i * vocabulary, vocabulary)));
    }
    EXPECT_EQ(whole.state, state);
}

TEST_P(hybrid_exactness, a_step_that_fails_leaves_the_former_state_as_it_was) {
    loaded_model m = model(1);
    const std::vector<token_id> ids = prompt();
    const auto sequence = m.new_sequence();
    m.logits(*sequence, std::span(ids).first(300), 300);
    const std::vector<std::byte> before(m.state(*sequence).begin(), m.state(*sequence).end());
    ASSERT_TRUE(sequence->reserve(350));
    std::vector<std::byte> next(before.size());
    struct closed_gate final : layer_gate {
        bool wait_for_layer(int) override { return false; }
    } closed;
    sequence_step step{std::span(ids).subspan(300, 50), sequence.get(), {}, nullptr, &closed};
    step.state = m.state(*sequence).data();
    step.next_state = next.data();
    EXPECT_THROW(m.model().forward({&step, 1}), layer_not_there);
    EXPECT_EQ(sequence->token_count(), 300);
    EXPECT_TRUE(same_bits(std::span<const std::byte>(before), m.state(*sequence)));
    const reading whole = read(m, ids, 600);
    EXPECT_TRUE(same_logits(std::span(whole.logits).subspan(300 * vocabulary),
                            m.logits(*sequence, std::span(ids).subspan(300), 300)));
}

// No state says the same as one of zeros, which is that of no tokens.
// Two sequences with drafts and one without: whatever is given up, each state is the one after
// what is left.
TEST_P(hybrid_exactness, a_draft_that_is_given_up_leaves_the_state_of_what_was_taken) {
    tests::model_run with_drafts = run(2, "auto");
    with_drafts.draft_rows_max = 13;
    loaded_model m(with_drafts);
    const std::vector<token_id> ids = prompt();
    const int before[] = {300, 40, 0}, counts[] = {9, 3, 4}, drafts[] = {8, 0, 3};
    for (const int kept : {1, 2, 4, 8, 9}) {
        std::unique_ptr<storage::kv_sequence> sequences[3];
        std::vector<std::byte> next[3];
        std::vector<sequence_step> steps;
        for (int i = 0; i < 3; ++i) {
            sequences[i] = m.new_sequence();
            const std::span all(ids);
            if (before[i] > 0) m.logits(*sequences[i], all.first(storage::as_size(before[i])), 100);
            ASSERT_TRUE(sequences[i]->reserve(before[i] + counts[i]));
            next[i].resize(m.config().state_bytes());
            sequence_step step{
                all.subspan(storage::as_size(before[i]), storage::as_size(counts[i])),
                sequences[i].get(),
                {},
                nullptr};
            step.state = before[i] == 0 ? nullptr : m.state(*sequences[i]).data();
            step.next_state = next[i].data();
            step.drafts = drafts[i];
            steps.push_back(step);
        }
        m.model().forward(steps);
        m.model().rewind(0, kept);
        const int kept_of_last = std::min(kept, counts[2]);
        m.model().rewind(2, kept_of_last);
        const int ends[] = {before[0] + kept, before[1] + counts[1], kept_of_last};
        for (int i = 0; i < 3; ++i) {
            const std::vector<token_id> whole(ids.begin(), ids.begin() + ends[i]);
            EXPECT_EQ(read(m, whole, 100).state, next[i]) << "sequence " << i << ", kept " << kept;
        }
    }
}

TEST_P(hybrid_exactness, without_a_state_a_text_begins_from_zeros) {
    loaded_model m = model(1);
    const std::vector<token_id> ids = some_tokens(40, 3);
    const reading whole = read(m, ids, 40);
    const auto sequence = m.new_sequence();
    ASSERT_TRUE(sequence->reserve(40));
    std::vector<std::byte> zeros(m.config().state_bytes()), next(zeros.size(), std::byte{0x5a});
    sequence_step step{ids, sequence.get(), {}, nullptr};
    step.state = zeros.data();
    step.next_state = next.data();
    m.model().forward({&step, 1});
    EXPECT_EQ(whole.state, next);
}

// Vacuity checks: the comparison sees one changed token, and logits a changed state.
TEST_P(hybrid_exactness, another_token_and_another_state_are_seen) {
    loaded_model m = model(1);
    std::vector<token_id> ids = some_tokens(60, 5);
    const reading before = read(m, ids, 60);
    const auto sequence = m.new_sequence();
    m.logits(*sequence, std::span(ids).first(59), 59);
    ids[57] = (ids[57] + 1) % vocabulary;
    const reading after = read(m, ids, 60);
    EXPECT_TRUE(same_logits(std::span(before.logits).first(57 * vocabulary),
                            std::span(after.logits).first(57 * vocabulary)));
    EXPECT_FALSE(same_logits(std::span(before.logits).last(vocabulary),
                             std::span(after.logits).last(vocabulary)));
    EXPECT_FALSE(before.state == after.state);

    std::vector<float> logits(vocabulary);
    const std::vector<int> asked{0};
    std::vector<std::byte> zeros(m.config().state_bytes()), next(zeros.size());
    ASSERT_TRUE(sequence->reserve(60));
    sequence_step step{std::span(ids).last(1), sequence.get(), asked, logits.data()};
    step.state = zeros.data();
    step.next_state = next.data();
    m.model().forward({&step, 1});
    EXPECT_FALSE(same_logits(std::span(before.logits).last(vocabulary), logits));
}

INSTANTIATE_TEST_SUITE_P(
    models, hybrid_exactness,
    testing::Combine(testing::Values("lfm2", "lfm2moe", "qwen35", "qwen35moe", "qwen3next",
                                     "granitehybrid", "nemotronh", "nemotronh-moe"),
                     testing::Values("16", "4", "k8m-v5r")),
    [](const testing::TestParamInfo<std::tuple<const char*, const char*>>& each) {
        std::string name = std::string(std::get<0>(each.param)) + "_kv" + std::get<1>(each.param);
        std::replace(name.begin(), name.end(), '-', '_');
        return name;
    });

/// The state after the golden prompt, as transformers computed it in float32.
class golden_state : public testing::TestWithParam<const char*> {
  protected:
    static storage::safetensors_file open(const std::string& name) {
        auto file = storage::safetensors_file::open(
            std::string(SEMANTIC_SOURCE_DIR "/tests/golden/models/") + GetParam() + "/" + name);
        EXPECT_TRUE(file) << (file ? "" : file.error().what);
        return std::move(*file);
    }
};

TEST_P(golden_state, is_the_references) {
    const auto expected = open("expected.safetensors"), debug = open("debug.safetensors");
    const storage::tensor_view& input = expected.view().tensors.at("input_ids");
    std::vector<token_id> ids;
    for (std::size_t i = 0; i < input.bytes.size(); i += 8) {
        std::int64_t id;
        std::memcpy(&id, input.bytes.data() + i, sizeof id);
        ids.push_back(static_cast<token_id>(id));
    }
    tests::model_run run;
    run.folder = std::string(SEMANTIC_SOURCE_DIR "/tests/golden/models/") + GetParam();
    loaded_model m(run);
    ASSERT_TRUE(m);
    const auto sequence = m.new_sequence();
    m.logits(*sequence, ids, 512);
    const std::byte* state = m.state(*sequence).data();
    const model_config& config = m.config();
    const auto regions = config.state_regions();
    const auto number = [](const std::byte* from, std::size_t i) {
        float value;
        std::memcpy(&value, from + i * sizeof value, sizeof value);
        return static_cast<double>(value);
    };
    for (std::size_t layer = 0; layer < regions.size(); ++layer) {
        if (!is_recurrent(config.layers[layer].mixer)) continue;
        const std::string name = "layers." + std::to_string(layer);
        double difference = 0.0, squares = 0.0;
        const auto compare = [&](double ours, double theirs) {
            difference += (ours - theirs) * (ours - theirs);
            squares += theirs * theirs;
        };
        const auto taps = static_cast<std::size_t>(config.convolution.taps),
                   channels = static_cast<std::size_t>(config.convolution.channels);
        const std::byte* columns = debug.view().tensors.at(name + ".conv_state").bytes.data();
        for (std::size_t tap = 1; tap < taps; ++tap)
            for (std::size_t c = 0; c < channels; ++c)
                compare(number(state + regions[layer].columns, (tap - 1) * channels + c),
                        number(columns, c * taps + tap));
        EXPECT_LE(std::sqrt(difference / squares), 0.01) << name << ", columns";
        if (config.layers[layer].mixer == mixer_kind::short_convolution) continue;
        difference = squares = 0.0;
        const recurrence_config& shape = config.recurrence;
        const auto rows = static_cast<std::size_t>(shape.key_dim),
                   cols = static_cast<std::size_t>(shape.value_dim);
        // Of Mamba-2 the reference has a row for each element of a value.
        const bool turned = config.layers[layer].mixer == mixer_kind::state_space;
        const std::byte* matrices = debug.view().tensors.at(name + ".recurrent_state").bytes.data();
        for (std::size_t i = 0; i < shape.matrix_floats(); ++i) {
            const std::size_t head = i / (rows * cols), row = i / cols % rows, col = i % cols;
            compare(number(state + regions[layer].matrices, i),
                    number(matrices, turned ? (head * cols + col) * rows + row : i));
        }
        EXPECT_LE(std::sqrt(difference / squares), 0.01) << name << ", matrices";
    }
}

INSTANTIATE_TEST_SUITE_P(models, golden_state, testing::Values("lfm2", "qwen35", "nemotronh"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace semantic::engine
