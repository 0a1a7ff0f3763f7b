// SPDX-License-Identifier: Apache-2.0
// What holding an answer to a form costs a token: for each shape of schema, streams of free and of
// held answers of one engine, in turn, so that both see the same machine.
// Run: build/bin/constrained_bench MODEL_DIR [ROUNDS [THREADS [FORM]]]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "perf/inside/scratch_directory.hpp"

namespace {

using namespace semantic::engine;
using clock_type = std::chrono::steady_clock;

constexpr int answer_tokens = 250;

struct shape {
    const char* name;
    output_form form;
    std::string tool_schema = {};  // a tool to call, in both streams' prompts
};

output_form value_of(std::string schema) {
    return {.what = output_form::kind::json, .schema_json = std::move(schema)};
}

std::string with_properties(int count, const std::string& schema) {
    std::string properties, required;
    for (int i = 0; i < count; ++i) {
        std::string name = (i > 0 ? ",\"p" : "\"p") + std::to_string(i) + '"';
        properties += name + ':' + schema;
        required += name;
    }
    return R"({"type":"object","additionalProperties":false,"properties":{)" + properties +
           "},\"required\":[" + required + "]}";
}

std::vector<shape> shapes() {
    const std::string text = R"({"type":"string"})";
    const std::string person =
        R"({"type":"object","additionalProperties":false,"required":["name","age","tags"],
            "properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,
            "maximum":130},"tags":{"type":"array","items":{"enum":["red","green","blue"]}}}})";
    const std::string long_argument =
        R"({"type":"object","additionalProperties":false,"required":["text"],
            "properties":{"text":{"type":"string","minLength":2000}}})";
    return {
        {"any object", {.what = output_form::kind::json}},
        {"30 strings", value_of(with_properties(30, text))},
        {"string", value_of(text)},
        {"string, minLength", value_of(R"({"type":"string","minLength":2000})")},
        {"string, maxLength", value_of(R"({"type":"string","maxLength":2000})")},
        {"string, both", value_of(R"({"type":"string","minLength":1990,"maxLength":2000})")},
        {"pattern, words", value_of(R"({"type":"string","pattern":"^([a-z]{2,9} ){300}$"})")},
        {"pattern, length",
         value_of(R"({"type":"string","pattern":"^[A-Za-z0-9 .,]{800,1000}$"})")},
        {"pattern, anywhere", value_of(R"({"type":"string","pattern":"zq[0-9]{3}xj"})")},
        {"date-times", value_of(R"({"type":"array","minItems":40,
            "items":{"type":"string","format":"date-time"}})")},
        {"uuids", value_of(R"({"type":"array","minItems":40,
            "items":{"type":"string","format":"uuid"}})")},
        {"enums", value_of(R"({"type":"array","minItems":200,
            "items":{"enum":["north","south","east","west",1,2,null]}})")},
        {"numbers", value_of(R"({"type":"array","minItems":200,"items":{"type":"number"}})")},
        {"numbers in a range", value_of(R"({"type":"array","minItems":200,
            "items":{"type":"number","minimum":-1.5,"maximum":273.15}})")},
        {"objects", value_of(R"({"type":"array","minItems":40,"items":)" + person + "}")},
        {"trees", value_of(R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"object",
            "additionalProperties":false,"required":["v","c"],"properties":{"v":{"type":"string"},
            "c":{"type":"array","items":{"$ref":"#/$defs/t"}}}}}})")},
        {"anyOf", value_of(R"({"type":"array","minItems":100,"items":{"anyOf":[)" + person +
                           R"(,{"type":"string"},{"type":"number"},{"type":"boolean"}]}})")},
        {"tool arguments", {.what = output_form::kind::calls}, with_properties(30, text)},
        {"tool, long text", {.what = output_form::kind::calls}, long_argument},
    };
}

/// By the clock on the wall, and CPU time of all threads: on a machine that does other work too,
/// only the latter says anything.
struct cost {
    double wall = 0, cpu = 0;  // seconds
};

cost now() {
    return {std::chrono::duration<double>(clock_type::now().time_since_epoch()).count(),
            static_cast<double>(std::clock()) / CLOCKS_PER_SEC};
}

class clocked_sink : public generation_sink {
  public:
    void on_event(generation_event event) noexcept override {
        if (std::holds_alternative<token_text>(event)) {
            tokens_.push_back(now());
        } else if (const auto* end = std::get_if<failed>(&event)) {
            message_ = end->what;
            done_.set_value();
        } else if (std::holds_alternative<finished>(event)) {
            done_.set_value();
        }
    }
    /// Blocks. Returns: when each token came.
    const std::vector<cost>& tokens() {
        done_.get_future().wait();
        if (!message_.empty()) throw std::runtime_error(message_);
        return tokens_;
    }

  private:
    std::vector<cost> tokens_;
    std::string message_;
    std::promise<void> done_;
};

