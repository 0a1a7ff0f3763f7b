// SPDX-License-Identifier: Apache-2.0
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
constexpr std::array<mark, 1> olmo_marks{"<function_calls>"};
constexpr std::array<mark, 1> lfm2_marks{"<|tool_call_start|>"};
// Where a section contains several calls, the mark of the section and that of a call both count.
constexpr std::array<mark, 2> kimi_marks{"<|tool_calls_section_begin|>", "<|tool_call_begin|>"};
constexpr std::array<mark, 2> seed_marks{"<seed:tool_call>", "<function="};
constexpr std::array<mark, 2> minimax_marks{"<minimax:tool_call>", "<invoke name=\""};
constexpr std::array<mark, 3> dsml_marks{"<｜DSML｜function_calls>", "<｜DSML｜tool_calls>",
                                         "<｜DSML｜invoke name=\""};
constexpr std::array<mark, 1> minicpm_marks{"<function name=\""};
constexpr std::array<mark, 1> granite_marks{"<|tool_call|>"};
constexpr std::array<mark, 1> nemotron_marks{"<TOOLCALL>"};
constexpr std::array<mark, 1> listed_marks{"<tool_calls>"};
constexpr std::array<mark, 1> gigachat_marks{"<|function_call|>"};

struct marked_format {
    call_format format;
    call_openers openers;
};

/// How a format's calls begin; null for formats that are not text with marked calls.
const call_openers* openers_of(call_format format) {
    // Of each: its marks, line breaks in front of them, whether it takes bare calls, and its
    // reader.
    static const std::array table{
        marked_format{call_format::hermes, {hermes_marks, 1, true, read_hermes_call}},
        marked_format{call_format::qwen_xml, {qwen_xml_marks, 1, true, read_qwen_xml_call}},
        marked_format{call_format::glm, {hermes_marks, 1, false, read_glm_call}},
        marked_format{call_format::mistral, {mistral_marks, 0, false, read_mistral_call}},
        marked_format{call_format::deepseek, {deepseek_marks, 1, false, read_deepseek_call}},
        marked_format{call_format::function_gemma,
                      {function_gemma_marks, 1, false, read_function_gemma_call}},
        marked_format{call_format::gemma4, {gemma4_marks, 1, false, read_gemma4_call}},
        marked_format{call_format::tool_code, {tool_code_marks, 1, false, read_tool_code_call}},
        marked_format{call_format::olmo, {olmo_marks, 1, false, read_olmo_call}},
        marked_format{call_format::lfm2, {lfm2_marks, 0, false, read_lfm2_call}},
        marked_format{call_format::kimi, {kimi_marks, 0, false, read_kimi_call}},
        marked_format{call_format::seed, {seed_marks, 1, false, read_seed_call}},
        marked_format{call_format::minimax, {minimax_marks, 1, false, read_minimax_call}},
        marked_format{call_format::dsml, {dsml_marks, 2, false, read_dsml_call}},
        marked_format{call_format::minicpm, {minicpm_marks, 1, false, read_minicpm_call}},
        marked_format{call_format::granite, {granite_marks, 0, false, read_granite_calls}},
        marked_format{call_format::nemotron, {nemotron_marks, 1, false, read_nemotron_calls}},
        marked_format{call_format::tool_calls, {listed_marks, 1, false, read_listed_calls}},
        marked_format{call_format::gigachat, {gigachat_marks, 1, false, read_hermes_call}},
    };
    for (const marked_format& row : table)
        if (row.format == format) return &row.openers;
    return nullptr;
}

/// Makes the parser of an answer without its reasoning.
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
    // Its parser reads reasoning and answers without tools, too.
    if (format.calls == call_format::harmony)
        return make_harmony_parser(tools, options.shows_progress);
    auto rest = without_thinking(format, tools, options.shows_progress);
    if (format.thinking == thinking_format::none) return rest;
    const bool is_open = options.thinks ? format.opened.when_on : format.opened.when_off;
    return make_thinking_parser(std::move(rest), format.thinking, is_open);
}

}  // namespace semantic::engine
