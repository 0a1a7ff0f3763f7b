// SPDX-License-Identifier: Apache-2.0
#include "engine/text/jinja/values/print.hpp"

#include <algorithm>
#include <cmath>

#include "engine/text/output/float_text.hpp"
#include "engine/text/tokenizer/letters.hpp"

namespace semantic::engine::jinja {

namespace {

/// An escape by a character's number in hexadecimal, such as \x1f, \u2028 or \U000e0001.
std::string escape_of(std::int32_t code, char letter, int digits) {
    std::string out = {'\\', letter};
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
        out += "0123456789abcdef"[(static_cast<std::uint32_t>(code) >> shift) & 15U];
    }
    return out;
}

/// How Python's repr() escapes a character between these quotes; empty when it does not.
std::string repr_escape(std::int32_t code, char quote) {
    if (code == quote || code == '\\') return {'\\', static_cast<char>(code)};
    if (code == '\n') return "\\n";
    if (code == '\r') return "\\r";
    if (code == '\t') return "\\t";
    if (letters::is_printable(code)) return {};
    if (code < 0x100) return escape_of(code, 'x', 2);
    return code < 0x10000 ? escape_of(code, 'u', 4) : escape_of(code, 'U', 8);
}

/// How Python's json.dumps() escapes a character; empty when it does not.
std::string json_escape(std::int32_t code, bool ensure_ascii) {
    switch (code) {
        case '"':
            return "\\\"";
        case '\\':
            return "\\\\";
        case '\n':
            return "\\n";
        case '\r':
            return "\\r";
        case '\t':
            return "\\t";
        case '\b':
            return "\\b";
        case '\f':
            return "\\f";
        default:
            break;
    }
    if (code >= 0 && code < 0x20) return escape_of(code, 'u', 4);
    if (!ensure_ascii || (code >= 0x20 && code < 0x7f)) return {};
    if (code < 0x10000) return escape_of(code, 'u', 4);
    // Characters beyond U+FFFF are written as two surrogates.
    const std::int32_t rest = code - 0x10000;
    return escape_of(0xd800 + (rest >> 10), 'u', 4) + escape_of(0xdc00 + (rest & 0x3ff), 'u', 4);
}

/// Appends `text` with each character replaced by what `escape` returns for it; an empty result
/// keeps the character. `is_plain`: says of a byte that it is a character which is never replaced.
template <class IsPlain, class Escape>
void append_escaped(marked_text& out, const marked_text& text, const IsPlain& is_plain,
                    const Escape& escape) {
    const std::string& bytes = text.bytes();
    std::size_t kept = 0;
    for (std::size_t at = 0; at < bytes.size();) {
        if (is_plain(bytes[at])) {
            ++at;
            continue;
        }
        const std::size_t end = next_character(bytes, at);
        const std::string instead = escape(character_at(bytes, at));
        if (!instead.empty()) {
            out.append(text, kept, at);
            out.append(instead, text.is_content(at));
            kept = end;
        }
        at = end;
    }
    out.append(text, kept, bytes.size());
}

/// Appends a text between quotes as Python's repr() does: double quotes if it contains single
/// quotes and no double ones.
void append_quoted_repr(marked_text& out, const marked_text& text) {
    const bool has_single = text.bytes().find('\'') != std::string::npos;
    const bool has_double = text.bytes().find('"') != std::string::npos;
    const char quote = has_single && !has_double ? '"' : '\'';
    out.append({&quote, 1}, false);
    const auto is_plain = [&](char c) { return c >= 0x20 && c < 0x7f && c != quote && c != '\\'; };
    append_escaped(out, text, is_plain,
                   [&](std::int32_t code) { return repr_escape(code, quote); });
    out.append({&quote, 1}, false);
}

/// Prints as Python's str() and repr().
class printer {
  public:
    explicit printer(budget& left) : left_(left) {}

    void repr(const value& v) {
        left_.spend();
        if (const auto* text = v.as_text()) {
            // An escaped byte has four bytes at most, as \x1f.
            left_.spend_growth(out_.size(), 4 * text->size());
            append_quoted_repr(out_, *text);
        } else if (v.is_undefined()) {
            write("Undefined");
        } else {
            str(v);
        }
    }