/// Keeps an answer from ending by itself: a free one would be too short to be timed.
std::vector<token_bias> against_the_end(const std::string& model) {
    auto words = tokenizer::load(model);
    if (!words) throw std::runtime_error(words.error().what);
    std::vector<token_bias> out;
    for (const char* end : {"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<end_of_turn>", "</s>",
                            "<eos>", "<|return|>", "<|end_of_text|>"})
        if (token_id id = words->find(end); id >= 0) out.push_back({id, -1000.0f});
    return out;
}

generation_request request_of(const shape& measured, bool held, int round,
                              const std::vector<token_bias>& biases) {
    generation_request request;
    request.chat.messages.push_back(
        {role::user,
         {text_part{"Tell me a long story of the sea, number " + std::to_string(round) + "."}}});
    if (!measured.tool_schema.empty())
        request.chat.tools = {{"report", "Reports.", measured.tool_schema, true}};
    if (held) request.form = measured.form;
    request.max_tokens = answer_tokens;
    request.sampling.temperature = round / 2 % 2 == 0 ? 0.0f : 1.0f;
    request.sampling.biases = biases;
    request.sampling.seed = static_cast<std::uint64_t>(round);
    return request;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

/// Of all rounds. A round's two answers follow each other, so their ratio is of one machine.
struct column {
    std::vector<double> free, held, ratio;

    void add(double a_free_one, double a_held_one) {
        free.push_back(a_free_one);
        held.push_back(a_held_one);
        ratio.push_back(a_held_one / a_free_one);
    }
    void print() const {
        auto least = [](const std::vector<double>& numbers) {
            return *std::min_element(numbers.begin(), numbers.end());
        };
        std::printf("  %7.1f %7.1f %6.3f %6.3f", median(free) * 1e6, median(held) * 1e6,
                    median(ratio), least(held) / least(free));
    }
};

void measure(engine& runner, const shape& measured, int rounds,
             const std::vector<token_bias>& biases) {
    column wall, cpu;
    std::size_t held_tokens = 0;
    for (int round = 0; round < rounds; ++round) {
        std::vector<cost> times[2];  // [held]
        for (int turn = 0; turn < 2; ++turn) {
            bool held = (round + turn) % 2 == 1;  // each goes first as often
            auto sink = std::make_shared<clocked_sink>();
            runner.submit(request_of(measured, held, round, biases), sink);
            times[held] = sink->tokens();
        }
        held_tokens += times[1].size();
        // As far as both go: the first tokens cost more.
        const std::size_t count = std::min(times[0].size(), times[1].size());
        if (count < 20) continue;
        auto a_token = [&](bool held, double cost::*what) {
            return (times[held][count - 1].*what - times[held][0].*what) /
                   static_cast<double>(count - 1);
        };
        wall.add(a_token(false, &cost::wall), a_token(true, &cost::wall));
        cpu.add(a_token(false, &cost::cpu), a_token(true, &cost::cpu));
    }
    std::printf("%-18s %6zu", measured.name, held_tokens / static_cast<std::size_t>(rounds));
    if (wall.free.empty()) {
        std::printf("  answers of less than 20 tokens\n");
        return;
    }
    wall.print();
    cpu.print();
    std::printf("\n");
    std::fflush(stdout);
}

int run(const std::string& model, int rounds, int threads, std::string_view only) {
    const semantic::perf::scratch_directory caches("semantic-constrained-bench");
    engine_options options;
    options.kv_recipe = "k4v4";  // random weights have no recipe that suits them
    options.model_directory = model;
    options.cache_directory = caches.path();
    options.compute_threads = threads;
    options.cache_budget_bytes = std::size_t{256} << 20;
    auto loaded = load_engine(options, [](load_progress) {});
    if (!loaded) throw std::runtime_error(loaded.error().what);
    auto biases = against_the_end(model);
    std::printf(
        "%s, %d tokens an answer, %d rounds; microseconds a token, free and held; the median "
        "ratio of a round, and that of the least values\n\n",
        (*loaded)->info().id.c_str(), answer_tokens, rounds);
    std::printf("%-18s %6s  %-29s  %-29s\n", "form", "tokens", "wall", "CPU of all threads");
    for (const shape& each : shapes())
        if (only.empty() || only == each.name) measure(**loaded, each, rounds, biases);
    (*loaded)->drain(clock_type::now() + std::chrono::seconds(10));
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        int rounds = argc > 2 ? std::atoi(argv[2]) : 20;
        int threads = argc > 3 ? std::atoi(argv[3]) : 0;
        if (argc < 2 || rounds < 1 || rounds > 1000 || threads < 0)
            throw std::runtime_error(
                "usage: constrained_bench MODEL_DIR [ROUNDS [THREADS [FORM]]]; 0 threads: all "
                "cores");
        return run(argv[1], rounds, threads, argc > 4 ? argv[4] : "");
    } catch (const std::exception& error) {
        std::fprintf(stderr, "constrained_bench: %s\n", error.what());
        return 1;
    }
}
