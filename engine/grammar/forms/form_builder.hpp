// SPDX-License-Identifier: Apache-2.0
#pragma once
// Builds the grammar of one request's answer. For answer_grammars only; one object a grammar, not
// for use from two threads at once.

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/grammar.hpp"
#include "engine/text/output/answer_format.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "engine/types/generation.hpp"
#include "storage/types/work_budget.hpp"

namespace semantic::engine {

/// A schema that is not strict and describes too much: its owner's values are free.
struct free_schema {
    std::string owner;  // the tool's name; empty: the answer's own schema
};

/// What a grammar is built for. All must outlive the builder.
struct form_to_build {
    const tokenizer& words;
    const answer_format& format;
    std::string_view family;  // the chat template, as refusals call it
    const generation_request& request;
    const std::set<std::string>& free;  // owners of schemas that are not to be held
};

class form_builder {
  public:
    /// `not_held`: takes what of schemas that are not strict is not held.
    form_builder(const form_to_build& form, std::vector<std::string>& not_held,
                 storage::work_budget& budget);
    ~form_builder();
    form_builder(const form_builder&) = delete;
    form_builder& operator=(const form_builder&) = delete;

    /// Once. Throws std::runtime_error for a form that cannot be held, unsupported_schema,
    /// free_schema, grammar_too_large, work_limit_exceeded. What it charges stays charged until
    /// this object ends.
    grammar build();

  private:
    class impl;
    std::unique_ptr<impl> impl_;
};

}  // namespace semantic::engine
