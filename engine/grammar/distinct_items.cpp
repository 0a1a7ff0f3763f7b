// SPDX-License-Identifier: Apache-2.0
// Arrays whose elements are all different. The grammar remembers which values were written: as a
// set of values or, if these are many, as the last one, after which only later ones may follow.

#include <boost/json.hpp>

#include <algorithm>
#include <deque>
#include <map>

#include "engine/grammar/json_grammar.hpp"
#include "engine/grammar/values/growing_charge.hpp"
#include "engine/grammar/values/json_values.hpp"
#include "engine/text/output/json_text.hpp"

namespace semantic::engine {

namespace {

using symbol = grammar_builder::symbol;
using sequence = grammar_builder::sequence;

constexpr std::size_t any_order_max = 10;  // the grammar has a rule for each set of written values
constexpr std::size_t values_max = 1000;
constexpr std::size_t counted_states_max = 20'000;  // number of values times number of counts

// 1 and 1.0 are the same value.
boost::json::value comparable(const boost::json::value& value) {
    if (value.is_number()) return value.to_number<double>();
    return value;
}

class distinct_writer {
  public:
    distinct_writer(json_grammar& out, int least, int most)
        : out_(out), builder_(out.builder()), least_(least), most_(most) {}

    /// The rule of an array of some of `values`, each at most once. Few values may come in any
    /// order, more only in the order given; with very many the length is limited, too.
    symbol array(const boost::json::array& values) {
        for (const boost::json::value& value : values)
            values_.push_back(builder_.any_of({builder_.literal(to_json_text(value))}));
        const bool any_order = values_.size() <= any_order_max;
        // Nothing more to count where all may come.
        if (most_ < 0 || most_ > static_cast<int>(values_.size()))
            most_ = static_cast<int>(values_.size());
        if (!any_order && values_.size() * static_cast<std::size_t>(most_) > counted_states_max)
            most_ = std::max(least_, static_cast<int>(counted_states_max / values_.size()));
        const symbol inner = any_order ? behind_set(0, 0) : in_order();
        return builder_.any_of(
            {builder_.literal("[") + out_.blank() + inner + out_.blank() + builder_.literal("]")});
    }

  private:
    // An element, after `written` others.
    sequence element(std::size_t index, int written) {
        return written == 0 ? sequence{values_[index]} : sequence{out_.comma(), values_[index]};
    }
    // The alternative without a further element; none if too few are written.
    std::vector<sequence> end(int written) const {
        return written >= least_ ? std::vector<sequence>{{}} : std::vector<sequence>{};
    }

    // What may follow the `written` values of `set` (bit i: the i-th value). Each set is one rule.
    // Recursion is at most any_order_max deep.
    symbol behind_set(unsigned set, int written) {
        auto [known, is_new] = sets_.try_emplace(set, symbol{});
        if (!is_new) return known->second;
        std::vector<sequence> ways = end(written);
        for (std::size_t i = 0; i < values_.size() && written < most_; ++i)
            if ((set >> i & 1) == 0)
                ways.push_back(element(i, written) + behind_set(set | 1u << i, written + 1));
        return sets_[set] = builder_.any_of(std::move(ways));
    }

    // In the order of `values`, built from the last one: each value comes or not, then later ones.
    symbol in_order() {
        std::vector<symbol> later, here;  // [written]
        for (int n = 0; n <= most_; ++n) later.push_back(builder_.any_of(end(n)));
        for (std::size_t i = values_.size(); i-- > 0; later = std::move(here)) {
            here.clear();
            for (int n = 0; n <= most_; ++n) {
                const auto at = static_cast<std::size_t>(n);
                std::vector<sequence> ways{{later[at]}};
                if (n < most_) ways.push_back(element(i, n) + later[at + 1]);
                here.push_back(builder_.any_of(std::move(ways)));
            }
        }
        return later[0];
    }

    json_grammar& out_;
    grammar_builder& builder_;
    const int least_;
    int most_;
    std::vector<symbol> values_;       // the rule of each value
    std::map<unsigned, symbol> sets_;  // by set of written values: the rule of the rest
};

}  // namespace

symbol distinct_items(json_grammar& out, const boost::json::array& values, int least, int most) {
    storage::work_budget& budget = out.builder().budget();
    growing_charge memory(budget);
    std::deque<boost::json::value> compared;  // what known points to
    value_set known;
    boost::json::array different;
    for (const boost::json::value& value : values) {
        // A copy to compare, its entry in `known`, and a copy in `different`.
        memory.add(3 * charge_walk(value, budget));
        compared.push_back(comparable(value));
        if (known.insert(&compared.back()).second) different.push_back(value);
    }
    const std::size_t count = different.size();
    if (count > values_max || count < static_cast<std::size_t>(least))
        throw unsupported_schema("'uniqueItems' of " + std::to_string(count) +
                                 " values with these bounds is not supported");
    return distinct_writer(out, least, most).array(different);
}

}  // namespace semantic::engine
