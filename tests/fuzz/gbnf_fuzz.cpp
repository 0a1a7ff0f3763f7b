// Grammars that nobody wrote: each is told with its place, or compiles; and whatever has been
// written to it, something may follow or the answer is whole.

#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/grammar/forms/gbnf.hpp"
#include "engine/grammar/grammar_matcher.hpp"
#include "storage/types/assert.hpp"

using namespace semantic::engine;

namespace {

/// Bytes that may follow, chosen by those of the text itself.
void walk(const std::shared_ptr<const grammar>& rules, std::string_view choices) {
    grammar_matcher matcher(rules);
    auto at = matcher.start();
    for (std::size_t i = 0; i < 40; ++i) {
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
    try {
        grammar_builder builder;
        const auto root = read_gbnf(builder, source);
        const auto rules = std::make_shared<const grammar>(std::move(builder).build(root));
        if (!rules->rules[rules->root].empty() && !recurses_on_the_left(*rules))
            walk(rules, source);
    } catch (const invalid_grammar& error) {
        ASSERT(*error.what() != '\0');
    } catch (const grammar_too_large&) {
    }
    return 0;
}
