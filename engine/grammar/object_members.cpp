// SPDX-License-Identifier: Apache-2.0
// Writes objects: which members they have, in which order and how many.

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "engine/grammar/json_grammar.hpp"
#include "engine/grammar/values/growing_charge.hpp"

namespace semantic::engine {

namespace {

using symbol = grammar_builder::symbol;
using sequence = grammar_builder::sequence;

byte_set key_bytes() {
    byte_set set;
    for (std::size_t c = 0x20; c < 0x7f; ++c) set.set(c);
    set.reset('"');
    set.reset('\\');
    return set;
}

/// A trie of the declared names, by which other keys are written: keys that are none of them.
class name_beginnings {
  public:
    explicit name_beginnings(storage::work_budget& budget) : memory_(budget) {
        memory_.add(node_bytes);
    }

    /// Adds a declared name. A name with a character outside of `key_bytes_` needs no mark, because
    /// other keys are written with these bytes only; its beginning in the trie does no harm.
    void add(std::string_view name) {
        std::size_t at = 0;
        for (const char c : name) {
            if (!key_bytes_.test(static_cast<unsigned char>(c))) return;
            memory_.budget().charge_steps();
            const auto [known, is_new] = all_[at].next.try_emplace(c, all_.size());
            at = known->second;
            if (!is_new) continue;
            memory_.add(node_bytes);
            all_.emplace_back();
        }
        all_[at].is_name = true;
    }

    /// The rest of a key after its first quote, if it is none of the names. Nodes are written from
    /// longer beginnings to shorter ones, because these refer to longer ones.
    symbol other_keys(grammar_builder& out) const {
        const grammar_builder::sequence quote = out.literal("\"");
        const symbol any = out.repeat({out.bytes(key_bytes_)}, 0, -1);
        std::vector<symbol> written(all_.size());
        for (std::size_t i = all_.size(); i-- > 0;) {
            std::vector<sequence> ways;
            if (!all_[i].is_name) ways.push_back(quote);
            byte_set free = key_bytes_;
            for (const auto& [c, to] : all_[i].next) {
                free.reset(static_cast<unsigned char>(c));
                ways.push_back(out.literal(std::string_view(&c, 1)) + written[to]);
            }
            ways.push_back(sequence{out.bytes(free), any} + quote);
            written[i] = out.any_of(std::move(ways));
        }
        return written[0];
    }

  private:
    struct beginning {
        std::map<char, std::size_t> next;  // longer by one character
        bool is_name = false;
    };
    static constexpr std::size_t node_bytes = sizeof(beginning) + 64;

    const byte_set key_bytes_ = key_bytes();  // of which keys of other names consist
    growing_charge memory_;
    std::vector<beginning> all_{1};  // [0]: the empty one
};

// [n]: what may follow when n members have been written. The last element is for the greatest
// count: the most members or, without such a bound, all counts from there on.
using continuations = std::vector<symbol>;

class member_writer {
  public:
    member_writer(json_grammar& out, const object_rules& rules)
        : out_(out),
          builder_(out.builder()),
          rules_(rules),
          // Without a most, all counts from the least on allow the same; at least 1, because the
          // first member has no comma before it.
          last_count_(rules.most >= 0 ? rules.most : std::max(1, rules.least)) {}

    symbol object() {
        continuations at = after_declared();
        // From the last declared member to the first: at[n] is what may follow n members.
        for (auto p = rules_.properties.rbegin(); p != rules_.properties.rend(); ++p) {
            const sequence member = out_.member_name(p->name, rules_.are_arguments) + p->value;
            continuations now;
            for (int n = 0; n <= last_count_; ++n) {
                std::vector<sequence> ways;
                if (n < last_count_ || rules_.most < 0)
                    ways.push_back(with_comma(n, member) + symbol_at(at, n + 1));
                if (!p->required) ways.push_back({symbol_at(at, n)});
                now.push_back(builder_.any_of(std::move(ways)));
            }
            at = std::move(now);
        }
        const auto [open, close] = out_.brackets(rules_.are_arguments);
        return builder_.any_of({builder_.literal(open) + out_.blank() + at[0] + out_.blank() +
                                builder_.literal(close)});
    }

  private:
    symbol symbol_at(const continuations& at, int n) const {
        return at[static_cast<std::size_t>(std::min(n, last_count_))];
    }
    sequence with_comma(int written, const sequence& member) {
        return written == 0 ? member : sequence{out_.comma()} + member;
    }

    /// For each count n of members so far, the rule of what may follow when no declared member is
    /// left: further undeclared ones, or nothing when n is enough.
    continuations after_declared() {
        continuations at(static_cast<std::size_t>(last_count_) + 1);
        sequence member;
        if (rules_.others) member = {rules_.others->key, out_.colon(), rules_.others->value};
        for (int n = last_count_; n >= 0; --n) {
            std::vector<sequence> ways;
            if (n >= rules_.least) ways.emplace_back();
            if (rules_.others && n == last_count_ && rules_.most < 0)
                ways = {{builder_.repeat(with_comma(n, member), 0, -1)}};
            else if (rules_.others && n < last_count_)
                ways.push_back(with_comma(n, member) + symbol_at(at, n + 1));
            at[static_cast<std::size_t>(n)] = builder_.any_of(std::move(ways));
        }
        return at;
    }

    json_grammar& out_;
    grammar_builder& builder_;
    const object_rules& rules_;
    const int last_count_;
};

}  // namespace

symbol other_key(grammar_builder& out, const std::vector<declared_property>& properties) {
    name_beginnings names(out.budget());
    for (const declared_property& p : properties) names.add(p.name);
    return out.any_of({out.literal("\"") + names.other_keys(out)});
}

symbol objects_of(json_grammar& out, const object_rules& rules) {
    return member_writer(out, rules).object();
}

}  // namespace semantic::engine
