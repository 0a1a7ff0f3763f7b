// SPDX-License-Identifier: Apache-2.0
#pragma once
// Answers with tool calls as models of each format write them, made up from a seed: texts, one to
// three calls, arguments with all that breaks parsers, and the liberties that models take. What was
// meant comes along.

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/output/answer_format.hpp"
#include "engine/types/conversation.hpp"

namespace semantic::engine::written_calls {

namespace json = boost::json;

struct said {
    bool is_call = false;
    std::string text;  // or the name
    json::object arguments{};
};
struct answer {
    std::string written;
    std::vector<said> meant;
};

inline std::vector<tool_definition> tools() {
    return {
        {"get_weather", "", R"({"type": "object", "properties": {"city": {"type": "string"},
            "days": {"type": "integer"}, "units": {"enum": ["C", "F"]}}})"},
        {"write_file", "", R"({"type": "object", "properties": {"path": {"type": "string"},
            "content": {"type": "string"}, "append": {"type": "boolean"}}})"},
        {"search.deep", "", R"({"type": "object", "properties": {"query": {"type": "string"},
            "filters": {"type": "object"}, "tags": {"type": "array", "items": {"type": "string"}},
            "limit": {"type": ["integer", "null"]}, "score": {"type": "number"}}})"},
        {"ping", "", R"({"type": "object", "properties": {}})"},
    };
}

class writer {
  public:
    writer(call_format format, unsigned seed) : format_(format), random_(seed) {}

    answer write() {
        answer out;
        const bool is_alone = format_ == call_format::llama3 || format_ == call_format::harmony;
        if (!is_alone && maybe()) text(out, pick(texts_in_front));
        const int calls = is_alone || maybe() ? 1 : 2 + one_of(2);
        for (int i = 0; i < calls; ++i) {
            const bool is_first = out.meant.empty() || !out.meant.back().is_call;
            if (!is_first && can_speak_between() && one_of(4) == 0) text(out, "And then: ");
            call(out, i, calls);
        }
        if (!is_alone && can_speak_between() && one_of(4) == 0) text(out, "That is all.");
        if (format_ == call_format::harmony) think(out);
        return out;
    }

  private:
    static constexpr std::array<const char*, 4> texts_in_front{
        "Let me look.", "Grüße 日本! {\"a\": 1} is no call.", "a < b, <tool and [TOOL", "1.\n\n2."};
    static constexpr std::array<const char*, 8> words{"Paris",
                                                      "say \"hi\" \\ {now}",
                                                      "a\nb\n\n  c\t",
                                                      "",
                                                      "日本 é 🎉",
                                                      "x } ] , : <b>",
                                                      "if (a < b) { return \"</p>\"; }",
                                                      "'single' and `tick`"};

