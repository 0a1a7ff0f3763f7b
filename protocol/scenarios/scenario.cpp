// SPDX-License-Identifier: Apache-2.0
#include "protocol/scenarios/scenario.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <sstream>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include "protocol/coordination/opening.hpp"
#include "protocol/scenarios/choice_pattern.hpp"

namespace semantic::protocol::scenarios {

namespace {

using coordination::characters;

constexpr std::array roles{"participant", "observer", "narrator", "judge", "moderator", "critic"};
constexpr std::array outcome_names{"parse_choice", "vote_tally", "summary"};
// Bounds of one map, and of the labels of an outcome or a payoff.
constexpr std::size_t keys_max = 1'000;
constexpr std::size_t labels_max = 30;

bool is_word(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

std::string too_many_nodes() {
    return "a scenario may have " + std::to_string(scenario_nodes_max) + " keys, values and lists";
}

/// Counts the nodes of a YAML file while it is parsed, before any are built in memory. Refuses
/// aliases: a few bytes of them may expand to something very large.
class node_counter final : public YAML::EventHandler {
  public:
    void OnDocumentStart(const YAML::Mark&) override {}
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark& at, YAML::anchor_t anchor) override { count(at, anchor); }
    void OnAlias(const YAML::Mark& at, YAML::anchor_t) override {
        throw YAML::ParserException(at, no_aliases);
    }
    void OnScalar(const YAML::Mark& at, const std::string&, YAML::anchor_t anchor,
                  const std::string&) override {
        count(at, anchor);
    }
    void OnSequenceStart(const YAML::Mark& at, const std::string&, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value) override {
        enter(at, anchor);
    }
    void OnSequenceEnd() override { --depth_; }
    void OnMapStart(const YAML::Mark& at, const std::string&, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value) override {
        enter(at, anchor);
    }
    void OnMapEnd() override { --depth_; }

  private:
    static constexpr const char* no_aliases = "anchors and aliases are not taken";
    static constexpr int depth_max = 16;

    void count(const YAML::Mark& at, YAML::anchor_t anchor) {
        if (anchor != YAML::NullAnchor) throw YAML::ParserException(at, no_aliases);
        if (++nodes_ > scenario_nodes_max) throw YAML::ParserException(at, too_many_nodes());
    }
    void enter(const YAML::Mark& at, YAML::anchor_t anchor) {
        count(at, anchor);
        if (++depth_ > depth_max)
            throw YAML::ParserException(
                at, "lists and keys may be in " + std::to_string(depth_max) + " others");
    }

    std::size_t nodes_ = 0;
    int depth_ = 0;
};

/// A node of the file with its path. The first complaint is what parse_scenario() returns; nothing
/// more is read after it.
class place {
  public:
    place(YAML::Node node, std::string path, std::optional<failure>& fault, int line)
        : node_(std::move(node)), path_(std::move(path)), fault_(fault), line_(line) {}

    void complain(errc code, const std::string& message) const {
        if (fault_) return;
        fault_ = fail(code, "line " + std::to_string(line_) + ": " +
                                (path_.empty() ? message : path_ + ": " + message));
    }
    bool ok() const { return !fault_; }

