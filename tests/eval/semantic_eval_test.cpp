// SPDX-License-Identifier: Apache-2.0
// The offline program from outside: what it prints, what it writes, how it refuses.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "storage/files/safetensors.hpp"
#include "tests/eval/eval_program.hpp"

namespace semantic {
namespace {

const std::string golden = std::string(SEMANTIC_SOURCE_DIR) + "/tests/golden";

TEST_F(semantic_eval, text_becomes_ids_and_the_ids_become_the_text_again) {
    std::string text = "My dog is called Biscuit.\nÆrøskøbing, naïve café <|im_end|> 12345";
    outcome ids = run("tokenize", text);
    EXPECT_EQ(ids.status, 0) << ids.err;
    EXPECT_EQ(ids.out.front(), '[');
    outcome back = run("detokenize", ids.out);
    EXPECT_EQ(back.out, text);
}

TEST_F(semantic_eval, a_conversation_is_rendered_as_the_template_does) {
    outcome prompt = run(
        "render", R"({"system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}]})");
    EXPECT_EQ(prompt.status, 0) << prompt.err;
    EXPECT_EQ(prompt.out,
              "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
              "<|im_start|>assistant\n");
}

TEST_F(semantic_eval, words_need_a_folder_with_a_tokenizer_and_no_weights) {
    const std::filesystem::path model =
        std::filesystem::path(SEMANTIC_SOURCE_DIR) / "etc/models/semantic-tiny";
    const std::string folder = path("words"), named = " --model " + folder;
    std::filesystem::create_directory(folder);
    EXPECT_EQ(run("tokenize" + named, "My dog").status, 1) << "nothing is in it";
    std::filesystem::copy(model / "tokenizer.json", folder);
    const outcome ids = run("tokenize" + named, "My dog");
    EXPECT_EQ(ids.out, run("tokenize", "My dog").out) << ids.err;
    EXPECT_EQ(run("detokenize" + named, ids.out).out, "My dog");
    const std::string chat = R"({"messages": [{"role": "user", "content": "Hi"}]})";
    EXPECT_EQ(run("render --chat-template qwen2" + named, chat).status, 0);
    std::filesystem::copy(model / "tokenizer_config.json", folder);
    std::filesystem::copy(model / "config.json", folder);
    const outcome prompt = run("render" + named, chat);
    EXPECT_EQ(prompt.out, run("render", chat).out) << prompt.err;
    const outcome greedy = run("greedy --text-file /dev/null" + named, "");
    EXPECT_EQ(greedy.status, 1) << "which needs weights";
}

TEST_F(semantic_eval, a_template_named_by_the_user_goes_before_the_models) {
    const std::string chat =
        R"({"date": "2026-01-05", "messages": [{"role": "system", "content": ""},)"
        R"({"role": "user", "content": [{"type": "text", "text": "Hi"}]}]})";
    EXPECT_EQ(run("render --chat-template llama3", chat).out,
              "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge "
              "Date: December 2023\nToday Date: 05 Jan 2026\n\n<|eot_id|><|start_header_id|>user"
              "<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");
    EXPECT_EQ(run("render --chat-template qwen2", chat).out,
              "<|im_start|>system\n<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
              "<|im_start|>assistant\n");
    outcome refused = run("render --chat-template vicuna", chat);
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.err.find("--chat-template"), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("gemma3"), std::string::npos) << refused.err;
}

TEST_F(semantic_eval, a_pre_tokenizer_named_by_the_user_goes_before_the_files) {
    const std::string model = " --model " + golden + "/tokenizers/gguf/qwen2.gguf";
    const outcome own = run("tokenize --special" + model, "My dog");
    EXPECT_EQ(own.status, 0) << own.err;
    EXPECT_EQ(run("detokenize" + model, own.out).out, "My dog");
    // The tokenizers of Llama 3 put a first token in front.
    const outcome named = run("tokenize --special --tokenizer-pre llama-bpe" + model, "My dog");
    EXPECT_EQ(named.status, 0) << named.err;
    EXPECT_EQ(named.out, "[0, " + own.out.substr(1));
    const outcome refused = run("tokenize --tokenizer-pre vicuna" + model, "My dog");
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.err.find("--tokenizer-pre"), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("gpt-2"), std::string::npos) << refused.err;
}

