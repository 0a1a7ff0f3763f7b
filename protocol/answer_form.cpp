#include "protocol/answer_form.hpp"

#include <boost/json.hpp>

#include <algorithm>

namespace semantic::protocol {

using kind = engine::output_form::kind;

void set_tool_use(answer_request& request, tool_use use, bool several,
                  const std::optional<std::string>& only, const json_cursor& place) {
    const auto& tools = request.chat.tools;
    if (!several) request.tool_calls_max = 1;
    if (use == tool_use::never) request.tool_calls_max = 0;
    if (use == tool_use::when_wanted) {
        bool any_strict =
            std::any_of(tools.begin(), tools.end(), [](const auto& tool) { return tool.strict; });
        if (any_strict && request.form.what == kind::free) request.form.what = kind::strict_calls;
        request.form.calls_too = request.form.what == kind::json && !tools.empty();
        request.form.several_calls = several;
    }
    if (use != tool_use::always) return;
    if (tools.empty()) place.fail(errc::bad_value, "there are no tools to call");
    if (request.form.what == kind::json)
        place.fail(errc::bad_value, "an answer cannot be tool calls and a JSON text at once");
    if (only) {
        bool known = std::any_of(tools.begin(), tools.end(),
                                 [&](const auto& tool) { return tool.name == *only; });
        if (!known) place.fail(errc::bad_value, "there is no tool '" + *only + "'");
        request.form.tools = {*only};
    }
    request.form.what = kind::calls;
    request.form.several_calls = several;
}

void set_json_schema(answer_request& request, const json_cursor& schema, bool is_strict) {
    schema.as_object();
    request.form.what = kind::json;
    request.form.schema_json = to_text(schema.value());
    request.form.is_strict = is_strict;
}

}  // namespace semantic::protocol
