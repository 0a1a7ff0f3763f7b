// SPDX-License-Identifier: Apache-2.0
#include "engine/text/gguf/gguf_pipelines.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <span>

namespace semantic::engine {

namespace {

// Patterns are those of the models' tokenizer.json as their makers published them.

// meta-llama/Llama-3.1-8B-Instruct
constexpr std::string_view llama3_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Qwen/Qwen2.5-7B-Instruct
constexpr std::string_view qwen2_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Qwen/Qwen3.5: marks belong to words
constexpr std::string_view qwen35_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
    R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// ByteDance-Seed/Seed-OSS-36B-Instruct
constexpr std::string_view seed_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
// openai/gpt-oss-20b
constexpr std::string_view o200k_words =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
// mistralai/Mistral-Nemo-Instruct-2407
constexpr std::string_view tekken_words =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// deepseek-ai/deepseek-llm-7b-base and DeepSeek-V2: letters that have a case, then punctuation of
// ASCII, full width and typography
constexpr std::string_view deepseek_letters =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF})"
    R"(\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F})"
    R"(\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481})"
    R"(\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD})"
    R"(\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77})"
    R"(\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45})"
    R"(\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D})"
    R"(\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"
    R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})"
    R"(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"
    R"(\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})"
    R"(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06})"
    R"(\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F})"
    R"(\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";
constexpr std::string_view deepseek_punctuation =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
constexpr std::string_view deepseek_han =
    R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
// deepseek-ai/DeepSeek-V3
constexpr std::string_view deepseek3_han =
    R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr std::string_view deepseek3_words =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view line_end = R"([\r\n])";
constexpr std::string_view digit = R"(\p{N})";
constexpr std::string_view three_digits = R"(\p{N}{1,3})";

using names = std::vector<std::string_view>;
// See gguf_pipeline::plain.
const names qwen_plain = {"<|fim_*",      "<|repo_name|>",   "<|file_sep|>",     "<tool_call>",
                          "</tool_call>", "<tool_response>", "</tool_response>", "<think>",
                          "</think>",     "<｜User｜>",      "<｜Assistant｜>"};
const names llama3_plain = {"<think>", "</think>", "<｜User｜>", "<｜Assistant｜>"};
const names deepseek_plain = {"<pad>",           "<|User|>",         "<|Assistant|>", "<｜User｜>",
                              "<｜Assistant｜>", "<｜completion｜>", "<｜fim▁*",      "<｜tool▁*"};

/// A row is what the tokenizer.json of the models that use the name says; its fields: the header.
std::span<const gguf_pipeline> pipelines() {
    static const std::vector<gguf_pipeline> rows = {
        {.names = {"gpt-2", "phi-2"}, .splits = {}, .splits_words = true},
        {.names = {"smollm", "starcoder", "refact"}, .splits = {digit}, .splits_words = true},
        {.names = {"olmo"}, .splits = {}, .splits_words = true, .composes = true},
        {.names = {"llama-bpe", "llama3", "llama-v3"},
         .splits = {llama3_words},
         .ignore_merges = true,
         .adds_bos = true,
         .plain = llama3_plain},
        {.names = {"smaug-bpe"},
         .splits = {llama3_words},
         .ignore_merges = true,
         .plain = llama3_plain},
        {.names = {"qwen2", "deepseek-r1-qwen"},
         .splits = {qwen2_words},
         .composes = true,
         .plain = qwen_plain},
        {.names = {"qwen35"}, .splits = {qwen35_words}, .composes = true, .plain = qwen_plain},
        {.names = {"dbrx"}, .splits = {llama3_words}},
        {.names = {"lfm2"}, .splits = {llama3_words}, .adds_bos = true},
        {.names = {"glm4", "glm5", "chatglm-bpe"}, .splits = {llama3_words}, .ignore_merges = true},
        {.names = {"seed-coder"}, .splits = {seed_words}},
        {.names = {"gpt-4o", "llama4"}, .splits = {o200k_words}},
        // "pixtral" is what converters write for Nemotron, which has Tekken's splits.
        {.names = {"tekken", "pixtral"},
         .splits = {tekken_words},
         .ignore_merges = true,
         .adds_bos = true},
        {.names = {"deepseek-llm"},
         .splits = {line_end, deepseek_letters, deepseek_punctuation, R"(\s+$)", deepseek_han,
                    digit},
         .plain = deepseek_plain},
        {.names = {"deepseek-coder"},
         .splits = {line_end, R"(\s?\p{L}+)", R"(\s?\p{P}+)", deepseek_han, digit},
         .plain = deepseek_plain},
        {.names = {"deepseek-v3"},
         .splits = {three_digits, deepseek3_han, deepseek3_words},
         .plain = deepseek_plain},
    };
    return rows;
}

}  // namespace

boost::json::value gguf_pipeline::normalizer() const {
    if (!composes) return nullptr;
    return {{"type", "NFC"}};
}

/// The pre-tokenizer as a tokenizer.json would have it.
boost::json::value gguf_pipeline::pre_tokenizer() const {
    boost::json::array parts;
    for (const std::string_view pattern : splits) {
        parts.push_back({{"type", "Split"},
                         {"pattern", {{"Regex", pattern}}},
                         {"behavior", "Isolated"},
                         {"invert", false}});
    }
    parts.push_back(
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", splits_words}});
    return {{"type", "Sequence"}, {"pretokenizers", std::move(parts)}};
}

bool gguf_pipeline::is_plain(std::string_view token) const {
    return std::any_of(plain.begin(), plain.end(), [&](std::string_view name) {
        return name.ends_with('*') ? token.starts_with(name.substr(0, name.size() - 1))
                                   : token == name;
    });
}

const gguf_pipeline* find_gguf_pipeline(std::string_view pre) {
    for (const gguf_pipeline& row : pipelines()) {
        if (std::find(row.names.begin(), row.names.end(), pre) != row.names.end()) return &row;
    }
    return nullptr;
}

std::string gguf_pipeline_names() {
    std::string names;
    for (const gguf_pipeline& row : pipelines()) {
        for (const std::string_view name : row.names) {
            if (!names.empty()) names += ", ";
            names += name;
        }
    }
    return names;
}

}  // namespace semantic::engine
