// SPDX-License-Identifier: Apache-2.0
// Arbitrary grammars: each is refused with the place of its fault, or compiles; and after any
// accepted text something may follow or the answer is whole.

#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/grammar/forms/gbnf.hpp"
#include "storage/types/assert.hpp"
#include "tests/fuzz/grammar_walk.hpp"

using namespace semantic;
using namespace semantic::engine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t count) {
    const std::string_view source(reinterpret_cast<const char*>(data), count);
    try {
        grammar_builder builder;
        const auto root = read_gbnf(builder, source);
        const auto rules = std::make_shared<const grammar>(std::move(builder).build(root));
        if (!rules->rules[rules->root].empty() && !recurses_on_the_left(*rules))
            fuzz::walk(rules, source, 40);
    } catch (const invalid_grammar& error) {
        ASSERT(*error.what() != '\0');
    } catch (const grammar_too_large&) {
    }
    return 0;
}
