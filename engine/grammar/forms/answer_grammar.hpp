// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compiles the grammars that constrain answers to what a request asks for (JSON, a schema, tool
// calls, ...), written as the model has learnt it. Thread: any; compiling takes a while, so the
// scheduler has threads for it (form_compiler).

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

/// The compiled form of an answer; without rules and program if the answer is free.
struct held_form {
    std::shared_ptr<const grammar> rules;
    std::shared_ptr<const grammar_program> program;  // of the rules
    std::shared_ptr<const vocabulary_trie> vocabulary;
    /// Ignored keywords of non-strict schemas, with their paths; "tools: ..." if calls come as
    /// text.
    std::vector<std::string> not_held{};
};

/// The part of the request that is at fault if its form has no grammar; `unsaid` for forms that
/// APIs call by several names.
request_part part_of(const output_form& form);

/// The error for a request whose answer could not begin or continue. If the grammar is the cause
/// (too many ways to read it, or no token that spells what it requires) it is bad_request,
/// otherwise internal.
failed failure_of(const std::exception& error, const output_form& form);

class answer_grammars {
  public:
    /// `words` must outlive this. `format`: how the model writes calls and reasoning. `family`: the
    /// chat template's name, for error messages.
    answer_grammars(const tokenizer& words, const answer_format& format, std::string_view family);
    /// Grammars for the answer format of the template family with this name; without calls and
    /// reasoning if there is no such family.
    answer_grammars(const tokenizer& words, std::string_view family);

    /// The form, if nothing has to be compiled: the answer is free, or an equal form is cached.
    std::optional<held_form> find(const generation_request& request);
    /// Compiles the form, or takes an equal one from the cache. Charges the request's budget, or
    /// one with the request's deadline. If the form of the model's calls is not known the answer is
    /// free, and `not_held` says so. Errors: bad_value: a keyword of a strict schema (with its
    /// path), an unknown tool, a model whose tool calls cannot be constrained, a grammar that
    /// cannot begin, or more work or memory than a request may take. Throws work_limit_exceeded if
    /// the deadline has passed or the budget was cancelled.
    storage::result<held_form> compile(const generation_request& request);

  private:
    /// The form of a free answer; nothing if the request constrains its answer.
    std::optional<held_form> free_form(const generation_request& request) const;
    struct known {
        std::string key;
        std::shared_ptr<const grammar_program> program;
        std::vector<std::string> not_held;
    };
    /// The cached form with this key, see key_of().
    std::optional<held_form> find(const std::string& key);
    /// Adds a form to the cache, and removes old ones beyond its bounds.
    void keep(known made);
    storage::result<known> made_of(const generation_request& request, storage::work_budget& budget);
    std::shared_ptr<const vocabulary_trie> vocabulary();

    const tokenizer& tokenizer_;
    const answer_format format_;
    const std::string family_;
    std::mutex vocabulary_mutex_;  // locked before mutex_, while vocabulary_ is made
    std::mutex mutex_;
    std::list<known> recent_;                            // newest first
    std::shared_ptr<const vocabulary_trie> vocabulary_;  // made for the first constrained answer
};

}  // namespace semantic::engine
