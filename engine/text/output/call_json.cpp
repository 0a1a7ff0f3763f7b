#include "engine/text/output/call_json.hpp"

#include <boost/json.hpp>

#include "engine/text/output/json_text.hpp"
#include "engine/text/tokenizer/json_access.hpp"

namespace semantic::engine {

namespace {

call_reading read_object(std::string_view text, boost::json::value& json) {
    boost::json::stream_parser parser;
    boost::system::error_code error;
    parser.write(text.data(), text.size(), error);
    if (error) return call_reading::malformed;
    if (!parser.done()) return call_reading::unfinished;
    parser.finish(error);
    if (error) return call_reading::unfinished;
    json = parser.release();
    return json.is_object() ? call_reading::whole : call_reading::malformed;
}

}  // namespace

call_reading read_hermes_call(std::string_view text, answer_call& call) {
    boost::json::value json;
    if (const call_reading read = read_object(text, json); read != call_reading::whole) return read;
    const boost::json::value& arguments = member(json, "arguments");
    const bool has_arguments = json.get_object().contains("arguments");
    call.name = text_of(json, "name");
    if (call.name.empty() || (has_arguments && !arguments.is_object())) {
        return call_reading::malformed;
    }
    call.arguments_json = has_arguments ? to_json_text(arguments) : "{}";
    return call_reading::whole;
}

call_reading read_llama3_call(std::string_view text, answer_call& call) {
    boost::json::value json;
    if (const call_reading read = read_object(text, json); read != call_reading::whole) return read;
    const bool published = json.get_object().contains("parameters");
    const boost::json::value& arguments = member(json, published ? "parameters" : "arguments");
    call.name = text_of(json, "name");
    if (call.name.empty() || !arguments.is_object()) return call_reading::malformed;
    call.arguments_json = to_json_text(arguments);
    return call_reading::whole;
}

call_reading read_arguments(std::string_view text, std::string& arguments_json) {
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
        arguments_json = "{}";
        return call_reading::whole;
    }
    boost::json::value json;
    if (const call_reading read = read_object(text, json); read != call_reading::whole) return read;
    arguments_json = to_json_text(json);
    return call_reading::whole;
}

}  // namespace semantic::engine
