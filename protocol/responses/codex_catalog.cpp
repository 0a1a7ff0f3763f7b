// SPDX-License-Identifier: Apache-2.0
#include "protocol/responses/codex_catalog.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

namespace semantic::protocol::responses {

namespace json = boost::json;

namespace {

/// The text that Codex puts in front of a conversation; it has no other one for a model of this
/// catalog.
constexpr std::string_view instructions =
    "You are a coding agent in a terminal, and you share a workspace with the user. Work on what "
    "the user asks until it is done, then say in a few sentences what you did.\n\n"
    "- Look before you change: list and read files with the shell. Search with `rg` where it is "
    "there.\n"
    "- Change only what the task needs, in the style of the code around it. Mend the cause of a "
    "fault, not its symptom.\n"
    "- Never undo changes that you did not make, and never commit unless you are asked to.\n"
    "- Run the tests or the program where there are any, and say so where you could not.\n"
    "- When a command fails, read its output before the next one.\n"
    "- If there is a tool for plans, use it for work of several steps and keep it up to date.\n"
    "- Follow AGENTS.md files of the folders that you work in.\n"
    "- Answer briefly, and name files with their paths.";

/// The most of a tool's output, so that one does not fill the context.
constexpr int output_tokens_max = 10'000;

/// The efforts that a client may choose; none where the model knows no effort.
json::array reasoning_levels(const model_card& model) {
    struct level {
        const char* effort;
        const char* description;
    };
    json::array levels;
    if (!model.has_effort) return levels;
    for (const level& each : {level{"low", "Answers soonest"}, level{"medium", "In between"},
                              level{"high", "Thinks longest"}})
        levels.push_back(json::object{{"effort", each.effort}, {"description", each.description}});
    return levels;
}

}  // namespace

json::object catalog_entry(const model_card& model, int priority) {
    // In a small context an eighth: a few outputs must leave room for the conversation.
    const int output_tokens = std::clamp(model.max_input_tokens / 8, 1, output_tokens_max);
    json::object entry{
        {"slug", model.id},
        {"name", model.id},
        {"model", model.id},
        {"display_name", model.display_name.empty() ? model.id : model.display_name},
        {"description", "A model on a Semantic server"},
        {"supported_reasoning_levels", reasoning_levels(model)},
        {"shell_type", "shell_command"},
        {"visibility", "list"},
        {"supported_in_api", true},
        {"priority", priority},
        {"upgrade", nullptr},
        {"base_instructions", instructions},
        {"supports_reasoning_summaries", false},
        {"supports_reasoning_summary_parameter", false},
        {"support_verbosity", false},
        {"default_verbosity", nullptr},
        {"apply_patch_tool_type", nullptr},
        {"truncation_policy", json::object{{"mode", "tokens"}, {"limit", output_tokens}}},
        {"supports_parallel_tool_calls", model.chat_abilities.parallel_tool_calls},
        {"supports_search_tool", false},
        {"context_window", model.max_input_tokens},
        {"max_context_window", model.max_input_tokens},
        // Codex's own default.
        {"effective_context_window_percent", 95},
        {"experimental_supported_tools", json::array()},
        {"input_modalities", json::array{"text"}}};
    if (model.has_effort) entry["default_reasoning_level"] = "medium";
    return entry;
}

}  // namespace semantic::protocol::responses
