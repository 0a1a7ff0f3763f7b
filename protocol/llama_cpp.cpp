// SPDX-License-Identifier: Apache-2.0
#include "protocol/llama_cpp.hpp"

#include <boost/json.hpp>

#include "protocol/wire/json.hpp"

namespace semantic::protocol {

namespace json = boost::json;

std::string props_body(const model_card& loaded, int slots, std::string_view version) {
    const engine::template_abilities& can = loaded.chat_abilities;
    const bool has_calls = can.tools && loaded.call_format != "none";
    json::object caps{
        {"supports_string_content", true},
        {"supports_typed_content", false},
        {"supports_system_role", can.system_text},
        {"supports_tools", has_calls},
        {"supports_tool_calls", has_calls && can.tool_calls},
        {"supports_parallel_tool_calls", has_calls && can.tool_calls && can.parallel_tool_calls},
        {"supports_object_arguments", has_calls && can.tool_calls},
        {"supports_preserve_reasoning", loaded.thinks}};
    json::object settings{{"n_ctx", loaded.max_input_tokens}, {"params", json::object{}}};
    return to_text(json::object{{"default_generation_settings", std::move(settings)},
                                {"total_slots", slots},
                                {"model_alias", loaded.id},
                                {"chat_template_caps", std::move(caps)},
                                {"modalities", json::object{{"vision", false}, {"audio", false}}},
                                {"build_info", "semantic-" + std::string(version)}});
}

std::string slots_body(const model_card& loaded, int slots, int running) {
    json::array all;
    for (int i = 0; i < slots; ++i)
        // Requests have no slot of their own here, so the first ones count as busy.
        all.push_back(json::object{{"id", i},
                                   {"n_ctx", loaded.max_input_tokens},
                                   {"speculative", false},
                                   {"is_processing", i < running}});
    return to_text(std::move(all));
}

}  // namespace semantic::protocol
