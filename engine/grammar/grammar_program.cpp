// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar/grammar_program.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace semantic::engine {

grammar_program::grammar_program(std::shared_ptr<const grammar> source, int outlook)
    : rules(std::move(source)), outlook_bytes(outlook) {
    flatten();
    classify_bytes();
}

std::size_t grammar_program::memory_bytes() const {
    return sizeof(*this) + rules->memory_bytes + symbols.capacity() * sizeof(grammar::symbol) +
           (labels.capacity() + starts.capacity() + first_start.capacity()) *
               sizeof(std::uint32_t) +
           bytes_least.capacity() * sizeof(int);
}

void grammar_program::flatten() {
    std::size_t alternatives = 0, positions = 0;
    for (const auto& rule : rules->rules) {
        alternatives += rule.size();
        for (const grammar::sequence& alternative : rule) positions += alternative.size() + 1;
    }
    symbols.reserve(positions);
    labels.reserve(positions);
    bytes_least.reserve(positions);
    starts.reserve(alternatives);
    first_start.reserve(rules->rules.size() + 1);
    chain_labels known;
    for (std::size_t rule = 0; rule < rules->rules.size(); ++rule) {
        first_start.push_back(static_cast<std::uint32_t>(starts.size()));
        for (const grammar::sequence& alternative : rules->rules[rule]) {
            starts.push_back(static_cast<std::uint32_t>(symbols.size()));
            symbols.insert(symbols.end(), alternative.begin(), alternative.end());
            symbols.push_back({grammar::kind::rule, end_mark});
            add_labels(rule, alternative, known);
        }
    }
    first_start.push_back(static_cast<std::uint32_t>(starts.size()));
}

// Adds the labels of one alternative. Rules of a repetition's chain with more than outlook_bytes
// times left get equal labels, because each time takes at least a byte. The last symbol of a
// chain's alternative is the chain's next rule.
void grammar_program::add_labels(std::size_t rule, const grammar::sequence& alternative,
                                 chain_labels& known) {
    const std::size_t begin = labels.size(), end = symbols.size();
    labels.resize(end);
    bytes_least.resize(end);
    int to_the_end = 0;
    for (std::size_t i = alternative.size(); i-- > 0;) {
        const grammar::symbol& s = alternative[i];
        const int bytes = s.type == grammar::kind::rule ? rules->bytes_least[s.index] : 1;
        to_the_end = std::min(grammar::bytes_far, to_the_end + bytes);
        bytes_least[begin + i] = to_the_end;
    }
    for (std::size_t i = begin; i < end; ++i) labels[i] = static_cast<std::uint32_t>(i);
    const grammar::repetition& chain = rules->repetitions[rule];
    // Without a chain, in its empty alternative, and where a unit may be empty and so take no byte,
    // each position keeps a label of its own.
    if (chain.chain == 0 || alternative.size() < 2 ||
        bytes_least[begin] == bytes_least[begin + alternative.size() - 1])
        return;
    const int far = outlook_bytes + 1;
    const int least = std::min(chain.least_left, far);
    const int most = chain.most_left < 0 ? far : std::min(chain.most_left, far);
    for (std::size_t i = 0; i < alternative.size(); ++i)
        labels[begin + i] =
            known
                .try_emplace({static_cast<int>(chain.chain), static_cast<int>(i), least, most},
                             labels[begin + i])
                .first->second;
}

// Two bytes are in one class if every set has both or neither. Starts with one class; each set
// divides the classes that are left.
void grammar_program::classify_bytes() {
    for (const byte_set& set : rules->byte_sets) {
        if (classes == class_of.size()) return;
        std::unordered_map<std::uint32_t, std::uint16_t> divided;  // key: class, and whether in set
        std::array<std::uint16_t, 256> next{};
        for (std::size_t byte = 0; byte < class_of.size(); ++byte) {
            const std::uint32_t key = class_of[byte] * 2u + (set.test(byte) ? 1u : 0u);
            next[byte] =
                divided.try_emplace(key, static_cast<std::uint16_t>(divided.size())).first->second;
        }
        class_of = next;
        classes = divided.size();
    }
}

}  // namespace semantic::engine
