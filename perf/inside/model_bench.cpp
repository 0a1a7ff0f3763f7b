// SPDX-License-Identifier: Apache-2.0
// The forward pass without scheduler or server: decoding by several sequences at a depth, and
// prefill at a depth, each against what this machine's memory and multipliers allow, measured in
// the same run. Run: build/bin/model_bench MODEL [decode|prefill|all] [KERNELS] [THREADS]
// [COUNTxDEPTH...]
//          [--kv RECIPE] [--repeats N]
// COUNT is of sequences for decode, of tokens for prefill. RECIPE: how K and V are kept, as
// `semantic-eval inspect --measure` names it; without it 4 bits, 8 where keys have a bias.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engine/kernels/gemm.hpp"
#include "engine/kernels/task_runner.hpp"
#include "engine/model/compute_arena.hpp"
#include "engine/model/heads/key_means.hpp"
#include "engine/model/transformer.hpp"
#include "engine/model/weights/aligned_buffer.hpp"
#include "perf/inside/kernel_roofs.hpp"
#include "storage/pool/block_pool.hpp"
#include "storage/pool/kv_recipe.hpp"

namespace {

using namespace semantic;
using namespace semantic::engine;

constexpr int block_tokens = 256;
constexpr int rows_max = 2048;

double wall_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

/// CPU time of all threads.
double cpu_now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct cost {
    double wall, cpu;  // seconds, the fastest of the repetitions
};

/// `prepare` is called before each repetition and not timed.
cost fastest(int repeats, const std::function<void()>& prepare, const std::function<void()>& body) {
    cost best{1e9, 1e9};
    for (int i = 0; i < repeats; ++i) {
        prepare();
        const double wall = wall_now(), cpu = cpu_now();
        body();
        best = {std::min(best.wall, wall_now() - wall), std::min(best.cpu, cpu_now() - cpu)};
    }
    return best;
}

cost fastest(int repeats, const std::function<void()>& body) {
    return fastest(
        repeats, [] {}, body);
}

/// What the command line says.
struct bench_case {
    int count, depth;
};
struct bench_options {
    std::string model, measure = "all", kernels = "auto", kv;
    int threads = 0;
    int repeats = 0;  // of a case, of which the fastest counts; 0: what each part takes
    std::vector<bench_case> cases;
};

struct roofs {
    double read_bytes;       // a second, by all threads
    double int8_operations;  // a second, of all threads at once, see kernel_roofs; 0: not known
};

/// Bytes a second that all threads read of memory, the fastest of all times it was asked: what a
/// machine gives drifts, and a roof that was slow while it was measured would flatter.
class memory_roof {
  public:
    memory_roof() : memory_((std::size_t{1} << 28) / 8) {
        std::fill_n(memory_.data(), memory_.count(), 1u);
    }

    double measure() {
        const std::size_t part = memory_.count() / parts;
        std::uint64_t sums[parts] = {};
        const cost read = fastest(5, [&] {
            tasks_.run(parts, true, [&](int index, int) {
                const std::uint64_t* from = memory_.data() + static_cast<std::size_t>(index) * part;
                std::uint64_t sum = 0;
                for (std::size_t i = 0; i < part; ++i) sum += from[i];
                sums[index] = sum;
            });
        });
        if (sums[0] == 0) throw std::logic_error("nothing was read");
        best_ = std::max(best_, static_cast<double>(8 * memory_.count()) / read.wall);
        return best_;
    }

  private:
    static constexpr int parts = 64;
    const task_runner tasks_;
    aligned_buffer<std::uint64_t> memory_;
    double best_ = 0.0;
};

roofs measure_roofs(const kernel_table& kernels, memory_roof& memory) {
    const task_runner tasks;
    roofs found{};
    found.read_bytes = memory.measure();

    std::vector<double> rates(static_cast<std::size_t>(tasks.slots()));
    {
        std::vector<std::jthread> cores;
        for (double& rate : rates)
            cores.emplace_back([&rate, &kernels] {
                rate = semantic::perf::measure_kernel_roofs(kernels.name).int8_operations;
            });
    }
    for (const double rate : rates) found.int8_operations += rate;
    return found;
}

class bench_model {
  public:
    bench_model(const bench_options& options, const kernel_table& kernels, std::size_t pool_bytes) {
        auto config = model_config::load(options.model);
        if (!config) throw std::runtime_error(config.error().what);
        config_ = std::move(*config);
        storage::kv_recipe recipe(default_kv(config_).bits);
        if (!options.kv.empty()) {
            const auto named = storage::find_kv_recipe(options.kv);
            if (!named) throw std::runtime_error("--kv is none of " + storage::kv_recipe_names());
            recipe = *named;
        }
        const storage::kv_layout layout = make_kv_layout(config_, recipe, block_tokens);
        pool_ = std::make_unique<storage::block_pool>(layout, pool_bytes);
        // Statistics of 0 take as long as those of the model.
        const key_statistics keys{
            std::vector<float>(recipe.k.centred ? key_means::count(config_) : 0),
            std::vector<float>(recipe.k.shaped ? key_shaping::count(config_) : 0)};
        auto weights =
            transformer::load(options.model, config_, make_kv_layout(config_, 16, block_tokens),
                              kernels, {1, 1}, weight_form::native, {});
        if (!weights) throw std::runtime_error(weights.error().what);
        auto model = (*weights)->with_layout(layout, {rows_max, 16}, keys);
        if (!model) throw std::runtime_error(model.error().what);
        model_ = std::move(*model);
        token_of_ = std::uniform_int_distribution<storage::token_id>(0, config_.vocabulary - 1);
        logits_ = aligned_buffer<float>(16 * static_cast<std::size_t>(config_.vocabulary));
        state_ = aligned_buffer<std::byte>(config_.state_bytes());
        std::fill_n(state_.data(), state_.count(), std::byte{0});
        for (auto& each : next_states_) each = aligned_buffer<std::byte>(config_.state_bytes());
        prefill_block();
    }

