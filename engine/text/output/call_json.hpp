#pragma once
// The JSON object of a tool call as models write it. For the parsers of engine/text only.

#include <string>
#include <string_view>

#include "engine/text/output/output_parser.hpp"

namespace semantic::engine {

enum class call_reading { whole, unfinished, malformed };

/// {"name": ..., "arguments": {...}}; the arguments may be missing.
call_reading read_hermes_call(std::string_view text, answer_call& call);
/// {"name": ..., "parameters": {...}}, or arguments instead of parameters. One of them must be
/// there: without, an answer that happens to be JSON would be taken for a call.
call_reading read_llama3_call(std::string_view text, answer_call& call);
/// An object of arguments; white space alone stands for an empty one.
call_reading read_arguments(std::string_view text, std::string& arguments_json);

}  // namespace semantic::engine
