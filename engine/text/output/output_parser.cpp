#include "engine/text/output/output_parser.hpp"

#include <array>

#include "engine/text/output/calls/call_reader.hpp"
#include "engine/text/output/marked_parser.hpp"

namespace semantic::engine {

namespace {

using mark = std::string_view;

constexpr std::array<mark, 1> hermes_marks{"<tool_call>"};
constexpr std::array<mark, 2> qwen_xml_marks{"<tool_call>", "<function="};
constexpr std::array<mark, 1> mistral_marks{"[TOOL_CALLS]"};
constexpr std::array<mark, 2> deepseek_marks{"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"};
constexpr std::array<mark, 1> function_gemma_marks{"<start_function_call>"};
constexpr std::array<mark, 1> gemma4_marks{"<|tool_call>"};
constexpr std::array<mark, 1> tool_code_marks{"```tool_code\n"};

const call_openers* openers_of(call_format format) {
    static const call_openers hermes{hermes_marks, true, true, read_hermes_call};
    static const call_openers qwen_xml{qwen_xml_marks, true, true, read_qwen_xml_call};
    static const call_openers glm{hermes_marks, true, false, read_glm_call};
    static const call_openers mistral{mistral_marks, false, false, read_mistral_call};
    static const call_openers deepseek{deepseek_marks, true, false, read_deepseek_call};
    static const call_openers function_gemma{function_gemma_marks, true, false,
                                             read_function_gemma_call};
    static const call_openers gemma4{gemma4_marks, true, false, read_gemma4_call};
    static const call_openers tool_code{tool_code_marks, true, false, read_tool_code_call};
    switch (format) {
        case call_format::hermes:
            return &hermes;
        case call_format::qwen_xml:
            return &qwen_xml;
        case call_format::glm:
            return &glm;
        case call_format::mistral:
            return &mistral;
        case call_format::deepseek:
            return &deepseek;
        case call_format::function_gemma:
            return &function_gemma;
        case call_format::gemma4:
            return &gemma4;
        case call_format::tool_code:
            return &tool_code;
        case call_format::none:
        case call_format::llama3:
        case call_format::harmony:
            break;
    }
    return nullptr;
}

std::unique_ptr<output_parser> without_thinking(const answer_format& format,
                                                const offered_tools& tools, bool shows_progress) {
    if (tools.none()) return make_plain_parser(format.drops_blank);
    if (format.calls == call_format::llama3) return make_llama3_parser(tools, shows_progress);
    const call_openers* openers = openers_of(format.calls);
    if (openers == nullptr) return make_plain_parser(format.drops_blank);
    return make_marked_parser(*openers, tools, shows_progress);
}

}  // namespace

std::unique_ptr<output_parser> make_output_parser(const answer_format& format,
                                                  const offered_tools& tools,
                                                  const parser_options& options) {
    if (format.calls == call_format::harmony)
        return make_harmony_parser(tools, options.shows_progress);
    auto rest = without_thinking(format, tools, options.shows_progress);
    if (format.thinking == thinking_format::none) return rest;
    const bool is_open = options.thinks ? format.opened.when_on : format.opened.when_off;
    return make_thinking_parser(std::move(rest), format.thinking, is_open);
}

}  // namespace semantic::engine