    void str(const value& v) {
        std::int64_t integer = 0;
        if (v.is_none()) {
            write("None");
        } else if (const bool* flag = v.as_bool()) {
            write(*flag ? "True" : "False");
        } else if (v.to_integer(integer)) {
            write(std::to_string(integer));
        } else if (const spelled_number* spelled = v.as_spelled()) {
            write(spelled->text);
        } else if (const double* number = v.as_float()) {
            write(float_text(*number));
        } else if (const auto* list = v.as_list()) {
            print_list(*list);
        } else if (const auto* dict = v.as_dict()) {
            print_pairs(dict->items, "{", "}", [this](const value& key) { repr(key); });
        } else {
            print_object(v);
        }
    }

    marked_text take() { return std::move(out_); }

  private:
    void write(std::string_view text) { out_.append(text, false); }

    void print_items(const list_object& list, std::string_view open, std::string_view close) {
        write(open);
        for (std::size_t i = 0; i < list.items.size(); ++i) {
            if (i > 0) write(", ");
            repr(list.items[i]);
        }
        // Python writes a tuple of one item as (1,).
        if (list.items.size() == 1 && open == "(") write(",");
        write(close);
    }

    /// Prints a list by its form; the items of a generator are not used up, and not shown.
    void print_list(const list_object& list) {
        switch (list.form) {
            case list_form::list:
                return print_items(list, "[", "]");
            case list_form::tuple:
            case list_form::group:
                return print_items(list, "(", ")");
            case list_form::range:
                return write(list.shown);
            case list_form::generator:
                return write("<generator object>");
            case list_form::keys:
                return print_items(list, "dict_keys([", "])");
            case list_form::values:
                return print_items(list, "dict_values([", "])");
            case list_form::items:
                return print_items(list, "dict_items([", "])");
        }
    }

    template <class Pairs, class Key>
    void print_pairs(const Pairs& pairs, std::string_view open, std::string_view close,
                     const Key& print_key) {
        write(open);
        bool first = true;
        for (const auto& [key, item] : pairs) {
            if (!first) write(", ");
            first = false;
            print_key(key);
            write(": ");
            repr(item);
        }
        write(close);
    }

    /// Prints a namespace, a loop or a function; other values have no text.
    void print_object(const value& v) {
        if (const auto* ns = v.as_namespace()) {
            // A namespace can contain itself, so the depth is limited.
            if (++namespaces_ > 8) fail("namespaces are nested too deeply", error_kind::limit);
            print_pairs(ns->items, "<Namespace {", "}>",
                        [this](const marked_text& key) { append_quoted_repr(out_, key); });
            --namespaces_;
        } else if (const auto* loop = v.as_loop()) {
            write("<LoopContext " + std::to_string(loop->index0 + 1) + "/" +
                  std::to_string(loop->items->items.size()) + ">");
        } else if (const auto* callable = v.as_callable()) {
            write("<function " + callable->name + ">");
        }
    }

    budget& left_;
    marked_text out_;
    unsigned namespaces_ = 0;  // that are being printed, in each other
};

/// Prints as Python's json.dumps().
class json_printer {
  public:
    json_printer(const json_format& format, budget& left) : format_(format), left_(left) {}

    /// Prints a value. Fails for those that JSON lacks: undefined ones, functions, ranges and
    /// generators.
    void print(const value& v) {
        left_.spend();
        if (const auto* text = v.as_text()) {
            quote(*text);
        } else if (const auto* list = v.as_list(); list != nullptr && is_array(*list)) {
            print_array(*list);
        } else if (const auto* dict = v.as_dict()) {
            print_object(*dict);
        } else if (!v.is_none() && !v.is_number()) {
            fail("Object of type " + type_name(v) + " is not JSON serializable");
        } else {
            write(plain(v));
        }
    }

    marked_text take() { return std::move(out_); }

  private:
    static bool is_array(const list_object& list) {
        return list.form == list_form::list || list.form == list_form::tuple ||
               list.form == list_form::group;
    }