    /// A sequence of `tokens` tokens, each block a copy of one that was computed: attention reads
    /// as many bytes as it would of a real one.
    std::unique_ptr<storage::kv_sequence> sequence(int tokens) {
        const int count = (tokens + block_tokens - 1) / block_tokens;
        std::vector<storage::kv_block_parts> prefix(static_cast<std::size_t>(count));
        for (storage::kv_block_parts& block : prefix)
            for (const storage::kv_part part : storage::kv_parts) {
                if (model_block_.at(part) == nullptr) continue;
                auto copy = storage::kv_block::make(*pool_, part);
                if (!copy) throw std::runtime_error(copy.error().what);
                (*copy)->copy_from(*model_block_.at(part), block_tokens);
                block.at(part) = std::move(*copy);
            }
        return std::make_unique<storage::kv_sequence>(*pool_, std::move(prefix), tokens);
    }

    /// One step: `count` more tokens of each sequence, logits of the last.
    void step(std::vector<std::unique_ptr<storage::kv_sequence>>& sequences, int count) {
        const int last = count - 1;
        std::vector<sequence_step> batch;
        // Other tokens in every row: rows of one token would all choose the same experts.
        std::vector<std::vector<storage::token_id>> drawn(sequences.size());
        float* to = logits_.data();
        for (std::size_t i = 0; i < sequences.size(); ++i) {
            auto& sequence = sequences[i];
            std::vector<storage::token_id>& tokens = drawn[i];
            for (int each = 0; each < count; ++each) tokens.push_back(token_of_(random_));
            if (!sequence->reserve(sequence->token_count() + count))
                throw std::runtime_error("the pool is too small");
            batch.push_back({tokens, sequence.get(), {&last, 1}, to});
            batch.back().state = state_.data();
            batch.back().next_state = next_states_[batch.size() - 1].data();
            to += config_.vocabulary;
        }
        model_->forward(batch);
    }

    double kv_bytes_per_token() const {
        return static_cast<double>(pool_->layout().bytes_per_token());
    }
    double weight_bytes() const { return static_cast<double>(model_->weight_bytes()); }
    /// Multiply-adds of the matrices for one token, the head left out.
    double products_per_token() const {
        const double hidden = config_.hidden, q = config_.heads * config_.head_dim,
                     kv = config_.kv_heads * config_.head_dim;
        return static_cast<double>(config_.layers.size()) *
               (2 * hidden * q + 4 * hidden * kv + 3 * hidden * config_.intermediate);
    }

  private:
    void prefill_block() {
        std::vector<std::unique_ptr<storage::kv_sequence>> one;
        one.push_back(std::make_unique<storage::kv_sequence>(
            *pool_, std::vector<storage::kv_block_parts>{}, 0));
        step(one, block_tokens);
        model_block_ = one[0]->share()[0];
    }

