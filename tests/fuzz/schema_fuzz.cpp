// SPDX-License-Identifier: Apache-2.0
// Schemas that nobody wrote: whatever is JSON compiles where it is not strict, with what is not
// held named in UTF-8 and not without end; is refused where it is strict and something is not held;
// and whatever has been written to it, something may follow or the answer is whole.

#include <boost/json.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "engine/grammar/forms/text_up_to.hpp"
#include "engine/grammar/json_grammar.hpp"
#include "storage/files/utf8.hpp"
#include "storage/types/assert.hpp"
#include "tests/fuzz/grammar_walk.hpp"

using namespace semantic;
using namespace semantic::engine;

namespace {

using strings = std::vector<std::string>;

std::shared_ptr<const grammar> compiled(const boost::json::value& schema, strings* not_held) {
    grammar_builder builder;
    json_grammar made(builder, json_spacing::free);
    const auto root = made.of_schema(schema, not_held);
    return std::make_shared<const grammar>(std::move(builder).build(root));
}

/// As arguments of a call, where they are not JSON through and through.
std::shared_ptr<const grammar> arguments(const boost::json::value& schema, json_dialect dialect) {
    grammar_builder builder;
    std::optional<string_mark> quote;
    if (dialect == json_dialect::gemma) {
        quote.emplace();
        quote->spelling = "<escape>";
        quote->mark = builder.literal(quote->spelling);
        const auto end = builder.any_of({{}});
        quote->any_string =
            builder.any_of({quote->mark + text_up_to(builder, "<escape>", end, false)});
    }
    json_grammar made(builder, json_spacing::none, dialect, quote);
    strings not_held;
    const auto root = made.arguments_of_schema(schema, &not_held);
    return std::make_shared<const grammar>(std::move(builder).build(root));
}

void check_refusal(const boost::json::value& schema, const strings& not_held) {
    try {
        compiled(schema, nullptr);
        ASSERT(not_held.empty());
    } catch (const unsupported_schema& error) {
        ASSERT(!not_held.empty() && not_held.front() == error.what());
    } catch (const grammar_too_large&) {  // what is left out would have made it small
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t count) {
    const std::string_view source(reinterpret_cast<const char*>(data), count);
    boost::system::error_code error;
    boost::json::parse_options options;
    options.max_depth = 256;
    const auto schema = boost::json::parse(source, error, {}, options);
    if (error) return 0;
    strings not_held;
    try {
        const auto rules = compiled(schema, &not_held);
        if (!rules->rules[rules->root].empty()) fuzz::walk(rules, source, 100);
        ASSERT(not_held.size() <= 65);
        for (const std::string& each : not_held) ASSERT(storage::utf8::is_valid(each));
        check_refusal(schema, not_held);
        const auto dialect = count % 2 == 0 ? json_dialect::gemma : json_dialect::python;
        const auto call = arguments(schema, dialect);
        if (!call->rules[call->root].empty()) fuzz::walk(call, source, 100);
    } catch (const grammar_too_large&) {
    }
    return 0;
}