TEST_F(semantic_eval, logits_are_the_same_bytes_whatever_the_chunks_and_threads) {
    std::string ids = "[";
    for (int i = 0; i < 300; ++i) ids += (i == 0 ? "" : ",") + std::to_string((i * 37 + 11) % 440);
    write(path("ids.json"), ids + "]");
    std::string model = golden + "/models/llama31";
    std::string first;
    for (const char* how : {"--chunk 4096 --threads 2", "--chunk 1 --threads 1",
                            "--chunk 7 --threads 2", "--chunk 256 --threads 1"}) {
        outcome done = run("logits --model " + model + " --tokens " + path("ids.json") +
                           " --positions 0,17,299 --kv-bits 4 " + how + " --out " + path("x"));
        ASSERT_EQ(done.status, 0) << done.err;
        std::string bytes = read(path("x"));
        if (first.empty()) first = bytes;
        EXPECT_EQ(bytes, first) << how;
    }
    auto file = storage::safetensors_file::open(path("x"));
    ASSERT_TRUE(file);
    EXPECT_EQ(file->view().tensors.at("positions").shape, (std::vector<std::int64_t>{3}));
    EXPECT_EQ(file->view().tensors.at("logits").shape, (std::vector<std::int64_t>{3, 448}));
}

TEST_F(semantic_eval, compensated_logits_are_nearer_to_a_float_models) {
    const std::string model = golden + "/models/mlx-8bit";
    const auto reference = storage::safetensors_file::open(model + "/expected.safetensors");
    ASSERT_TRUE(reference);
    const auto numbers = [](const auto& file, const char* name, auto kind) {
        const auto& bytes = file->view().tensors.at(name).bytes;
        const auto* first = reinterpret_cast<const decltype(kind)*>(bytes.data());
        return std::vector<decltype(kind)>(first, first + bytes.size() / sizeof(kind));
    };
    const auto list = [](const std::vector<std::int64_t>& all) {
        std::string text;
        for (const std::int64_t one : all) text += (text.empty() ? "" : ",") + std::to_string(one);
        return text;
    };
    write(path("ids.json"), "[" + list(numbers(reference, "input_ids", std::int64_t{})) + "]");
    const auto expected = numbers(reference, "logits", float{});
    const auto squares_off = [&](const std::string& how) {
        const outcome done =
            run("logits --model " + model + " --tokens " + path("ids.json") + " --positions " +
                list(numbers(reference, "positions", std::int64_t{})) + " --kv-bits 16 --out " +
                path("x") + how);
        EXPECT_EQ(done.status, 0) << done.err;
        const auto logits = numbers(storage::safetensors_file::open(path("x")), "logits", float{});
        double sum = 0;
        for (std::size_t i = 0; i < expected.size(); ++i)
            sum += (logits[i] - expected[i]) * (logits[i] - expected[i]);
        return sum;
    };
    EXPECT_LT(squares_off(" --compensated"), 0.01 * squares_off(""));
}

TEST_F(semantic_eval, greedy_continues_with_as_many_ids_as_asked_for) {
    write(path("ids.json"), "[1, 45, 87, 12]");
    outcome done = run("greedy --model " + golden + "/models/llama31 --tokens " + path("ids.json") +
                       " --max-new 5 --kv-bits 16");
    ASSERT_EQ(done.status, 0) << done.err;
    EXPECT_EQ(std::count(done.out.begin(), done.out.end(), ','), 4) << done.out;
}

