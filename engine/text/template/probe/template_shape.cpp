// SPDX-License-Identifier: Apache-2.0
#include "engine/text/template/probe/template_shape.hpp"

#include <initializer_list>

#include "engine/text/template/probe/probe_conversations.hpp"

namespace semantic::engine {

namespace {

using flag = bool template_shape::*;
using parts = std::initializer_list<const char*>;

/// Renders probe conversations with a template and collects what it can render and what it leaves
/// out without an error.
class prober {
  public:
    explicit prober(const shape_trial& render) : render_(render) {}

    /// Sets `ability` by whether a rendering of `chat` has all of `wanted`.
    void find(flag ability, const conversation& chat, parts wanted) {
        const outcome seen = try_out(chat, wanted);
        found_.renders.*ability = seen == outcome::prints;
        if (seen == outcome::leaves_out) found_.leaves_out.*ability = false;
    }
    /// As find(), for a conversation with calls; it is also tried without its list of tools,
    /// because some templates render calls but no tools.
    void find_with_or_without_tools(flag ability, conversation chat, parts wanted) {
        const outcome told = try_out(chat, wanted);
        chat.tools.clear();
        const outcome untold = told == outcome::prints ? told : try_out(chat, wanted);
        found_.renders.*ability = untold == outcome::prints;
        const bool is_left_out = told == outcome::leaves_out || untold == outcome::leaves_out;
        if (untold != outcome::prints && is_left_out) found_.leaves_out.*ability = false;
    }
    /// Notes that `ability` is left out when a rendering of `chat` lacks one of `wanted`. What the
    /// template renders is not touched.
    void find_left_out(flag ability, const conversation& chat, parts wanted) {
        if (try_out(chat, wanted) == outcome::leaves_out) found_.leaves_out.*ability = false;
    }
    bool renders(flag ability) const { return found_.renders.*ability; }
    template_shapes take() { return found_; }

  private:
    /// All wanted texts were printed, one was missing, or the template failed.
    enum class outcome { prints, leaves_out, raises };

    outcome try_out(const conversation& chat, parts wanted) const {
        const auto text = render_(chat);
        if (!text) return outcome::raises;
        for (const char* part : wanted)
            if (text->find(part) == std::string::npos) return outcome::leaves_out;
        return outcome::prints;
    }

    const shape_trial& render_;
    template_shapes found_;
};

conversation without_tools(conversation chat) {
    chat.tools.clear();
    return chat;
}

/// Tries what concerns texts of the system, the user and the assistant.
void find_places_of_messages(prober& tried) {
    using namespace probe;
    using can = template_shape;
    tried.find(&can::system_text, with_system_text(), {instructed, asked});
    tried.find(&can::system_text_alone, with_system_text_alone(), {instructed});
    tried.find(&can::several_system_texts, with_two_system_texts(), {instructed, added, asked});
    tried.find(&can::later_system_text, with_later_system_text(), {instructed, added});
    if (tried.renders(&can::system_text) && tried.renders(&can::later_system_text))
        tried.find(&can::later_system_text, with_first_and_later_system_text(),
                   {first_instructed, instructed, added});
    tried.find(&can::users_in_a_row, two_questions(), {asked, added});
    tried.find(&can::assistants_in_a_row, two_answers(), {answered, added});
    tried.find(&can::assistant_first, answer_first(), {answered, asked});
}

/// Tries what concerns tools, calls and results.
void find_places_of_tools(prober& tried) {
    using namespace probe;
    using can = template_shape;
    tried.find(&can::tools, with_tool(), {tool_name, asked});
    tried.find_with_or_without_tools(&can::tool_calls, with_call(), {argument});
    // The trial above raises an error in templates that refuse results. Without a result they may
    // still leave the call out silently.
    if (!tried.renders(&can::tool_calls))
        tried.find_left_out(&can::tool_calls, without_tools(with_unanswered_call()), {argument});
    tried.find(&can::stray_results, with_stray_result(), {returned});
    // Some templates print the tools inside the first message of the user or the system, so these
    // shapes are tried again with tools.
    const auto find_with_tools = [&](flag ability, conversation chat, parts wanted) {
        chat.tools = with_tool().tools;
        if (tried.renders(&can::tools) && tried.renders(ability)) tried.find(ability, chat, wanted);
    };
    find_with_tools(&can::assistant_first, answer_first(), {answered, asked});
    find_with_tools(&can::several_system_texts, with_two_system_texts(),
                    {instructed, added, asked});
    find_with_tools(&can::system_text_alone, with_system_text_alone(), {instructed});
    if (!tried.renders(&can::tool_calls)) return;
    tried.find_with_or_without_tools(&can::tool_results, with_call(), {returned});
    tried.find_with_or_without_tools(&can::parallel_calls, with_two_calls(), {argument, added});
    tried.find_with_or_without_tools(&can::text_with_call, with_text_and_call(),
                                     {argument, answered});
    tried.find_with_or_without_tools(&can::text_with_reasoned_call, with_reasoned_call(),
                                     {argument});
    tried.find_with_or_without_tools(&can::unanswered_calls, with_unanswered_call(),
                                     {argument, added});
    if (!tried.renders(&can::tool_results)) return;
    tried.find_with_or_without_tools(&can::user_after_result, with_question_after_result(),
                                     {returned, added});
    tried.find_with_or_without_tools(&can::any_call_id, with_long_call_id(), {argument, returned});
}

}  // namespace

template_shapes find_template_shapes(const shape_trial& render) {
    prober tried(render);
    find_places_of_messages(tried);
    find_places_of_tools(tried);
    template_shapes found = tried.take();
    // Models write text and calls in one answer. Requests that send such an answer back are not
    // refused, even where the template leaves the text out.
    found.leaves_out.text_with_call = true;
    // A system text without any other message is not refused either, as published templates
    // accept it.
    found.leaves_out.system_text_alone = true;
    // Results are rendered with their calls.
    if (!found.renders.tool_calls) found.renders.tool_results = false;
    if (!found.leaves_out.tool_calls) found.leaves_out.tool_results = false;
    return found;
}

}  // namespace semantic::engine
