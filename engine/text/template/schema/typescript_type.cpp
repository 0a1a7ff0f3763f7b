// SPDX-License-Identifier: Apache-2.0
#include "engine/text/template/schema/typescript_type.hpp"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "engine/text/jinja/values/print.hpp"

namespace semantic::engine {

namespace {

using jinja::dict_object;
using jinja::list_object;
using jinja::value;

/// The member of an object; null when `spec` is no object or has no such member.
const value* find_member(const value& spec, std::string_view key) {
    const dict_object* object = spec.as_dict();
    return object == nullptr ? nullptr : object->find(key);
}

/// Whether `spec` has the member, and Jinja takes its value for true.
bool has_true(const value& spec, std::string_view key) {
    const value* found = find_member(spec, key);
    return found != nullptr && jinja::is_true(*found);
}

/// The member's list; null when there is none, or it is empty.
const list_object* find_list(const value& spec, std::string_view key) {
    const value* found = find_member(spec, key);
    const list_object* list = found == nullptr ? nullptr : found->as_list();
    return list == nullptr || list->items.empty() ? nullptr : list;
}

/// The member's text; empty when there is none, or it is no string.
std::string_view text_of(const value& spec, std::string_view key) {
    const value* found = find_member(spec, key);
    const jinja::marked_text* text = found == nullptr ? nullptr : found->as_text();
    return text == nullptr ? std::string_view() : std::string_view(text->bytes());
}

/// A value that was read as JSON, as JSON: that cannot fail, and takes time in linear proportion to
/// the text.
std::string json_text(const value& v) {
    jinja::budget enough(std::numeric_limits<std::uint64_t>::max());
    return jinja::to_json(v, {}, enough).bytes();
}

/// A string as it is, anything else as JSON.
std::string plain_text(const value& v) {
    const jinja::marked_text* text = v.as_text();
    return text == nullptr ? json_text(v) : text->bytes();
}

/// The texts of a list's items, with `between` between them.
std::string joined(const list_object& list, std::string_view between) {
    std::string out;
    for (std::size_t i = 0; i < list.items.size(); ++i) {
        if (i > 0) out += between;
        out += plain_text(list.items[i]);
    }
    return out;
}

/// The names of the schema's required properties.
std::unordered_set<std::string_view> required_of(const value& schema) {
    std::unordered_set<std::string_view> names;
    if (const list_object* list = find_list(schema, "required"))
        for (const value& name : list->items)
            if (const jinja::marked_text* text = name.as_text()) names.insert(text->bytes());
    return names;
}

/// The number of Unicode characters: all bytes but the continuation bytes of UTF-8 (10xxxxxx).
std::size_t character_count(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
        return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
    }));
}

/// The TypeScript type of a JSON schema, spelled as GPT-OSS's published template spells it,
/// including its oddities. Recursion goes as deep as parse_json() lets JSON be nested.
std::string type_of(const value& spec);

/// An array of a simple type, or of another type whose text is short (the template's limit is 50
/// characters); otherwise any[].
std::string array_type(const value& spec) {
    std::string out = "any[]";
    if (has_true(spec, "items")) {
        const value& items = *find_member(spec, "items");
        const std::string_view kind = text_of(items, "type");
        if (kind == "string" || kind == "number" || kind == "boolean") {
            out = std::string(kind) + "[]";
        } else if (kind == "integer") {
            out = "number[]";
        } else if (const std::string inner = type_of(items);
                   // The template itself names "object | object" and the limit.
                   inner != "object | object" && character_count(inner) <= 50) {
            out = inner + "[]";
        }
    }
    return has_true(spec, "nullable") ? out + " | null" : out;
}

/// One of several schemas, with their descriptions and defaults as comments.
std::string union_type(const list_object& variants) {
    std::string out;
    for (std::size_t i = 0; i < variants.items.size(); ++i) {
        const value& variant = variants.items[i];
        out += type_of(variant);
        if (has_true(variant, "description"))
            out += "// " + plain_text(*find_member(variant, "description"));
        // The blanks are the published template's own indentation, which it prints.
        if (const value* otherwise = find_member(variant, "default"))
            out += std::string(20, ' ') + "// default: " + json_text(*otherwise);
        if (i + 1 < variants.items.size()) out += " | \n";
    }
    return out;
}

/// A text, or one of its allowed values, each between quotes.
std::string string_type(const value& spec) {
    if (const list_object* values = find_list(spec, "enum")) {
        std::string out(1, '"');
        return out.append(joined(*values, "\" | \"")).append(1, '"');
    }
    return has_true(spec, "nullable") ? "string | null" : "string";
}

/// An object with its properties; those that are not required have a question mark.
std::string object_type(const value& spec) {
    const value* found = find_member(spec, "properties");
    const dict_object* properties = found == nullptr ? nullptr : found->as_dict();
    if (properties == nullptr || properties->items.empty()) return "object";
    const auto required = required_of(spec);
    std::string out = "{\n";
    std::size_t left = properties->items.size();
    for (const auto& [key, inner] : properties->items) {
        // Keys of JSON are texts.
        const std::string& name = key.as_text()->bytes();
        out += name;
        if (!required.contains(name)) out += '?';
        // The published template prints this line break and its indentation, too.
        out.append(": \n").append(16, ' ').append(type_of(inner));
        if (--left > 0) out += ", ";
    }
    return out + "}";
}

std::string type_of(const value& spec) {
    const std::string_view kind = text_of(spec, "type");
    if (kind == "array") return array_type(spec);
    if (const list_object* kinds = find_list(spec, "type")) return joined(*kinds, " | ");
    if (const list_object* variants = find_list(spec, "oneOf")) return union_type(*variants);
    if (kind == "string") return string_type(spec);
    if (kind == "number" || kind == "integer") return "number";
    if (kind == "boolean") return "boolean";
    if (kind == "object") return object_type(spec);
    return "any";
}

/// Appends a line for a parameter, with its description above and its default after it. The commas
/// differ by the kind of schema, as in the published template.
void append_parameter(std::string& out, std::string_view name, const value& spec,
                      bool is_required) {
    if (has_true(spec, "description"))
        out += "// " + plain_text(*find_member(spec, "description")) + "\n";
    out += name;
    if (!is_required) out += '?';
    out += ": " + type_of(spec);
    if (const value* otherwise = find_member(spec, "default")) {
        if (has_true(spec, "enum")) {
            out += ", // default: " + plain_text(*otherwise);
        } else if (has_true(spec, "oneOf")) {
            out += "// default: " + plain_text(*otherwise);
        } else {
            out += ", // default: " + json_text(*otherwise);
        }
    }
    out += ",\n";
}

}  // namespace

std::string typescript_parameters(const value& schema) {
    const value* found = find_member(schema, "properties");
    const dict_object* properties = found == nullptr ? nullptr : found->as_dict();
    if (properties == nullptr) return {};
    const auto required = required_of(schema);
    std::string out;
    for (const auto& [key, spec] : properties->items) {
        const std::string& name = key.as_text()->bytes();
        append_parameter(out, name, spec, required.contains(name));
    }
    return out;
}

}  // namespace semantic::engine
