// SPDX-License-Identifier: Apache-2.0
// What text costs before a model sees it: rendering a long conversation with tools, by a family's
// renderer and by the interpreter, and turning text into tokens.
// Run: build/bin/text_bench MODEL... [--benchmark_...]; each MODEL is a folder or a .gguf.

#include <benchmark/benchmark.h>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "engine/text/template/chat_template.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"

namespace {

using namespace semantic::engine;

/// Prose with numbers and a little markup, the same on every run.
std::string prose(int words, int seed) {
    static const char* const list[] = {"the",     "agent",  "reads",    "file",   "src/main.cpp",
                                       "and",     "writes", "it's",     "3,141",  "answers.",
                                       "Several", "lines",  "\n\nThen", "naïve",  "(see",
                                       "below)",  "where",  "value",    "`x+=1`", "changes,"};
    std::string text;
    std::uint32_t state = 2'463'534'242u + static_cast<std::uint32_t>(seed);
    for (int i = 0; i < words; ++i) {
        state ^= state << 13, state ^= state >> 17, state ^= state << 5;
        text += list[state % std::size(list)];
        text += ' ';
    }
    return text;
}

/// 200 messages: 50 times a question, a call, its result, an answer; with 8 tools.
conversation long_conversation(bool with_tools) {
    conversation chat;
    chat.system = prose(200, 0);
    for (int i = 0; with_tools && i < 8; ++i)
        chat.tools.push_back({"tool_" + std::to_string(i), prose(20, i),
                              R"({"type":"object","properties":{"path":{"type":"string",)"
                              R"("description":"Where the file lies."},"lines":{"type":"array",)"
                              R"("items":{"type":"integer"}},"mode":{"type":"string","enum":)"
                              R"(["read","write"]}},"required":["path"]})"});
    for (int i = 0; i < 50; ++i) {
        const std::string id = "call_" + std::to_string(i);
        chat.messages.push_back({role::user, {text_part{prose(60, 4 * i)}}});
        if (with_tools) {
            chat.messages.push_back(
                {role::assistant,
                 {tool_call_part{id, "tool_" + std::to_string(i % 8),
                                 R"({"path":"src/main.cpp","lines":[1,2,3],"mode":"read"})"}}});
            chat.messages.push_back({role::tool, {tool_result_part{id, prose(120, 4 * i + 1)}}});
        } else {
            chat.messages.push_back({role::assistant, {text_part{prose(30, 4 * i + 2)}}});
            chat.messages.push_back({role::user, {text_part{prose(120, 4 * i + 1)}}});
        }
        chat.messages.push_back({role::assistant, {text_part{prose(80, 4 * i + 3)}}});
    }
    return chat;
}

void render(benchmark::State& run, const std::string& model, const std::string& family) {
    const auto rules = chat_template::load(model, family);
    if (!rules) return run.SkipWithError(rules.error().what.c_str());
    conversation chat = long_conversation(true);
    if (!rules->render(chat)) chat = long_conversation(false);
    std::size_t bytes = 0;
    for (auto _ : run) {
        const auto text = rules->render_marked(chat);
        if (!text) return run.SkipWithError(text.error().what.c_str());
        bytes = text->size();
    }
    run.counters["bytes"] = static_cast<double>(bytes);
    run.SetLabel(rules->family() + (chat.tools.empty() ? ", no tools" : ""));
}

/// Every call as the engine makes it of a prompt: with token ends, and all but 20 bytes content.
void tokenize(benchmark::State& run, const std::string& model, bool has_content) {
    const auto words = tokenizer::load(model);
    if (!words) return run.SkipWithError(words.error().what.c_str());
    const std::string text = prose(12'000, 1);
    std::vector<text_range> content;
    if (has_content) content.push_back({10, text.size() - 10});
    std::vector<std::uint32_t> ends;
    for (auto _ : run) benchmark::DoNotOptimize(words->encode(text, ends, content));
    run.SetBytesProcessed(static_cast<std::int64_t>(run.iterations() * text.size()));
}

void control_tokens(benchmark::State& run, const std::string& model) {
    const auto words = tokenizer::load(model);
    if (!words) return run.SkipWithError(words.error().what.c_str());
    const std::string text = prose(12'000, 1);
    const std::vector<text_range> content{{10, text.size() - 10}};
    for (auto _ : run) benchmark::DoNotOptimize(words->control_tokens(text, content));
    run.SetBytesProcessed(static_cast<std::int64_t>(run.iterations() * text.size()));
}

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (argc < 2) {
        std::fprintf(stderr, "usage: text_bench MODEL... [--benchmark_...]\n");
        return 2;
    }
    for (int i = 1; i < argc; ++i) {
        const std::string model = argv[i], name = model.substr(model.find_last_of('/') + 1);
        const auto add = [](const std::string& title, auto... call) {
            benchmark::RegisterBenchmark(title.c_str(), call...)->Unit(benchmark::kMillisecond);
        };
        add("render_by_family/" + name, render, model, std::string());
        add("render_by_interpreter/" + name, render, model, std::string(own_template_family));
        add("tokenize/" + name, tokenize, model, false);
        add("tokenize_content/" + name, tokenize, model, true);
        add("control_tokens/" + name, control_tokens, model);
    }
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