    model_config config_;
    std::unique_ptr<storage::block_pool> pool_;
    std::unique_ptr<transformer> model_;
    aligned_buffer<float> logits_;
    aligned_buffer<std::byte> state_;                        // zeros; costs what any other does
    std::array<aligned_buffer<std::byte>, 16> next_states_;  // of each sequence of a step
    storage::kv_block_parts model_block_;
    std::mt19937 random_{1};
    std::uniform_int_distribution<storage::token_id> token_of_;
};

void decode(bench_model& model, memory_roof& roof, const std::vector<bench_case>& cases,
            int repeats) {
    std::printf("%-28s %9s %9s %9s %12s\n", "decode", "ms/step", "cpu ms", "tok/s", "% of memory");
    for (const auto& [agents, depth] : cases) {
        std::vector<std::unique_ptr<storage::kv_sequence>> all;
        for (int i = 0; i < agents; ++i) all.push_back(model.sequence(depth));
        const int steps = 8;
        model.step(all, 1);
        const cost c = fastest(repeats, [&] {
            for (int i = 0; i < steps; ++i) model.step(all, 1);
        });
        const double bytes =
            model.weight_bytes() + agents * model.kv_bytes_per_token() * (depth + 30);
        const double step = c.wall / steps;
        std::printf("%3d sequences at %6d       %9.3f %9.3f %9.0f %12.0f\n", agents, depth,
                    step * 1e3, c.cpu / steps * 1e3, agents / step,
                    100 * bytes / roof.measure() / step);
    }
    std::printf("memory reads up to %.1f GB/s in this run\n", roof.measure() * 1e-9);
}

void prefill(bench_model& model, const roofs& roof, const std::vector<bench_case>& cases,
             int repeats) {
    std::printf("%-28s %9s %9s %9s %12s\n", "prefill", "ms", "cpu ms", "tok/s", "% of int8");
    for (const auto& [tokens, depth] : cases) {
        std::vector<std::unique_ptr<storage::kv_sequence>> one(1);
        const cost c = fastest(
            repeats, [&, depth = depth] { one[0] = model.sequence(depth); },
            [&, tokens = tokens] { model.step(one, tokens); });
        std::printf("%5d tokens at %6d        %9.2f %9.2f %9.0f %12.0f\n", tokens, depth,
                    c.wall * 1e3, c.cpu * 1e3, tokens / c.wall,
                    roof.int8_operations == 0 ? 0.0
                                              : 200 * model.products_per_token() * tokens / c.wall /
                                                    roof.int8_operations);
    }
}

/// The value after argv[i], which it steps to.
std::string value_of(int argc, char** argv, int& i) {
    if (i + 1 >= argc) throw std::runtime_error(std::string(argv[i]) + " needs a value");
    return argv[++i];
}

bench_options parse(int argc, char** argv) {
    bench_options options;
    int position = 0;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "--kv") {
            options.kv = value_of(argc, argv, i);
        } else if (word == "--repeats") {
            options.repeats = std::atoi(value_of(argc, argv, i).c_str());
        } else if (position < 4) {
            if (position == 0) options.model = word;
            if (position == 1) options.measure = word;
            if (position == 2) options.kernels = word;
            if (position == 3) options.threads = std::atoi(word.c_str());
            ++position;
        } else {
            bench_case next{};
            if (std::sscanf(word.c_str(), "%dx%d", &next.count, &next.depth) != 2 ||
                next.count < 1 || next.depth < 0)
                throw std::runtime_error("not COUNTxDEPTH: " + word);
            options.cases.push_back(next);
        }
    }
    return options;
}

constexpr int decode_repeats = 6, prefill_repeats = 3;
const std::vector<bench_case> usual_decodes = {{1, 1024},  {2, 1024}, {4, 1024}, {8, 1024},
                                               {16, 1024}, {1, 32},   {1, 16384}};
const std::vector<bench_case> usual_prefills = {
    {512, 0}, {2048, 0}, {512, 16384}, {65, 16384}, {50, 16384}};

int run(const bench_options& options) {
    if (options.model.empty()) {
        std::fprintf(stderr,
                     "usage: model_bench MODEL [decode|prefill|all] [KERNELS] [THREADS] "
                     "[COUNTxDEPTH...] [--kv RECIPE] [--repeats N]\n");
        return 2;
    }
    const kernel_table* kernels = find_kernels(options.kernels);
    if (kernels == nullptr) throw std::runtime_error("this CPU has no such kernels");
    const auto cases = [&](const std::vector<bench_case>& usual) {
        return options.cases.empty() ? usual : options.cases;
    };
    const auto repeats = [&](int usual) { return options.repeats > 0 ? options.repeats : usual; };
    compute_arena arena(options.threads);
    arena.run([&] {
        memory_roof memory;
        const roofs roof = measure_roofs(*kernels, memory);
        bench_model model(options, *kernels, std::size_t{2} << 30);
        std::printf("%s, %d threads: reads %.1f GB/s, int8 %.0f GOP/s; ", kernels->name,
                    arena.threads(), roof.read_bytes * 1e-9, 1e-9 * roof.int8_operations);
        std::printf("weights %.1f MB, KV %.0f bytes a token\n", model.weight_bytes() * 1e-6,
                    model.kv_bytes_per_token());
        if (options.measure != "prefill")
            decode(model, memory, cases(usual_decodes), repeats(decode_repeats));
        if (options.measure != "decode")
            prefill(model, roof, cases(usual_prefills), repeats(prefill_repeats));
    });
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(parse(argc, argv));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "model_bench: %s\n", error.what());
        return 1;
    }
}
