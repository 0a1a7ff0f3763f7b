// SPDX-License-Identifier: Apache-2.0
#include "engine/text/output/json_text.hpp"

#include <boost/json.hpp>

#include "engine/text/output/float_text.hpp"
#include "engine/types/exact_json.hpp"
#include "storage/types/hex.hpp"

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::result;

namespace {

/// Appends a text as a JSON string.
void append_quoted(std::string& out, std::string_view text) {
    out += '"';
    for (const char c : text) {
        switch (c) {
            case '"':
                out += "\\\"";
                break;
            case '\\':
                out += "\\\\";
                break;
            case '\n':
                out += "\\n";
                break;
            case '\r':
                out += "\\r";
                break;
            case '\t':
                out += "\\t";
                break;
            case '\b':
                out += "\\b";
                break;
            case '\f':
                out += "\\f";
                break;
            default:
                if (static_cast<unsigned char>(c) < 0x20) {
                    out += "\\u00";
                    storage::append_hex(out, c);
                } else {
                    out += c;
                }
        }
    }
    out += '"';
}

/// Writes brackets and commas so that all parts are on one line or, with `lines`, each on a line of
/// its own that is indented by four blanks for each open bracket.
class layout {
  public:
    explicit layout(bool lines) : lines_(lines) {}
    void open(std::string& out, char bracket) {
        out += bracket;
        ++depth_;
        break_line(out);
    }
    void between(std::string& out) const {
        out += lines_ ? "," : ", ";
        break_line(out);
    }
    void close(std::string& out, char bracket) {
        --depth_;
        break_line(out);
        out += bracket;
    }

  private:
    void break_line(std::string& out) const {
        if (lines_) out.append("\n").append(4 * depth_, ' ');
    }
    bool lines_;
    std::size_t depth_ = 0;  // brackets that are open
};

void append(std::string& out, const boost::json::value& json, layout& parts);

// These call each other as deep as the JSON is nested, which its parser has bounded.
void append_array(std::string& out, const boost::json::array& array, layout& parts) {
    if (array.empty()) {
        out += "[]";
        return;
    }
    parts.open(out, '[');
    bool first = true;
    for (const auto& item : array) {
        if (!first) parts.between(out);
        append(out, item, parts);
        first = false;
    }
    parts.close(out, ']');
}

void append_object(std::string& out, const boost::json::object& object, layout& parts) {
    if (object.empty()) {
        out += "{}";
        return;
    }
    parts.open(out, '{');
    bool first = true;
    for (const auto& [key, item] : object) {
        if (!first) parts.between(out);
        append_quoted(out, {key.data(), key.size()});
        out += ": ";
        append(out, item, parts);
        first = false;
    }
    parts.close(out, '}');
}

void append(std::string& out, const boost::json::value& json, layout& parts) {
    switch (json.kind()) {
        case boost::json::kind::null:
            out += "null";
            break;
        case boost::json::kind::bool_:
            out += json.get_bool() ? "true" : "false";
            break;
        case boost::json::kind::int64:
            out += std::to_string(json.get_int64());
            break;
        case boost::json::kind::uint64:
            out += std::to_string(json.get_uint64());
            break;
        case boost::json::kind::double_:
            out += float_text(json.get_double());
            break;
        case boost::json::kind::string:
            // A number that was kept by its spelling.
            if (const auto number = exact_number(json))
                out += *number;
            else
                append_quoted(out, {json.get_string().data(), json.get_string().size()});
            break;
        case boost::json::kind::array:
            append_array(out, json.get_array(), parts);
            break;
        case boost::json::kind::object:
            append_object(out, json.get_object(), parts);
            break;
    }
}

}  // namespace

std::string to_json_text(const boost::json::value& json) {
    std::string out;
    layout one_line(false);
    append(out, json, one_line);
    return out;
}

std::string to_indented_json_text(const boost::json::value& json) {
    std::string out;
    layout lines(true);
    append(out, json, lines);
    return out;
}

std::string quoted(std::string_view text) {
    std::string out;
    append_quoted(out, text);
    return out;
}

result<std::string> respaced_object(std::string_view json, std::string_view owner) {
    boost::system::error_code error;
    const boost::json::value value = boost::json::parse(json, error);
    if (error)
        return failure{errc::bad_value, std::string(owner) + " is not JSON: " + error.message()};
    if (!value.is_object()) {
        return failure{errc::bad_value, std::string(owner) + " is not a JSON object"};
    }
    return to_json_text(value);
}

}  // namespace semantic::engine
