#include "engine/text/template/typescript_type.hpp"

#include <boost/json.hpp>

#include <algorithm>

#include "engine/text/output/json_text.hpp"
#include "engine/text/tokenizer/json_access.hpp"

namespace semantic::engine {

namespace {

namespace json = boost::json;

/// What Jinja takes for true.
bool is_set(const json::value& value) {
    switch (value.kind()) {
        case json::kind::null:
            return false;
        case json::kind::bool_:
            return value.get_bool();
        case json::kind::int64:
            return value.get_int64() != 0;
        case json::kind::uint64:
            return value.get_uint64() != 0;
        case json::kind::double_:
            return value.get_double() != 0;
        case json::kind::string:
            return !value.get_string().empty();
        case json::kind::array:
            return !value.get_array().empty();
        case json::kind::object:
            return !value.get_object().empty();
    }
    return false;
}

bool has(const json::value& spec, std::string_view key) {
    const json::object* object = spec.if_object();
    return object != nullptr && object->contains(key);
}

/// A string as it is, anything else as JSON.
std::string plain_text(const json::value& value) {
    if (const json::string* text = value.if_string()) return {text->data(), text->size()};
    return to_json_text(value);
}

std::string joined(const json::array& items, std::string_view between) {
    std::string out;
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (i > 0) out += between;
        out += plain_text(items[i]);
    }
    return out;
}

bool lists(const json::value& names, std::string_view name) {
    const json::array* array = names.if_array();
    if (array == nullptr) return false;
    return std::any_of(array->begin(), array->end(), [&](const json::value& item) {
        return item.is_string() && plain_text(item) == name;
    });
}

std::size_t character_count(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
        return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
    }));
}

std::string type_of(const json::value& spec);

std::string array_type(const json::value& spec) {
    std::string out = "any[]";
    if (const json::value& items = member(spec, "items"); is_set(items)) {
        const std::string kind = text_of(items, "type");
        if (kind == "string" || kind == "number" || kind == "boolean") {
            out = kind + "[]";
        } else if (kind == "integer") {
            out = "number[]";
        } else if (const std::string inner = type_of(items);
                   inner != "object | object" && character_count(inner) <= 50) {
            out = inner + "[]";
        }
    }
    return is_set(member(spec, "nullable")) ? out + " | null" : out;
}

std::string union_type(const json::array& variants) {
    std::string out;
    for (std::size_t i = 0; i < variants.size(); ++i) {
        const json::value& variant = variants[i];
        out += type_of(variant);
        if (is_set(member(variant, "description"))) {
            out += "// " + plain_text(member(variant, "description"));
        }
        // The blanks are the published template's own indentation, which it prints.
        if (has(variant, "default")) {
            out += std::string(20, ' ') + "// default: " + to_json_text(member(variant, "default"));
        }
        if (i + 1 < variants.size()) out += " | \n";
    }
    return out;
}

std::string string_type(const json::value& spec) {
    const json::value& values = member(spec, "enum");
    if (values.is_array() && is_set(values)) {
        std::string out(1, '"');
        return out.append(joined(values.get_array(), "\" | \"")).append(1, '"');
    }
    return is_set(member(spec, "nullable")) ? "string | null" : "string";
}

std::string object_type(const json::value& spec) {
    const json::object* properties = member(spec, "properties").if_object();
    if (properties == nullptr || properties->empty()) return "object";
    std::string out = "{\n";
    std::size_t left = properties->size();
    for (const auto& [name, inner] : *properties) {
        out.append(name.data(), name.size());
        if (!lists(member(spec, "required"), {name.data(), name.size()})) out += '?';
        // The line break and the blanks are the published template's, too.
        out.append(": \n").append(16, ' ').append(type_of(inner));
        if (--left > 0) out += ", ";
    }
    return out + "}";
}

std::string type_of(const json::value& spec) {
    const std::string kind = text_of(spec, "type");
    if (kind == "array") return array_type(spec);
    if (const json::array* kinds = array_of(spec, "type"); kinds != nullptr && !kinds->empty()) {
        return joined(*kinds, " | ");
    }
    if (const json::array* variants = array_of(spec, "oneOf");
        variants != nullptr && !variants->empty()) {
        return union_type(*variants);
    }
    if (kind == "string") return string_type(spec);
    if (kind == "number" || kind == "integer") return "number";
    if (kind == "boolean") return "boolean";
    if (kind == "object") return object_type(spec);
    return "any";
}

}  // namespace

void append_typescript_parameter(std::string& out, std::string_view name, const json::value& spec,
                                 const json::value& required) {
    if (is_set(member(spec, "description"))) {
        out += "// " + plain_text(member(spec, "description")) + "\n";
    }
    out += name;
    if (!lists(required, name)) out += '?';
    out += ": " + type_of(spec);
    if (has(spec, "default")) {
        const json::value& value = member(spec, "default");
        if (is_set(member(spec, "enum"))) {
            out += ", // default: " + plain_text(value);
        } else if (is_set(member(spec, "oneOf"))) {
            out += "// default: " + plain_text(value);
        } else {
            out += ", // default: " + to_json_text(value);
        }
    }
    out += ",\n";
}

}  // namespace semantic::engine
