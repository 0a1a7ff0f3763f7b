// SPDX-License-Identifier: Apache-2.0
// A GGUF's tokenizer and chat template, from metadata that nobody wrote: what is accepted encodes
// and decodes any text, with ids inside its vocabulary; what is refused says why. The input is a
// GGUF, or a short form of one, which a mutation leaves readable more often: see short_form().

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/template/chat_template.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "storage/files/gguf.hpp"
#include "storage/types/assert.hpp"
#include "tests/support/gguf_writer.hpp"

using namespace semantic;
using storage::gguf_value_type;
using storage::gguf_view;
using tests::gguf_writer;

namespace {

constexpr const char* pres[] = {"gpt-2",          "smollm",      "llama-bpe", "qwen2",
                                "qwen35",         "gpt-4o",      "tekken",    "deepseek-llm",
                                "deepseek-coder", "deepseek-v3", "odd"};

class bytes_left {
  public:
    explicit bytes_left(std::string_view bytes) : bytes_(bytes) {}
    unsigned byte() {
        if (bytes_.empty()) return 0;
        const auto first = static_cast<unsigned char>(bytes_.front());
        bytes_.remove_prefix(1);
        return first;
    }
    std::string line() {
        const std::size_t end = std::min(bytes_.find('\n'), bytes_.size());
        std::string out(bytes_.substr(0, end));
        bytes_.remove_prefix(std::min(end + 1, bytes_.size()));
        return out;
    }
    bool empty() const { return bytes_.empty(); }

  private:
    std::string_view bytes_;
};

template <class T>
std::string packed(gguf_value_type type, const std::vector<T>& values) {
    std::string out = gguf_writer::raw(static_cast<std::uint32_t>(type)) +
                      gguf_writer::raw(std::uint64_t{values.size()});
    for (const T value : values) out += gguf_writer::raw(value);
    return out;
}

/// Byte 0: flags; 1: the pre-tokenizer; 2, 3: first and last id. Then a token a line: its type and
/// its score in a byte each, its spelling. After an empty spelling of type 7, merges.
std::string short_form(bytes_left input) {
    const unsigned flags = input.byte(), pre = input.byte(), bos = input.byte(), eos = input.byte();
    const bool pieces = (flags & 1U) != 0;
    std::vector<std::string> tokens, merges;
    std::vector<std::int32_t> types;
    std::vector<float> scores;
    while (!input.empty()) {
        const unsigned type = input.byte() % 8;
        const unsigned score = input.byte();
        std::string spelling = input.line();
        if (type == 7 && spelling.empty()) break;
        tokens.push_back(std::move(spelling));
        types.push_back(static_cast<std::int32_t>(type));
        scores.push_back(-static_cast<float>(score));
    }
    while (!input.empty()) merges.push_back(input.line());
    gguf_writer file;
    file.pair("tokenizer.ggml.model", std::string_view(pieces ? "llama" : "gpt2"))
        .pair("tokenizer.ggml.pre", std::string_view(pres[pre % std::size(pres)]))
        .pair("tokenizer.ggml.tokens", tokens)
        .pair("tokenizer.ggml.token_type", gguf_value_type::array,
              packed(gguf_value_type::i32, types))
        .pair("tokenizer.ggml.merges", merges)
        .pair("tokenizer.ggml.bos_token_id", bos)
        .pair("tokenizer.ggml.eos_token_id", eos);
    if ((flags & 2U) != 0)
        file.pair("tokenizer.ggml.scores", gguf_value_type::array,
                  packed(gguf_value_type::f32, scores));
    const auto flag = [&](const char* key, unsigned bit) {
        if ((flags & bit) != 0)
            file.pair(key, gguf_value_type::boolean, std::string(1, (flags & 4U) != 0 ? 1 : 0));
    };
    flag("tokenizer.ggml.add_bos_token", 8U);
    flag("tokenizer.ggml.add_eos_token", 16U);
    flag("tokenizer.ggml.add_space_prefix", 32U);
    return file.bytes();
}

void use(const engine::tokenizer& words, std::string_view text) {
    for (const bool special : {false, true}) {
        std::size_t bytes = 0;
        const auto ids = words.encode(text, special);
        for (const storage::token_id id : ids) {
            ASSERT(id >= 0 && id < words.vocabulary());
            bytes += words.bytes(id).size() + (words.is_special(id) ? 1 : 0);
        }
        bytes += words.decode(ids).size() + words.decode(ids, true).size();
        const std::size_t most = words.bytes_per_token_max();
        ASSERT(most == 0 || ids.size() * most >= text.size());
        volatile std::size_t sink = bytes;
        (void)sink;
    }
    std::vector<std::uint32_t> ends;
    ASSERT(words.encode(text, ends).size() == ends.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t count) {
    const std::string_view input(reinterpret_cast<const char*>(data), count);
    const std::string file =
        input.starts_with("GGUF") ? std::string(input) : short_form(bytes_left(input));
    const auto view = gguf_view::parse(std::as_bytes(std::span(file.data(), file.size())));
    if (!view) return 0;
    const auto words = engine::tokenizer::from_gguf(*view);
    if (!words) {
        ASSERT(!words.error().what.empty());
        ASSERT(words.error().code == storage::errc::corrupt ||
               words.error().code == storage::errc::incompatible);
    } else {
        use(*words, input.substr(0, 400));
        use(*words, "Hello  world, it's 2024\n\t\xE6\x97\xA5\xE6\x9C\xAC <|end|> \xFF\xC3(");
    }
    const auto chat = engine::chat_template::from_gguf(*view);
    ASSERT(chat || !chat.error().what.empty());
    return 0;
}
