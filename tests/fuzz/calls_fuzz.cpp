// SPDX-License-Identifier: Apache-2.0
// Answers with tool calls that nobody meant, for one format a program: however they are cut they
// come apart the same, what was shown of a call is what it became, and where no call is found all
// of the text comes out. Odd first byte: what a model writes, damaged by the rest; even: the rest.

#include <boost/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/output/answer_pieces.hpp"
#include "engine/text/output/output_parser.hpp"
#include "storage/types/assert.hpp"
#include "tests/engine/text/written_calls.hpp"

using namespace semantic;
using namespace semantic::engine;

namespace {

constexpr call_format format = call_format::FUZZED_FORMAT;

/// Calls without marks, as some models write them.
void put_in_fences(std::string& text) {
    for (const auto& [mark, fence] :
         {std::pair{"</tool_call>", "```\n"}, {"<tool_call>", "```json\n"}})
        for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark))
            text.replace(at, std::string_view(mark).size(), fence);
}

std::string text_of(const std::uint8_t* data, std::size_t count) {
    if (count == 0) return {};
    const std::string_view rest(reinterpret_cast<const char*>(data) + 1, count - 1);
    if (data[0] % 2 == 0) return std::string(rest);
    unsigned seed = data[0];
    if (!rest.empty()) seed += 256u * static_cast<unsigned char>(rest[0]);
    std::string text = written_calls::writer(format, seed).write().written;
    if (format == call_format::hermes && data[0] % 4 == 1) put_in_fences(text);
    for (std::size_t i = 1; i + 3 < rest.size() && !text.empty(); i += 4) {
        const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(rest[i + k]); };
        const std::size_t at = (byte(0) * 256u + byte(1)) % text.size();
        if (byte(2) % 3 == 0) text[at] = static_cast<char>(byte(3));
        if (byte(2) % 3 == 1) text.erase(at, byte(3) % 16u);
        if (byte(2) % 3 == 2) text.insert(at, text.substr(byte(3) % text.size(), 12));
    }
    return text;
}

std::unique_ptr<output_parser> parser() {
    static const offered_tools tools{written_calls::tools()};
    return make_output_parser({.calls = format}, tools, {.shows_progress = true});
}

std::vector<answer_piece> all_of(std::string_view text, std::size_t step, bool was_cut) {
    const auto reading = parser();
    std::vector<answer_piece> out;
    for (std::size_t at = 0; at < text.size(); at += step)
        append_pieces(out, reading->push(text.substr(at, step)));
    append_pieces(out, was_cut ? reading->cut_off() : reading->finish());
    return out;
}

/// Without what was taken back, which depends on where the text was cut.
std::vector<answer_piece> settled(const std::vector<answer_piece>& all) {
    std::vector<answer_piece> out;
    std::string arguments;
    bool is_open = false;
    for (const answer_piece& piece : all) {
        if (std::holds_alternative<answer_call_begun>(piece)) {
            ASSERT(!is_open);
            is_open = true;
            arguments.clear();
        } else if (const auto* part = std::get_if<answer_call_arguments>(&piece)) {
            ASSERT(is_open && !part->text.empty());
            arguments += part->text;
        } else if (std::holds_alternative<answer_call_dropped>(piece)) {
            ASSERT(is_open);
            is_open = false;
        } else {
            const auto* call = std::get_if<answer_call>(&piece);
            ASSERT(!is_open || call != nullptr);
            if (is_open)
                ASSERT(boost::json::parse(arguments) == boost::json::parse(call->arguments_json));
            if (call != nullptr) ASSERT(boost::json::parse(call->arguments_json).is_object());
            is_open = false;
            append_pieces(out, {piece});
        }
    }
    ASSERT(!is_open);
    return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t count) {
    const std::string text = text_of(data, count);
    const auto whole = settled(all_of(text, text.size() + 1, false));
    ASSERT(settled(all_of(text, 1, false)) == whole);
    ASSERT(settled(all_of(text, 1 + text.size() % 7, false)) == whole);
    ASSERT(settled(all_of(text, 1, true)) == settled(all_of(text, text.size() + 1, true)));
    const bool has_marks_of_its_own =
        format == call_format::llama3 || format == call_format::harmony;
    const auto is_text = [](const answer_piece& piece) {
        return std::holds_alternative<answer_text>(piece);
    };
    if (has_marks_of_its_own || !std::all_of(whole.begin(), whole.end(), is_text)) return 0;
    std::string shown;
    for (const answer_piece& piece : whole) shown += std::get<answer_text>(piece).text;
    ASSERT(shown == text);
    return 0;
}
