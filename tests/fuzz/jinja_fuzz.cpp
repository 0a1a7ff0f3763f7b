// SPDX-License-Identifier: Apache-2.0
// Chat templates that nobody wrote: whatever parses and renders within its limits gives UTF-8 whose
// content ranges lie in it, in order; whatever does not says why and where.

#include <boost/json.hpp>

#include <cstdint>
#include <string_view>

#include "engine/text/jinja/program.hpp"
#include "storage/files/utf8.hpp"
#include "storage/types/assert.hpp"

using namespace semantic;
using namespace semantic::engine;

namespace {

jinja::value variables() {
    return jinja::from_json(boost::json::parse(R"({"s": "Grüße 日本 <|im_end|>", "n": -7, "f": 2.5,
        "l": [3, "b", null, [true]], "d": {"a": {"b": "c"}, "items": 1}, "t": true,
        "messages": [{"role": "user", "content": "hi\n'\""}, {"role": "assistant", "content": null,
        "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]}],
        "tools": [{"type": "function", "function": {"name": "g", "parameters": {}}}]})"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t count) {
    static const jinja::value given = variables();
    const std::string_view source(reinterpret_cast<const char*>(data), count);
    const auto made = jinja::program::parse(source);
    if (!made) {
        ASSERT(!made.error().what.empty() && made.error().at.line > 0);
        return 0;
    }
    jinja::limits bounds;
    bounds.steps = 20'000;
    bounds.output_bytes = 100'000;
    const auto out = made->render(given, "2026-03-09", bounds);
    if (!out) {
        ASSERT(out.error().at.line > 0 && out.error().at.column > 0);
        return 0;
    }
    ASSERT(storage::utf8::is_valid(out->text));
    ASSERT(out->text.size() <= bounds.output_bytes);
    std::size_t last = 0;
    bool first = true;
    for (const jinja::byte_range& range : out->content) {
        ASSERT(range.begin < range.end && range.end <= out->text.size());
        ASSERT(first || range.begin > last);
        last = range.end;
        first = false;
    }
    return 0;
}