    /// Returns: the value of a key; nothing where it is absent or null.
    std::optional<place> find(const std::string& key) const {
        if (!ok() || !node_.IsMap()) return std::nullopt;
        const YAML::Node found = node_[key];
        if (!found.IsDefined() || found.IsNull()) return std::nullopt;
        return place(found, path_.empty() ? key : path_ + "." + key, fault_, line_of(found));
    }
    /// Returns: the items of a list; complains where it is none or longer than `count_max`.
    std::vector<place> items(std::size_t count_max) const {
        std::vector<place> out;
        if (!ok()) return out;
        if (!node_.IsSequence()) {
            complain(errc::bad_value, "must be a list");
            return out;
        }
        if (node_.size() > count_max) {
            complain(errc::bad_value, "may have " + std::to_string(count_max) + " entries");
            return out;
        }
        for (std::size_t i = 0; i < node_.size(); ++i)
            out.emplace_back(node_[i], path_ + "[" + std::to_string(i) + "]", fault_,
                             line_of(node_[i]));
        return out;
    }
    /// Returns: the keys and values of a map.
    std::vector<std::pair<std::string, place>> fields() const {
        std::vector<std::pair<std::string, place>> out;
        if (!ok()) return out;
        if (!node_.IsMap()) {
            complain(errc::bad_value, "must have keys and values");
            return out;
        }
        if (node_.size() > keys_max) {
            complain(errc::bad_value, "may have " + std::to_string(keys_max) + " keys");
            return out;
        }
        for (const auto& each : node_) {
            // A key that is no text is an empty one, which is refused where it is read.
            const std::string key = each.first.IsScalar() ? each.first.Scalar() : std::string();
            out.emplace_back(key,
                             place(each.second, path_ + "." + key, fault_, line_of(each.first)));
        }
        return out;
    }
    /// Returns: a text of at most `max` characters.
    std::string text(std::size_t max, bool is_required) const {
        if (!ok()) return {};
        if (!node_.IsScalar()) {
            complain(errc::bad_value, "must be a text");
            return {};
        }
        const std::string& value = node_.Scalar();
        if (is_required && value.empty()) complain(errc::bad_value, "must not be empty");
        if (const std::size_t count = characters(value); count > max)
            complain(errc::bad_value, "may have " + std::to_string(max) + " characters, has " +
                                          std::to_string(count));
        return value;
    }
    std::string text_at(const std::string& key, std::size_t max, bool is_required) const {
        if (auto field = find(key)) return field->text(max, is_required);
        if (is_required) complain(errc::missing_field, key + " is missing");
        return {};
    }
    /// Reads a number from `low` to `high`; `otherwise` where there is none.
    int integer_at(const std::string& key, int low, int high, int otherwise) const {
        auto field = find(key);
        if (!field) return otherwise;
        int value = otherwise;
        const bool is_number =
            field->node_.IsScalar() && YAML::convert<int>::decode(field->node_, value);
        if (!is_number || value < low || value > high)
            field->complain(errc::bad_value, "must be a number from " + std::to_string(low) +
                                                 " to " + std::to_string(high));
        return value;
    }
    /// Reads a word of `names` as the value at its index; `otherwise` where there is none.
    template <class Enum, class Names>
    Enum word_at(const std::string& key, const Names& names, Enum otherwise) const {
        auto field = find(key);
        if (!field) return otherwise;
        const std::string word = field->text(100, true);
        std::string all;
        for (std::size_t i = 0; i < names.size(); ++i) {
            if (word == names[i]) return static_cast<Enum>(i);
            all += (all.empty() ? "" : ", ") + std::string(names[i]);
        }
        field->complain(errc::bad_value, "must be one of " + all + ", is " + word);
        return otherwise;
    }
    std::vector<std::string> texts_at(const std::string& key, std::size_t count_max) const {
        std::vector<std::string> out;
        auto field = find(key);
        if (!field) return out;
        for (const place& each : field->items(count_max)) out.push_back(each.text(200, true));
        return out;
    }

  private:
    static int line_of(const YAML::Node& node) { return node.Mark().line + 1; }

