// SPDX-License-Identifier: Apache-2.0
#include "engine/text/placed_tools.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/template/template_parts.hpp"

namespace semantic::engine {

namespace {

constexpr std::string_view heading = "This tool can be called from here on:\n";
constexpr std::string_view blanks = " \t\r\n,";

/// A tool that a prompt has already, so that the tool after it is a further one.
tool_definition known_tool() {
    return {"known_tool_7f2c", "-", R"({"type":"object","properties":{}})"};
}

/// The text by which `more` is longer than `less`; nothing if it is not one insertion.
std::optional<std::string> insertion(std::string_view less, std::string_view more) {
    if (more.size() <= less.size()) return std::nullopt;
    const std::size_t length = more.size() - less.size();
    const auto parting = std::ranges::mismatch(less, more).in1;
    const auto last = static_cast<std::size_t>(parting - less.begin());
    std::size_t common_end = 0;
    while (common_end < less.size() &&
           less[less.size() - 1 - common_end] == more[more.size() - 1 - common_end])
        ++common_end;
    const std::size_t first = less.size() - common_end;
    if (first > last) return std::nullopt;
    // If equal texts meet, the insertion may begin anywhere from `first` to `last`: it is taken to
    // begin with a line.
    std::size_t at = first;
    for (std::size_t i = first; i <= last; ++i)
        if (more[i] == '\n' || (i > 0 && more[i - 1] == '\n')) {
            at = i;
            break;
        }
    std::string_view found = more.substr(at, length);
    const std::size_t begin = found.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return std::nullopt;
    found = found.substr(begin, found.find_last_not_of(blanks) - begin + 1);
    return std::string(found);
}

/// Finds the text that a template writes for a tool, by rendering prompts with and without it. The
/// prompts without it are rendered once.
class template_probe {
  public:
    explicit template_probe(const chat_template& family) : family_(family) {}

    /// The text for the first tool of a prompt; nothing if that is not in one piece.
    std::optional<std::string> text_of_first(const tool_definition& tool) {
        if (!without_tools_) without_tools_ = rendered({});
        return added(*without_tools_, rendered({tool}), tool);
    }
    /// The text for a tool that follows another one in the prompt; nothing if that is not in one
    /// piece.
    std::optional<std::string> text_of_further(const tool_definition& tool) {
        if (!with_one_tool_) with_one_tool_ = rendered({known_tool()});
        return added(*with_one_tool_, rendered({known_tool(), tool}), tool);
    }
    const chat_template& family() const noexcept { return family_; }

  private:
    /// The text by which a prompt grew for `tool`. Nothing when either could not be rendered, and
    /// when the text lacks the tool's name or has a mark of a turn: then the tool is not in one
    /// piece.
    std::optional<std::string> added(const std::optional<std::string>& less,
                                     const std::optional<std::string>& more,
                                     const tool_definition& tool) const {
        auto text = less && more ? insertion(*less, *more) : std::nullopt;
        if (!text || text->find(tool.name) == std::string::npos || ends_a_turn(*text))
            return std::nullopt;
        return text;
    }
    std::optional<std::string> rendered(std::vector<tool_definition> tools) const {
        conversation chat{"Be kind.", {{role::user, {text_part{"Hello."}}}}, std::move(tools)};
        auto text = family_.render(chat);
        return text ? std::optional(*std::move(text)) : std::nullopt;
    }
    bool ends_a_turn(std::string_view text) const {
        const auto has = [&](std::string_view mark) {
            return !mark.empty() && text.find(mark) != std::string_view::npos;
        };
        return has(family_.turn_begin()) || std::ranges::any_of(family_.stop_tokens(), has);
    }

    const chat_template& family_;
    // Each is absent until it is asked for, and empty where the template cannot render it.
    std::optional<std::optional<std::string>> without_tools_, with_one_tool_;
};

// Budget steps of a definition, and bytes of it that cost one step more.
constexpr std::uint64_t steps_of_definition = 1'000;
constexpr std::size_t bytes_a_step = 2;
// The bounds of has_few_placed_tools().
constexpr std::size_t few_definitions = 16;
constexpr std::size_t few_bytes = std::size_t{16} << 10;

std::size_t bytes_of(const tool_definition& tool) {
    return tool.name.size() + tool.description.size() + tool.parameters_json.size();
}

/// The text that defines a tool in a message. `opens`: it is the prompt's first tool, so the text
/// also says how to call tools, where that can be had. Errors: bad_value when the tool is not
/// valid, also where the template's own text is used.
storage::result<std::string> text_of(const tool_definition& tool, bool opens,
                                     template_probe& probe) {
    auto plain = tool_text(tool);
    if (!plain) return plain;
    if (opens) {
        if (auto block = probe.text_of_first(tool)) return *std::move(block);
        if (probe.family().answers().calls == call_format::hermes) return hermes_tools_text({tool});
    }
    const auto item = probe.text_of_further(tool);
    return std::string(heading) + (item ? *item : *plain);
}

/// Whether both are written into the same text.
bool same_text(const placed_tool& one, const placed_tool& other) {
    return one.message == other.message && one.part == other.part;
}

/// The text that a definition is written into; null when the conversation has no such text.
std::string* text_at(conversation& chat, const placed_tool& place) {
    if (place.message >= chat.messages.size()) return nullptr;
    auto& parts = chat.messages[place.message].parts;
    if (place.part >= parts.size()) return nullptr;
    if (auto* text = std::get_if<text_part>(&parts[place.part])) return &text->text;
    auto* found = std::get_if<tool_result_part>(&parts[place.part]);
    return found != nullptr ? &found->text : nullptr;
}

}  // namespace

storage::result<std::string> definition_text(const tool_definition& tool, bool opens,
                                             const chat_template& family) {
    template_probe probe(family);
    return text_of(tool, opens, probe);
}

bool has_few_placed_tools(const conversation& chat) {
    if (chat.placed_tools.size() > few_definitions) return false;
    std::size_t bytes = 0;
    for (const placed_tool& each : chat.placed_tools) bytes += bytes_of(each.tool);
    return bytes <= few_bytes;
}

storage::result<void> write_placed_tools(conversation& chat, const chat_template& family,
                                         storage::work_budget& budget) {
    const std::vector<placed_tool> placed = std::exchange(chat.placed_tools, {});
    template_probe probe(family);
    for (std::size_t i = 0; i < placed.size();) {
        std::string* told = text_at(chat, placed[i]);
        std::string made;
        std::size_t taken = 0;  // bytes of `*told`
        const std::size_t first = i;
        for (; i < placed.size() && same_text(placed[i], placed[first]); ++i) {
            budget.charge_steps(steps_of_definition + bytes_of(placed[i].tool) / bytes_a_step);
            auto text = text_of(placed[i].tool, i == 0 && chat.tools.empty(), probe);
            if (!text) return text.error();
            budget.charge_bytes(text->size());
            // There is no text to write it into: the definition is only checked.
            if (told == nullptr) continue;
            const std::size_t at = std::clamp(placed[i].at, taken, told->size());
            made.append(*told, taken, at - taken).append(*text);
            taken = at;
        }
        if (told == nullptr) continue;
        made.append(*told, taken);
        *told = std::move(made);
    }
    return {};
}

}  // namespace semantic::engine
