// Which members an object has, in which order and how many.

#include <algorithm>
#include <set>
#include <string>

#include "engine/grammar/json_grammar.hpp"

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

// The rest of a key, its quote included, that is none of `names` behind what is written of it.
symbol key_behind(grammar_builder& out, const std::string& written,
                  const std::set<std::string>& names) {
    std::vector<sequence> ways;
    if (!names.contains(written)) ways.push_back(out.literal("\""));
    byte_set free = key_bytes();
    std::set<char> next;
    for (auto name = names.lower_bound(written); name != names.end() && name->starts_with(written);
         ++name)
        if (name->size() > written.size()) next.insert((*name)[written.size()]);
    for (char c : next) {
        if (!key_bytes().test(static_cast<unsigned char>(c))) continue;
        free.reset(static_cast<unsigned char>(c));
        ways.push_back(out.literal(std::string(1, c)) + key_behind(out, written + c, names));
    }
    ways.push_back(sequence{out.bytes(free), out.repeat({out.bytes(key_bytes())}, 0, -1)} +
                   out.literal("\""));
    return out.any_of(std::move(ways));
}

// [n]: what may follow when n members have been written; the last element stands for as many and
// more where there is no most.
using continuations = std::vector<symbol>;

class member_writer {
  public:
    member_writer(json_grammar& out, const object_rules& rules)
        : out_(out),
          builder_(out.builder()),
          rules_(rules),
          top_(rules.most >= 0 ? rules.most : std::max(1, rules.least)) {}

    symbol object() {
        continuations at = behind_declared();
        for (auto p = rules_.properties.rbegin(); p != rules_.properties.rend(); ++p) {
            const sequence member = out_.member_name(p->name, rules_.are_arguments) + p->value;
            continuations now;
            for (int n = 0; n <= top_; ++n) {
                std::vector<sequence> ways;
                if (n < top_ || rules_.most < 0)
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
        return at[static_cast<std::size_t>(std::min(n, top_))];
    }
    sequence with_comma(int written, const sequence& member) {
        return written == 0 ? member : sequence{out_.comma()} + member;
    }

    continuations behind_declared() {
        continuations at(static_cast<std::size_t>(top_) + 1);
        sequence member;
        if (rules_.others) member = {rules_.others->key, out_.colon(), rules_.others->value};
        for (int n = top_; n >= 0; --n) {
            std::vector<sequence> ways;
            if (n >= rules_.least) ways.emplace_back();
            if (rules_.others && n == top_ && rules_.most < 0)
                ways = {{builder_.repeat(with_comma(n, member), 0, -1)}};
            else if (rules_.others && n < top_)
                ways.push_back(with_comma(n, member) + symbol_at(at, n + 1));
            at[static_cast<std::size_t>(n)] = builder_.any_of(std::move(ways));
        }
        return at;
    }

    json_grammar& out_;
    grammar_builder& builder_;
    const object_rules& rules_;
    const int top_;
};

}  // namespace

symbol other_key(grammar_builder& out, const std::vector<declared_property>& properties) {
    std::set<std::string> names;
    for (const declared_property& p : properties) names.insert(p.name);
    return out.any_of({out.literal("\"") + key_behind(out, "", names)});
}

symbol objects_of(json_grammar& out, const object_rules& rules) {
    return member_writer(out, rules).object();
}

}  // namespace semantic::engine
