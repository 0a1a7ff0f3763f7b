// SPDX-License-Identifier: Apache-2.0
#include "protocol/openai/common_fields.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "protocol/answer_form.hpp"
#include "protocol/openai/text_tools.hpp"
#include "protocol/tools.hpp"
#include "protocol/wire/fields.hpp"

namespace semantic::protocol::openai {

namespace {

engine::tool_definition parse_tool(const json_cursor& tool, const request_limits& limits) {
    return parse_function(tool.at("function"), "parameters", R"({"type":"object","properties":{}})",
                          limits);
}

/// Returns: the name in {"type": "function", "function": {"name": ...}}, or the same with "custom":
/// the tool that must be called.
std::string parse_named_tool(const json_cursor& choice) {
    const std::string type = string_at(choice, "type");
    if (type != "function" && type != "custom")
        choice.at("type").fail(
            errc::unsupported,
            R"(only "function" and "custom" are supported, found )" + quoted(type));
    const json_cursor named = choice.at(type);
    named.as_object();
    return string_at(named, "name");
}

}  // namespace

engine::thinking_params parse_effort(const json_cursor& field) {
    engine::thinking_params thinking;
    const std::string_view text = field.as_string();
    if (text == "none") {
        // The effort is for templates that cannot turn reasoning off.
        thinking.enabled = false;
        thinking.effort = "low";
    } else if (text == "minimal" || text == "low") {
        thinking.effort = "low";
    } else if (text == "medium") {
        thinking.effort = "medium";
    } else if (text == "high" || text == "xhigh" || text == "max") {
        // Templates know three efforts, so what is above the third becomes that.
        thinking.effort = "high";
    } else {
        field.fail(
            errc::bad_value,
            R"(must be "none", "minimal", "low", "medium", "high" or "xhigh", is )" + quoted(text));
    }
    return thinking;
}

std::vector<engine::tool_definition> parse_function_tools(const json_cursor& root,
                                                          const request_limits& limits,
                                                          left_out_names& left_out,
                                                          std::set<std::string>* text_tools) {
    const auto parse = [&](const json_cursor& item) -> std::optional<engine::tool_definition> {
        const std::string type = string_at(item, "type");
        if (type == "function") return parse_tool(item, limits);
        if (type == "custom" && text_tools != nullptr) {
            engine::tool_definition tool = parse_text_tool(item.at("custom"), limits);
            text_tools->insert(tool.name);
            return tool;
        }
        left_out.add(type);
        return std::nullopt;
    };
    const auto name_of = [](const json_cursor& item) {
        return item.at(string_at(item, "type")).at("name");
    };
    return parse_tools(root, limits, {parse, name_of});
}

void parse_tool_choice(const json_cursor& root, answer_request& request) {
    const bool several = flag_at(root, "parallel_tool_calls", true);
    auto choice = root.find("tool_choice");
    if (!choice) return set_tool_use(request, tool_use::when_wanted, several, std::nullopt, root);
    if (choice->value().is_object()) {
        const std::string name = parse_named_tool(*choice);
        // One tool that must be called is called once, as the vendor does.
        return set_tool_use(request, tool_use::always, false, name, *choice);
    }
    const std::string_view text = choice->as_string();
    tool_use use = tool_use::when_wanted;
    if (text == "none")
        use = tool_use::never;
    else if (text == "required")
        use = tool_use::always;
    else if (text != "auto")
        choice->fail(errc::bad_value,
                     R"(must be "none", "auto", "required" or an object, is )" + quoted(text));
    set_tool_use(request, use, several, std::nullopt, *choice);
}

std::vector<std::string> parse_texts(const json_cursor& content, std::size_t parts_max,
                                     const history_position& position,
                                     const part_reader& parse_part) {
    if (content.value().is_string()) return {std::string(content.as_string())};
    if (!content.value().is_array())
        content.fail(errc::bad_value,
                     std::string("expected a string or a list of text parts, found ") +
                         kind_name(content.value()));
    std::vector<std::string> texts;
    std::size_t unknown = std::string::npos;  // the first one
    const std::size_t count = parse_count(content, parts_max);
    for (std::size_t i = 0; i < count; ++i) {
        const json_cursor part = content.item(i);
        if (auto text = parse_part(part)) {
            texts.push_back(*std::move(text));
            continue;
        }
        position.left_out.add(string_at(part, "type"));
        unknown = std::min(unknown, i);
    }
    // Only a message that would be empty is refused: the model could answer nothing to it.
    if (position.is_newest && texts.empty() && unknown != std::string::npos) {
        const json_cursor part = content.item(unknown);
        part.fail(errc::unsupported, "only text is supported here, found a part of type " +
                                         quoted(string_at(part, "type")));
    }
    return texts;
}

std::string joined(const std::vector<std::string>& texts) {
    std::string whole;
    for (const std::string& text : texts) {
        if (&text != &texts.front()) whole += '\n';
        whole += text;
    }
    return whole;
}

}  // namespace semantic::protocol::openai
