// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a request wants its answer to look like, in the form that the model has learnt.
// Thread: any; a form takes a while to make, so the scheduler has threads for it (form_compiler).

#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/grammar_program.hpp"
#include "engine/grammar/vocabulary_trie.hpp"
#include "engine/text/output/answer_format.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "engine/types/generation.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine {

/// What holds an answer; neither rules nor program when it is free.
struct held_form {
    std::shared_ptr<const grammar> rules;
    std::shared_ptr<const grammar_program> program;  // of the rules
    std::shared_ptr<const vocabulary_trie> vocabulary;
    /// Keywords of schemas that are not strict, by place; "tools: ..." where calls are text.
    std::vector<std::string> not_held{};
};

/// What of a request is at fault that has no grammar. A text's form goes by several names.
request_part part_of(const output_form& form);

/// The error for a request whose answer could not begin or go on. Where that is the form's fault it
/// is the request's: a grammar may turn out to be readable in too many ways when much has been
/// written already.
failed failure_of(const std::exception& error, const output_form& form);

class answer_grammars {
  public:
    /// `words` must outlive this. `family`: what the chat template is called in refusals.
    answer_grammars(const tokenizer& words, const answer_format& format, std::string_view family);
    /// Of a chat template family; one without calls and reasoning when there is none of that name.
    answer_grammars(const tokenizer& words, std::string_view family);

    /// The form where nothing has to be made for it: the answer is free, or a form like it was made
    /// lately.
    std::optional<held_form> find(const generation_request& request);
    /// A form met lately is not made again. Charges the request's budget, or one of its own that
    /// ends at the request's deadline. Where no form of calls is known, tools that may be called
    /// leave the answer free, and `not_held` says so.
    /// Errors: bad_value, naming the place and keyword of a strict schema, a tool that is not
    /// there, or a model that writes no tool calls that an answer can be held to; a form that is
    /// given up before anything is written, or takes more work or memory than one request may.
    /// Throws work_limit_exceeded where the deadline has passed or the budget was cancelled.
    storage::result<held_form> compile(const generation_request& request);

  private:
    /// The form of an answer that nothing holds; nothing where there is something to hold it to.
    std::optional<held_form> free_form(const generation_request& request) const;
    struct known {
        std::string key;
        std::shared_ptr<const grammar_program> program;
        std::vector<std::string> not_held;
    };
    std::optional<held_form> find(const std::string& key);
    void keep(known made);
    storage::result<known> made_of(const generation_request& request, storage::work_budget& budget);
    std::shared_ptr<const vocabulary_trie> vocabulary();

    const tokenizer& tokenizer_;
    const answer_format format_;
    const std::string family_;
    std::mutex vocabulary_mutex_;  // locked before mutex_, while vocabulary_ is made
    std::mutex mutex_;
    std::list<known> recent_;                            // newest first
    std::shared_ptr<const vocabulary_trie> vocabulary_;  // made for the first answer that is held
};

}  // namespace semantic::engine