    YAML::Node node_;
    std::string path_;
    std::optional<failure>& fault_;  // the first complaint, shared by all places
    int line_;
};

/// Whether `text` begins with a lower-case letter and has only these, digits and the characters in
/// `more`, at most `max` of them.
bool is_identifier(std::string_view text, std::string_view more, std::size_t max) {
    if (text.empty() || text.size() > max || text[0] < 'a' || text[0] > 'z') return false;
    return std::ranges::all_of(text, [&](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               more.find(c) != std::string_view::npos;
    });
}

/// The names that were read so far.
struct known_names {
    std::set<std::string> agents{};  // keys
    std::set<std::string> display_names{};
    std::set<std::string> phases{};
};

/// Reads an agent. `known`: the names read so far, to which this one is added.
scenario_agent read_agent(const std::string& key, const place& at, known_names& known) {
    scenario_agent one;
    one.key = key;
    if (key.size() > 30 || key.empty() || !std::ranges::all_of(key, is_word))
        at.complain(errc::bad_value, "an agent's key is of up to 30 letters, digits, _ and -");
    one.name = at.text_at("display_name", coordination::name_characters_max, true);
    const bool is_one_line = std::ranges::none_of(
        one.name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == ':'; });
    if (!is_one_line) at.complain(errc::bad_value, "display_name may not have a colon");
    // Quoted lines begin with the speaker's name, so names must differ.
    if (!known.display_names.insert(one.name).second)
        at.complain(errc::bad_value, "there is another agent of the name " + one.name);
    known.agents.insert(key);
    // Any enumeration does: word_at() returns an index as one. Absent: roles[0].
    enum class any_role {};
    const auto role = at.word_at("role", roles, any_role{});
    one.role = roles[static_cast<std::size_t>(role)];
    one.system_prompt = at.text_at("system_prompt", coordination::system_characters_max, false);
    one.life =
        at.word_at("lifecycle", coordination::lifecycle_names, coordination::lifecycle::ephemeral);
    return one;
}

/// Complains of a reference in a template to a phase that does not come earlier, or to an unknown
/// agent.
void check_template(const place& at, std::string_view text, const known_names& known) {
    for (const reference& each : references_in(text)) {
        if (!known.phases.contains(each.phase))
            at.complain(errc::bad_value, "there is no earlier phase " + each.phase);
        if (!known.agents.contains(each.agent))
            at.complain(errc::bad_value, "there is no agent " + each.agent);
        if (!at.ok()) return;
    }
}

/// Reads the keys of a phase's agents, each known and there once.
void read_phase_agents(const place& at, const known_names& known, phase& phase) {
    auto list = at.find("agents");
    if (!list) return at.complain(errc::missing_field, "agents is missing");
    for (const place& each : list->items(coordination::agents_max)) {
        const std::string key = each.text(30, true);
        if (!each.ok()) return;
        if (!known.agents.contains(key)) each.complain(errc::bad_value, "there is no agent " + key);
        if (std::ranges::find(phase.agents, key) != phase.agents.end())
            each.complain(errc::bad_value, "agent " + key + " is there twice");
        phase.agents.push_back(key);
    }
    if (phase.agents.empty())
        list->complain(errc::bad_value,
                       "must have 1 to " + std::to_string(coordination::agents_max) + " agents");
}

/// Reads a phase; its templates may refer to earlier phases and known agents.
phase read_phase(const place& at, known_names& known) {
    phase one;
    one.name = at.text_at("name", 30, true);
    if (at.ok() && !is_identifier(one.name, "_", 30))
        at.complain(errc::bad_value, "name must be a lower-case letter, then letters, digits, _");
    if (known.phases.contains(one.name))
        at.complain(errc::bad_value, "there is another phase " + one.name);
    one.label = at.text_at("label", 80, true);
    read_phase_agents(at, known, one);
    one.form = at.word_at("topology", coordination::topology_names, one.form);
    one.format = at.word_at("debate_format", coordination::format_names, one.format);
    one.decides = at.word_at("decision_mode", coordination::decision_names, one.decides);
    one.initial_prompt = at.text_at("initial_prompt", coordination::prompt_characters_max, false);
    if (auto text = at.find("initial_prompt_template")) {
        one.initial_template = text->text(coordination::prompt_characters_max, false);
        check_template(*text, one.initial_template, known);
    }
    if (auto own = at.find("per_agent_prompt_templates"))
        for (const auto& [key, text] : own->fields()) {
            if (!text.ok()) break;
            if (std::ranges::find(one.agents, key) == one.agents.end())
                text.complain(errc::bad_value, "agent " + key + " is not in this phase");
            one.own_templates.emplace_back(key,
                                           text.text(coordination::prompt_characters_max, false));
            check_template(text, one.own_templates.back().second, known);
        }
    one.max_turns = at.integer_at("max_turns", 0, coordination::turns_max, 0);
    one.rounds = at.integer_at("auto_rounds", 1, rounds_max, 3);
    known.phases.insert(one.name);
    return one;
}

/// Reads how the result is taken from the conversation: a summary, or a choice that a pattern
/// finds.
outcome read_outcome(const place& at) {
    outcome end;
    end.method = at.word_at("type", outcome_names, outcome::kind::summary);
    end.pattern = at.text_at("pattern", 500, false);
    end.choices = at.texts_at("choices", labels_max);
    if (end.method != outcome::kind::parse_choice) return end;
    if (end.pattern.empty()) at.complain(errc::missing_field, "parse_choice needs a pattern");
    if (auto ok = choice_pattern::compile(end.pattern); !ok)
        at.complain(ok.error().code, ok.error().message);
    return end;
}

/// Reads the payoff: a square matrix with a row and a column for each label.
payoff read_payoff(const place& at) {
    payoff worth;
    worth.labels = at.texts_at("labels", labels_max);
    if (auto rows = at.find("matrix"))
        for (const place& row : rows->items(labels_max)) {
            std::vector<std::string> cells;
            for (const place& cell : row.items(labels_max)) cells.push_back(cell.text(200, true));
            if (cells.size() != worth.labels.size())
                row.complain(errc::bad_value, "must have a cell for each label");
            if (!row.ok()) return worth;
            worth.matrix.push_back(std::move(cells));
        }
    if (worth.labels.size() < 2 || worth.matrix.size() != worth.labels.size())
        at.complain(errc::bad_value, "needs at least two labels, and a row for each");
    return worth;
}

/// Reads the whole scenario.
scenario read_scenario(const place& root) {
    scenario made;
    known_names known;
    made.id = root.text_at("id", 50, true);
    if (root.ok() && !is_identifier(made.id, "_-", 50))
        root.complain(errc::bad_value, "id must be a lower-case letter, then letters, digits, _ -");
    made.title = root.text_at("title", 100, true);
    made.description = root.text_at("description", 500, false);
    if (auto agents = root.find("agents"))
        for (const auto& [key, agent] : agents->fields()) {
            if (!agent.ok()) break;
            made.agents.push_back(read_agent(key, agent, known));
        }
    if (auto phases = root.find("phases")) {
        for (const place& each : phases->items(phases_max)) {
            if (!each.ok()) break;
            made.phases.push_back(read_phase(each, known));
        }
        if (made.phases.empty())
            phases->complain(errc::bad_value,
                             "must have 1 to " + std::to_string(phases_max) + " phases");
    } else {
        root.complain(errc::missing_field, "phases is missing");
    }
    if (auto end = root.find("outcome")) made.end = read_outcome(*end);
    if (auto worth = root.find("payoff")) made.worth = read_payoff(*worth);
    return made;
}

}  // namespace