// A sample of the whole set, which the README's table was made with.
TEST_F(semantic_eval, the_embedded_model_recalls_what_it_was_told_at_every_kv_width) {
    outcome table = run("recall --cases " + golden + "/recall_cases.jsonl --kv-bits 16,8,4");
    ASSERT_EQ(table.status, 0) << table.err;
    std::size_t all = table.out.find(" all ");
    ASSERT_NE(all, std::string::npos) << table.out;
    int cases = 0;
    double bits16 = 0, bits8 = 0, bits4 = 0;
    ASSERT_EQ(std::sscanf(table.out.c_str() + all, " all %d %lf %lf %lf", &cases, &bits16, &bits8,
                          &bits4),
              4)
        << table.out;
    EXPECT_EQ(cases, 24);
    // One case of 24 is 4.2 points; the model card's worst cell is 96.7 of 60.
    EXPECT_GE(bits16, 95.0) << table.out;
    EXPECT_GE(bits8, 95.0) << table.out;
    EXPECT_GE(bits4, 95.0) << table.out;
}

TEST_F(semantic_eval, mistakes_are_one_line_and_exit_1) {
    write(path("bad.json"), "[1, 2, 99999]");
    struct row {
        std::string arguments, named;
    };
    for (const row& r :
         {row{"tokenize --model /nowhere", "/nowhere"}, row{"tokenize --colour red", "colour"},
          row{"greedy --model " + golden + "/models/llama31 --kv-bits 4 --max-new 3 --tokens " +
                  path("bad.json"),
              "99999"},
          row{"logits --model " + golden + "/models/llama31 --tokens " + path("none.json") +
                  " --positions all --out " + path("x"),
              "none.json"},
          row{"greedy --model " + golden + "/models/llama31 --kv-bits 5 --max-new 1 --tokens " +
                  path("bad.json"),
              "5"}}) {
        outcome done = run(r.arguments);
        EXPECT_EQ(done.status, 1) << r.arguments;
        EXPECT_NE(done.err.find(r.named), std::string::npos) << r.arguments << ": " << done.err;
        EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
    }
    outcome unknown = run("abacus");
    EXPECT_EQ(unknown.status, 1);
    EXPECT_EQ(unknown.err.find("semantic-eval: unknown command \"abacus\"\nusage: "), 0u)
        << unknown.err;
    outcome not_ids = run("detokenize", "hello");
    EXPECT_EQ(not_ids.status, 1);
    EXPECT_FALSE(not_ids.err.empty());
}

TEST_F(semantic_eval, capacity_says_what_k_and_v_cost_and_what_their_frames_take) {
    const outcome is = run("capacity --kv-bits 16,4 --model " SEMANTIC_SOURCE_DIR
                           "/tests/golden/configs/gemma-4-26b-a4b");
    EXPECT_EQ(is.status, 0);
    EXPECT_NE(is.out.find("| KV | bytes per token | past the windows | in frames | past the "
                          "windows | agents of 4096 | of 16384 |"),
              std::string::npos)
        << is.out;
    EXPECT_NE(is.out.find("| 16 | 225280 | 20480 | 229376 | 24576 | 23 | 12 |"), std::string::npos)
        << is.out;
    EXPECT_NE(is.out.find("| 4 | 63360 | 5760 | 64512 | 6912 | 84 | 45 |"), std::string::npos)
        << is.out;
}

TEST_F(semantic_eval, help_lists_the_commands_and_each_has_its_own) {
    outcome help = run("--help");
    EXPECT_EQ(help.status, 0);
    for (const char* command : {"tokenize", "detokenize", "render", "logits", "greedy", "recall",
                                "perplexity", "exactness", "inspect", "capacity"}) {
        EXPECT_NE(help.out.find(command), std::string::npos) << command;
        EXPECT_EQ(run(std::string(command) + " --help").status, 0) << command;
    }
}

}  // namespace
}  // namespace semantic