    int one_of(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
    bool maybe() { return one_of(2) == 0; }
    template <std::size_t count>
    std::string pick(const std::array<const char*, count>& from) {
        return from[static_cast<std::size_t>(one_of(static_cast<int>(count)))];
    }
    bool can_speak_between() const {
        constexpr std::array in_lists{call_format::mistral,    call_format::lfm2,
                                      call_format::granite,    call_format::nemotron,
                                      call_format::tool_calls, call_format::olmo};
        return std::find(in_lists.begin(), in_lists.end(), format_) == in_lists.end();
    }

    void text(answer& out, const std::string& spoken) {
        out.written += spoken;
        if (!out.meant.empty() && !out.meant.back().is_call)
            out.meant.back().text += spoken;
        else
            out.meant.push_back({false, spoken, {}});
    }

    json::object arguments(const std::string& tool) {
        json::object made;
        const auto add = [&](const char* key, json::value value) {
            if (one_of(4) != 0) made[key] = std::move(value);
        };
        const bool is_reversed = maybe();
        if (tool == "get_weather") {
            if (is_reversed) add("days", one_of(20) - 5);
            add("city", pick(words).c_str());
            if (!is_reversed) add("days", one_of(20));
            add("units", maybe() ? "C" : "F");
        } else if (tool == "write_file") {
            if (is_reversed) add("append", maybe());
            add("path", "/tmp/a b.txt");
            add("content", (pick(words) + pick(words)).c_str());
            if (!is_reversed) add("append", maybe());
        } else if (tool == "search.deep") {
            add("score", 0.25 * one_of(9) + 0.125);
            add("query", pick(words).c_str());
            add("tags", json::array{json::string(pick(words)), json::string("t")});
            add("filters", json::object{{"year", 1990 + one_of(9)},
                                        {"in", json::array{1, nullptr, true, json::object()}},
                                        {"q\"", json::string(pick(words))}});
            add("limit", maybe() ? json::value(one_of(9)) : json::value());
        }
        return made;
    }

    void call(answer& out, int index, int count) {
        static const std::array<const char*, 4> names{"get_weather", "write_file", "search.deep",
                                                      "ping"};
        // Python and Gemma have no points in names.
        std::string name = pick(names);
        said made{true, name, arguments(name)};
        write_call(out.written, made, index, count);
        out.meant.push_back(std::move(made));
    }

    struct written_at {
        std::string line;  // the break before a mark, where text precedes it
        int index;
        bool is_last;
    };
    void write_call(std::string& to, const said& call, int index, int count);
    void write_json_call(std::string& to, const said& call, const written_at& at);
    void write_listed_call(std::string& to, const said& call, const written_at& at);
    void write_tagged_call(std::string& to, const said& call, const written_at& at);
    void write_plain_call(std::string& to, const said& call, const written_at& at);
    void write_object(std::string& to, const said& call, const char* arguments);
    void write_tags(std::string& to, const said& call, bool is_glm);
    void write_invocation(std::string& to, const said& call, const char* tag);
    void write_list(std::string& to, const said& call, bool is_first, bool is_last);
    void write_gemma(std::string& to, const json::value& value, const std::string& quote);
    void write_python(std::string& to, const json::value& value);
    void write_code(std::string& to, const said& call);
    void write_function(std::string& to, const said& call);
    std::string spaced(const json::value& value);
    void think(answer& out);

    call_format format_;
    std::mt19937 random_;
    int variant_ = -1;  // one an answer, where a format has several
};

inline std::string writer::spaced(const json::value& value) {
    std::string compact = json::serialize(value);
    const int style = one_of(3);
    if (style == 0) return compact;
    std::string out;
    bool in_string = false, escaped = false;
    for (const char c : compact) {
        out += c;
        if (in_string) {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if (c == '"') {
            in_string = true;
        } else if (c == ',' || c == ':' || (style == 2 && c == '{')) {
            out += style == 2 && c != ':' ? "\n  " : " ";
        }
    }
    return out;
}

inline void writer::write_object(std::string& to, const said& call, const char* arguments) {
    const std::string name = "\"name\": " + json::serialize(json::string(call.text));
    const std::string given = std::string("\"") + arguments + "\": " + spaced(call.arguments);
    to += maybe() ? "{" + name + ", " + given + "}" : "{" + given + ",\n" + name + " }";
}

inline void writer::write_tags(std::string& to, const said& call, bool is_glm) {
    to += is_glm ? call.text + (maybe() ? "\n" : "") : "<function=" + call.text + ">\n";
    for (const auto& [key, value] : call.arguments) {
        const std::string text =
            value.is_string() ? std::string(value.get_string()) : spaced(value);
        const std::string name(key);
        if (is_glm)
            to += "<arg_key>" + name + "</arg_key>" + (maybe() ? "\n" : "") + "<arg_value>" + text +
                  "</arg_value>\n";
        else
            to += "<parameter=" + name + ">\n" + text + "\n</parameter>\n";
    }
    to += is_glm ? "" : "</function>";
}

inline void writer::write_gemma(std::string& to, const json::value& value,
                                const std::string& quote) {
    if (value.is_string()) {
        to += quote + std::string(value.get_string()) + quote;
    } else if (value.is_array()) {
        to += '[';
        for (bool is_first = true; const json::value& item : value.get_array()) {
            if (!std::exchange(is_first, false)) to += ',';
            write_gemma(to, item, quote);
        }
        to += ']';
    } else if (value.is_object()) {
        to += '{';
        for (bool is_first = true; const auto& [key, item] : value.get_object()) {
            if (!std::exchange(is_first, false)) to += ',';
            to += std::string(key) + ':';
            write_gemma(to, item, quote);
        }
        to += '}';
    } else {
        to += json::serialize(value);
    }
}

inline void writer::write_python(std::string& to, const json::value& value) {
    if (value.is_bool()) {
        to += value.get_bool() ? "True" : "False";
    } else if (value.is_null()) {
        to += "None";
    } else if (value.is_string()) {
        const std::string text(value.get_string());
        const bool is_long = text.find('\n') != std::string::npos && maybe();
        const char quote = maybe() ? '"' : '\'';
        const std::string quotes(is_long ? 3 : 1, quote);
        to += quotes;
        for (const char c : text) {
            if (c == quote || c == '\\') to += '\\';
            if (c == '\n' && !is_long) {
                to += "\\n";
            } else {
                to += c;
            }
        }
        to += quotes;
    } else if (value.is_array()) {
        to += '[';
        for (const json::value& item : value.get_array()) {
            write_python(to, item);
            to += ", ";
        }
        to += ']';
    } else if (value.is_object()) {
        to += '{';
        for (bool is_first = true; const auto& [key, item] : value.get_object()) {
            if (!std::exchange(is_first, false)) to += ", ";
            write_python(to, json::string(key));
            to += ": ";
            write_python(to, item);
        }
        to += '}';
    } else {
        to += json::serialize(value);
    }
}

inline void writer::write_function(std::string& to, const said& call) {
    to += call.text + "(";
    for (bool is_first = true; const auto& [key, value] : call.arguments) {
        if (!std::exchange(is_first, false)) to += ", ";
        to += std::string(key) + (variant_ == 1 ? " = " : "=");
        write_python(to, value);
    }
    to += ")";
}

inline void writer::write_code(std::string& to, const said& call) {
    to += std::string("```tool_code\n") + (variant_ == 0 ? "print(" : "");
    write_function(to, call);
    to += variant_ == 0 ? ")\n```" : "\n```";
}

/// <invoke name="..."> and its kin, whose tags differ by form; nested values as Python in some.
inline void writer::write_invocation(std::string& to, const said& call, const char* tag) {
    const bool is_dsml = format_ == call_format::dsml;
    const std::string mark = is_dsml ? "｜DSML｜" : "";
    const std::string parameter = format_ == call_format::minicpm ? "param" : "parameter";
    const std::string line = variant_ == 0 ? "" : "\n";
    to += "<" + mark + tag + " name=\"" + call.text + "\">" + line;
    for (const auto& [key, value] : call.arguments) {
        to += "<" + mark + parameter + " name=\"" + std::string(key) + "\"";
        if (is_dsml) to += value.is_string() ? " string=\"true\"" : " string=\"false\"";
        to += ">";
        const bool is_section = format_ == call_format::minicpm && variant_ == 2;
        if (value.is_string() && is_section)
            to += "<![CDATA[" + std::string(value.get_string()) + "]]>";
        else if (value.is_string())
            to += std::string(value.get_string());
        else if (format_ == call_format::minicpm)
            write_python(to, value);
        else
            to += spaced(value);
        to += "</" + mark + parameter + ">" + line;
    }
    to += "</" + mark + tag + ">";
}

inline void writer::write_list(std::string& to, const said& call, bool is_first, bool is_last) {
    to += is_first ? "[" : ", ";
    write_object(to, call, "arguments");
    to += is_last ? "]" : "";
}

/// One of the functions below writes it: each knows the formats of its kind.
inline void writer::write_call(std::string& to, const said& call, int index, int count) {
    if (variant_ < 0) variant_ = one_of(3);
    const written_at at{to.empty() ? "" : "\n", index, index + 1 == count};
    write_json_call(to, call, at);
    write_listed_call(to, call, at);
    write_tagged_call(to, call, at);
    write_plain_call(to, call, at);
}

/// An object, or a name and arguments.
inline void writer::write_json_call(std::string& to, const said& call, const written_at& at) {
    switch (format_) {
        case call_format::hermes:
            to += at.line + "<tool_call>" + (variant_ == 0 ? "" : "\n");
            write_object(to, call, "arguments");
            to += variant_ == 2 ? "\n</tool_response>" : "\n</tool_call>";
            break;
        case call_format::llama3:
            to += variant_ == 0 ? "<|python_tag|>" : "";
            write_object(to, call, variant_ == 1 ? "arguments" : "parameters");
            break;
        case call_format::mistral:
            if (variant_ == 0) {
                to += at.index == 0 ? "[TOOL_CALLS] [" : ", ";
                write_object(to, call, "arguments");
                to += at.is_last ? "]" : "";
            } else {
                to += "[TOOL_CALLS]" + call.text +
                      (variant_ == 1 ? "[ARGS]" : "[CALL_ID]abc[ARGS]") + spaced(call.arguments);
            }
            break;
        case call_format::deepseek:
            to += at.index == 0 ? "<｜tool▁calls▁begin｜>" : variant_ == 0 ? "\n" : "";
            to += "<｜tool▁call▁begin｜>";
            if (variant_ == 0)
                to += "function<｜tool▁sep｜>" + call.text + "\n```json\n" +
                      spaced(call.arguments) + "\n```";
            else
                to += call.text + "<｜tool▁sep｜>" + spaced(call.arguments);
            to += "<｜tool▁call▁end｜>";
            to += at.is_last ? "<｜tool▁calls▁end｜>" : "";
            break;
        case call_format::harmony:
            to += variant_ == 0
                      ? " to=functions." + call.text + "<|channel|>commentary json<|message|>"
                      : "<|channel|>commentary to=functions." + call.text +
                            " <|constrain|>json<|message|>";
            to += spaced(call.arguments) + "<|call|>";
            break;
        case call_format::kimi:
            to += at.index == 0 ? "<|tool_calls_section_begin|>" : "";
            to += "<|tool_call_begin|>" + std::string(variant_ == 0 ? "" : "functions.") +
                  call.text + ":" + std::to_string(at.index + 9) + "<|tool_call_argument_begin|>" +
                  spaced(call.arguments) + "<|tool_call_end|>";
            to += at.is_last ? "<|tool_calls_section_end|>" : "";
            break;
        case call_format::gigachat:
            to += at.line + "<|function_call|>";
            write_object(to, call, "arguments");
            break;
        default:
            break;
    }
}

/// Objects in a list.
inline void writer::write_listed_call(std::string& to, const said& call, const written_at& at) {
    switch (format_) {
        case call_format::granite:
            to += at.index == 0 ? "<|tool_call|>" : "";
            write_list(to, call, at.index == 0, at.is_last);
            break;
        case call_format::nemotron:
            to += at.index == 0 ? at.line + "<TOOLCALL>" : "";
            write_list(to, call, at.index == 0, at.is_last);
            to += at.is_last ? "</TOOLCALL>" : "";
            break;
        case call_format::tool_calls:
            to += at.index == 0 ? at.line + "<tool_calls>" : "";
            if (variant_ == 0) {
                to += "\n";
                write_object(to, call, "arguments");
                to += at.is_last ? "\n</tool_calls>" : "";
                break;
            }
            write_list(to, call, at.index == 0, at.is_last);
            to += at.is_last ? "</tool_calls>" : "";
            break;
        default:
            break;
    }
}

/// Parameters between tags.
inline void writer::write_tagged_call(std::string& to, const said& call, const written_at& at) {
    switch (format_) {
        case call_format::qwen_xml:
            to += at.line + (variant_ == 0 ? "" : "<tool_call>\n");
            write_tags(to, call, false);
            to += variant_ == 0 ? "" : "\n</tool_call>";
            break;
        case call_format::glm:
            to += at.line + "<tool_call>";
            write_tags(to, call, true);
            to += "</tool_call>";
            break;
        case call_format::seed:
            to += at.line + "<seed:tool_call>\n<function=" + call.text + ">\n";
            for (const auto& [key, value] : call.arguments) {
                to += "<parameter=" + std::string(key) + ">";
                if (value.is_string())
                    to += std::string(value.get_string());
                else
                    write_python(to, value);
                to += "</parameter>\n";
            }
            to += "</function>\n</seed:tool_call>";
            break;
        case call_format::minimax:
            to += at.index == 0 ? at.line + "<minimax:tool_call>\n" : "\n";
            write_invocation(to, call, "invoke");
            to += at.is_last ? "\n</minimax:tool_call>" : "";
            break;
        case call_format::dsml: {
            const std::string section = variant_ == 1 ? "tool_calls>" : "function_calls>";
            to += at.index == 0 ? at.line + at.line + "<｜DSML｜" + section + "\n" : "\n";
            write_invocation(to, call, "invoke");
            to += at.is_last ? "\n</｜DSML｜" + section : "";
            break;
        }
        case call_format::minicpm:
            to += at.line;
            write_invocation(to, call, "function");
            break;
        default:
            break;
    }
}

/// Python, and Gemma's keys without quotes.
inline void writer::write_plain_call(std::string& to, const said& call, const written_at& at) {
    switch (format_) {
        case call_format::function_gemma:
            to += at.line + "<start_function_call>call:" + call.text;
            write_gemma(to, call.arguments, "<escape>");
            to += "<end_function_call>";
            break;
        case call_format::gemma4:
            to += at.line + "<|tool_call>call:" + call.text;
            write_gemma(to, call.arguments, "<|\"|>");
            to += "<tool_call|>";
            break;
        case call_format::tool_code:
            to += at.line;
            write_code(to, call);
            break;
        case call_format::olmo:
            to += at.index == 0 ? variant_ == 0 ? "<function_calls>" : "<function_calls>\n" : "\n";
            write_function(to, call);
            to += !at.is_last ? "" : variant_ == 0 ? "</function_calls>" : "\n</function_calls>";
            break;
        case call_format::lfm2:
            to += at.index == 0 ? "<|tool_call_start|>[" : variant_ == 0 ? ", " : ",";
            write_function(to, call);
            to += at.is_last ? "]<|tool_call_end|>" : "";
            break;
        default:
            break;
    }
}

/// The text that a model thinks before it calls is separated, too.
inline void writer::think(answer& out) {
    if (maybe()) return;
    out.written = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant" + out.written;
}

}  // namespace semantic::engine::written_calls