const scenario_agent* scenario::find_agent(std::string_view key) const noexcept {
    auto found = std::ranges::find(agents, key, &scenario_agent::key);
    return found == agents.end() ? nullptr : &*found;
}

const phase* scenario::find_phase(std::string_view name) const noexcept {
    auto found = std::ranges::find(phases, name, &phase::name);
    return found == phases.end() ? nullptr : &*found;
}

result<scenario> parse_scenario(std::string_view yaml) {
    if (yaml.size() > scenario_bytes_max)
        return fail(errc::body_too_large,
                    "a scenario may have " + std::to_string(scenario_bytes_max) + " bytes");
    // The YAML parser scans everything that may begin a list or a map before it reports the first
    // of them, so these are counted first.
    const auto begins = std::ranges::count(yaml, '[') + std::ranges::count(yaml, '{');
    if (static_cast<std::size_t>(begins) > scenario_nodes_max)
        return fail(errc::bad_value, "line 1: " + too_many_nodes());
    std::optional<failure> fault;
    try {
        const std::string text(yaml);
        std::istringstream counted(text);
        node_counter counter;
        YAML::Parser(counted).HandleNextDocument(counter);
        const YAML::Node root = YAML::Load(text);
        if (!root.IsMap()) return fail(errc::bad_value, "line 1: must have keys and values");
        scenario made = read_scenario(place(root, "", fault, 1));
        if (fault) return *fault;
        made.source = yaml;
        return made;
    } catch (const YAML::Exception& error) {
        return fail(errc::bad_value,
                    // Errors without a place have the line -1.
                    "line " + std::to_string(std::max(error.mark.line, 0) + 1) + ": " + error.msg);
    }
}

std::vector<reference> references_in(std::string_view text) {
    constexpr std::string_view middle = ".messages[";
    std::vector<reference> found;
    for (std::size_t at = text.find("${"); at != std::string_view::npos;
         at = text.find("${", at + 2)) {
        const auto word_from = [&](std::size_t from) {
            std::size_t end = from;
            while (end < text.size() && is_word(text[end])) ++end;
            return text.substr(from, end - from);
        };
        const std::string_view phase = word_from(at + 2);
        std::size_t next = at + 2 + phase.size();
        if (phase.empty() || text.substr(next, middle.size()) != middle) continue;
        next += middle.size();
        const std::string_view agent = word_from(next);
        next += agent.size();
        if (agent.empty() || text.substr(next, 2) != "]}") continue;
        found.push_back({at, next + 2, std::string(phase), std::string(agent)});
    }
    return found;
}

}  // namespace semantic::protocol::scenarios
