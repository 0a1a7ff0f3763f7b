// SPDX-License-Identifier: Apache-2.0
#include "protocol/anthropic/client_tools.hpp"

#include <algorithm>
#include <string>

namespace semantic::protocol::anthropic {

namespace {

constexpr const char* bash_schema =
    R"({"type":"object","properties":{)"
    R"("command":{"type":"string","description":"The command to run"},)"
    R"("restart":{"type":"boolean","description":"true starts the shell anew"}}})";

constexpr const char* editor_properties =
    R"("path":{"type":"string","description":"Path of the file or directory"},)"
    R"("view_range":{"type":"array","items":{"type":"integer"},)"
    R"("description":"view: first and last line to show, counted from 1; -1 is the end"},)"
    R"("file_text":{"type":"string","description":"create: the content of the file"},)"
    R"("old_str":{"type":"string","description":"str_replace: what is there, once"},)"
    R"("insert_line":{"type":"integer","description":"insert: behind this line; 0: in front"},)";

constexpr const char* new_str =
    R"("new_str":{"type":"string","description":"str_replace: the text in its place"},)"
    R"("insert_text":{"type":"string","description":"insert: the text to insert"})";

// Up to its versions of 2025-01 the editor takes the text to insert as new_str, and undoes.
constexpr const char* new_str_of_old_editor =
    R"("new_str":{"type":"string","description":"str_replace, insert: the new text"})";

/// Returns: a JSON schema of a tool with a `command` of an enumeration and other properties; all
/// three are pieces of JSON.
std::string schema_of(std::string_view commands, std::string_view properties,
                      std::string_view required) {
    std::string schema = R"({"type":"object","properties":{"command":{"type":"string","enum":[)";
    schema.append(commands).append("]},").append(properties);
    return schema.append(R"(},"required":[)").append(required).append("]}");
}

/// The text editor of this version, a date; older ones have another name and one command more.
engine::tool_definition editor(std::string_view version) {
    constexpr std::string_view first_without_undo = "20250429";
    const bool is_old = version < first_without_undo;
    const std::string commands = R"("view","create","str_replace","insert")";
    const std::string properties = editor_properties;
    return {
        is_old ? "str_replace_editor" : "str_replace_based_edit_tool",
        "Shows, creates and changes text files.",
        schema_of(is_old ? commands + R"(,"undo_edit")" : commands,
                  properties + (is_old ? new_str_of_old_editor : new_str), R"("command","path")")};
}

engine::tool_definition memory() {
    const std::string properties = editor_properties;
    return {"memory", "Keeps notes in files below /memories, which last beyond this conversation.",
            schema_of(R"("view","create","str_replace","insert","delete","rename")",
                      properties + new_str +
                          R"(,"old_path":{"type":"string","description":"rename: the path now"},)"
                          R"("new_path":{"type":"string","description":"rename: the path to be"})",
                      R"("command")")};
}

/// Returns: the date after `name` and an underscore in a tool's type; nothing where the type is
/// another one.
std::optional<std::string_view> version_of(std::string_view type, std::string_view name) {
    constexpr std::size_t date_digits = 8;
    if (!type.starts_with(name) || type.size() != name.size() + 1 + date_digits)
        return std::nullopt;
    if (type[name.size()] != '_') return std::nullopt;
    const std::string_view version = type.substr(name.size() + 1);
    const bool is_date = std::ranges::all_of(version, [](char c) { return c >= '0' && c <= '9'; });
    return is_date ? std::optional(version) : std::nullopt;
}

}  // namespace

std::optional<engine::tool_definition> client_tool(std::string_view type) {
    if (version_of(type, "bash"))
        return engine::tool_definition{
            "bash", "Runs a command in a shell that stays open between calls; returns its output.",
            bash_schema};
    if (auto version = version_of(type, "text_editor")) return editor(*version);
    if (version_of(type, "memory")) return memory();
    return std::nullopt;
}

}  // namespace semantic::protocol::anthropic
