// SPDX-License-Identifier: Apache-2.0
#pragma once
// The interface of readers, which read one tool call of some format while it streams. For the
// output parsers only; one object a call, not for use from two threads at once.

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/text/output/calls/offered_tools.hpp"

namespace semantic::engine {

/// Reads the text of one call piece by piece and makes the tool's name and its arguments of it.
class call_reader {
  public:
    /// open: the call goes on. whole: it has ended and is complete. malformed: it is no call, so
    /// its text belongs to the answer.
    enum class state { open, whole, malformed };

    virtual ~call_reader() = default;
    /// Reads the next text. Returns: how many of its bytes belong to the call; all, unless the call
    /// has ended.
    virtual std::size_t read(std::string_view text) = 0;
    /// Called when no more text comes: the model has ended its turn or, if `was_cut`, a limit has.
    /// The call counts as complete if only brackets that are certain are missing.
    virtual void end(bool /*was_cut*/) {}
    /// Texts that may follow the call and are part of it.
    virtual std::span<const std::string_view> closers() const { return {}; }
    /// The reader of another call after this one, which has read `c`; null if `c` does not begin
    /// one.
    virtual std::unique_ptr<call_reader> next(char /*c*/) const { return nullptr; }

    state at() const noexcept { return state_; }
    /// The name of the called tool; final once arguments have begun.
    const std::string& name() const noexcept { return name_; }
    /// The arguments so far, the beginning of an object as compact JSON. Empty until they have
    /// begun and the name is known.
    std::string_view arguments() const noexcept {
        return name_.empty() ? std::string_view() : arguments_;
    }

  protected:
    // A derived reader ends the reading by one of these.
    void fail() noexcept { state_ = state::malformed; }
    void done() noexcept { state_ = state::whole; }

    state state_ = state::open;
    std::string name_;
    std::string arguments_;  // see arguments()
};

/// Makes a reader. `opener`: the mark that has begun the call.
using make_reader = std::unique_ptr<call_reader> (*)(const offered_tools& tools,
                                                     std::string_view opener);

/// Calls of the form {"name": ..., "arguments": {...}}, in any order; `parameters` may replace
/// `arguments`.
enum class call_object {
    hermes,  // the arguments, and the last brace after them, may be missing
    llama3,  // arguments or parameters are required: otherwise any JSON would be a call
    bare     // likewise, and no other keys but type and id: nothing around it says that it is one
};
std::unique_ptr<call_reader> make_json_call_reader(call_object kind);
/// A reader of an object of arguments for a call whose name is known; white space only counts as an
/// empty object.
std::unique_ptr<call_reader> make_arguments_reader(std::string name);

/// Compact JSON for a Python literal; empty if it is none.
std::string json_of_python(std::string_view literal);

std::unique_ptr<call_reader> read_hermes_call(const offered_tools&, std::string_view opener);
std::unique_ptr<call_reader> read_mistral_call(const offered_tools&, std::string_view opener);
/// A list of objects, or objects one after the other. Granite 3.3 closes it with the turn alone.
std::unique_ptr<call_reader> read_granite_calls(const offered_tools&, std::string_view opener);
std::unique_ptr<call_reader> read_nemotron_calls(const offered_tools&, std::string_view opener);
std::unique_ptr<call_reader> read_listed_calls(const offered_tools&, std::string_view opener);
std::unique_ptr<call_reader> read_deepseek_call(const offered_tools&, std::string_view opener);
std::unique_ptr<call_reader> read_kimi_call(const offered_tools&, std::string_view opener);
std::unique_ptr<call_reader> read_qwen_xml_call(const offered_tools&, std::string_view opener);
std::unique_ptr<call_reader> read_glm_call(const offered_tools&, std::string_view opener);
std::unique_ptr<call_reader> read_seed_call(const offered_tools&, std::string_view opener);
std::unique_ptr<call_reader> read_minimax_call(const offered_tools&, std::string_view opener);
std::unique_ptr<call_reader> read_dsml_call(const offered_tools&, std::string_view opener);
std::unique_ptr<call_reader> read_minicpm_call(const offered_tools&, std::string_view opener);
std::unique_ptr<call_reader> read_function_gemma_call(const offered_tools&,
                                                      std::string_view opener);
std::unique_ptr<call_reader> read_gemma4_call(const offered_tools&, std::string_view opener);
std::unique_ptr<call_reader> read_tool_code_call(const offered_tools&, std::string_view opener);
std::unique_ptr<call_reader> read_olmo_call(const offered_tools&, std::string_view opener);
std::unique_ptr<call_reader> read_lfm2_call(const offered_tools&, std::string_view opener);

}  // namespace semantic::engine
