// Schemas that nobody wrote: whatever is JSON compiles where it is not strict, with what is not
// held named in UTF-8 and not without end; is refused where it is strict and something is not held;
// and whatever has been written to it, something may follow or the answer is whole.

#include <boost/json.hpp>

#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/grammar/grammar_matcher.hpp"
#include "engine/grammar/json_grammar.hpp"
#include "storage/files/utf8.hpp"
#include "storage/types/assert.hpp"

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

void check_refusal(const boost::json::value& schema, const strings& not_held) {
    try {
        compiled(schema, nullptr);
        ASSERT(not_held.empty());
    } catch (const unsupported_schema& error) {
        ASSERT(!not_held.empty() && not_held.front() == error.what());
    } catch (const grammar_too_large&) {  // what is left out would have made it small
    }
}

/// Bytes that may follow, chosen by those of the schema itself.
void walk(const std::shared_ptr<const grammar>& rules, std::string_view choices) {
    grammar_matcher matcher(rules);
    auto at = matcher.start();
    if (rules->rules[rules->root].empty()) return;
    for (std::size_t i = 0; i < 100; ++i) {
        if (!matcher.goes_on(at)) {
            ASSERT(matcher.accepts(at));
            return;
        }
        const auto first = static_cast<unsigned char>(choices[i % choices.size()]);
        auto next = grammar_matcher::dead;
        for (unsigned tried = 0; tried < 256 && next == grammar_matcher::dead; ++tried)
            next = matcher.step(at, static_cast<unsigned char>(first + tried));
        ASSERT(next != grammar_matcher::dead);
        at = next;
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
        walk(rules, source);
        ASSERT(not_held.size() <= 65);
        for (const std::string& each : not_held) ASSERT(storage::utf8::is_valid(each));
        check_refusal(schema, not_held);
    } catch (const grammar_too_large&) {
    }
    return 0;
}