    /// A constant or number, also as a key's text. Requires: `v` is none or a number.
    static std::string plain(const value& v) {
        std::int64_t integer = 0;
        if (v.is_none()) return "null";
        if (const bool* flag = v.as_bool()) return *flag ? "true" : "false";
        if (v.to_integer(integer)) return std::to_string(integer);
        if (const spelled_number* spelled = v.as_spelled()) return spelled->text;
        const double number = *v.as_float();
        if (std::isnan(number)) return "NaN";
        if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
        return float_text(number);
    }

    void write(std::string_view text) { out_.append(text, false); }
    void write(const marked_text& text) { out_.append(text); }

    /// Prints a text between quotes. Bytes of content stay content, escaped or not.
    void quote(const marked_text& text) {
        left_.spend_growth(out_.size(), 4 * text.size());
        write("\"");
        const bool only_ascii = format_.ensure_ascii;
        const auto is_plain = [&](char c) {
            const auto byte = static_cast<unsigned char>(c);
            return byte >= 0x20 && c != '"' && c != '\\' && (byte < 0x7f || !only_ascii);
        };
        append_escaped(out_, text, is_plain,
                       [&](std::int32_t code) { return json_escape(code, only_ascii); });
        write("\"");
    }

    /// With an indent: begins a line at so many levels; else nothing.
    void break_line(std::size_t depth) {
        if (!format_.indent) return;
        left_.spend_growth(out_.size(), depth * format_.indent->size());
        write("\n");
        for (std::size_t i = 0; i < depth; ++i) write(*format_.indent);
    }

    /// Writes what is in front of an item: a comma unless it is the first, and the line break.
    void between(bool first) {
        if (!first) write(format_.item_separator);
        break_line(depth_);
    }

    void print_array(const list_object& list) {
        if (list.items.empty()) return write("[]");
        write("[");
        ++depth_;
        for (std::size_t i = 0; i < list.items.size(); ++i) {
            between(i == 0);
            print(list.items[i]);
        }
        break_line(--depth_);
        write("]");
    }

    /// Prints a dict, its keys in order if the format says so.
    void print_object(const dict_object& dict) {
        if (dict.items.empty()) return write("{}");
        std::vector<const std::pair<value, value>*> pairs;
        for (const auto& pair : dict.items) pairs.push_back(&pair);
        if (format_.sort_keys) {
            std::stable_sort(pairs.begin(), pairs.end(), [this](const auto* a, const auto* b) {
                return less(a->first, b->first, left_);
            });
        }
        write("{");
        ++depth_;
        bool first = true;
        for (const auto* pair : pairs) {
            between(first);
            first = false;
            print_key(pair->first);
            write(format_.key_separator);
            print(pair->second);
        }
        break_line(--depth_);
        write("}");
    }

    void print_key(const value& key) {
        if (const auto* text = key.as_text()) return quote(*text);
        if (!key.is_none() && !key.is_number()) {
            fail("keys must be str, int, float, bool or None, not " + type_name(key));
        }
        write("\"" + plain(key) + "\"");
    }

    const json_format& format_;
    budget& left_;
    marked_text out_;
    std::size_t depth_ = 0;  // of open arrays and objects
};

}  // namespace

marked_text to_text(const value& v, budget& left) {
    if (const auto* text = v.as_text()) return *text;
    printer out(left);
    if (!v.is_undefined()) out.str(v);
    return out.take();
}

marked_text to_repr(const value& v, budget& left) {
    printer out(left);
    out.repr(v);
    return out.take();
}

marked_text to_json(const value& v, const json_format& format, budget& left) {
    json_printer out(format, left);
    out.print(v);
    return out.take();
}

marked_text escaped(const marked_text& text, budget& left) {
    left.spend_text(6 * text.size());
    marked_text out;
    const auto is_plain = [](char c) {
        return std::string_view("&<>'\"").find(c) == std::string_view::npos;
    };
    append_escaped(out, text, is_plain, [](std::int32_t code) -> std::string {
        switch (code) {
            case '&':
                return "&amp;";
            case '<':
                return "&lt;";
            case '>':
                return "&gt;";
            case '\'':
                return "&#39;";
            case '"':
                return "&#34;";
            default:
                return {};
        }
    });
    out.is_markup = true;
    return out;
}

}  // namespace semantic::engine::jinja
