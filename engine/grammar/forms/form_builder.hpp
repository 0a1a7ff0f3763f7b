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

/// Thrown if a non-strict schema is too large: the caller builds again with its owner set free.
struct free_schema {
    std::string owner;  // the tool's name; empty: the answer's own schema
};

/// The input of a form_builder. All references must outlive it.
struct form_to_build {
    const tokenizer& words;
    const answer_format& format;
    std::string_view family;  // the chat template's name, for error messages
    const generation_request& request;
    const std::set<std::string>& free;  // owners of schemas that are not enforced
};

class form_builder {
  public:
    /// `not_held`: gets the ignored parts of non-strict schemas.
    form_builder(const form_to_build& form, std::vector<std::string>& not_held,
                 storage::work_budget& budget);
    ~form_builder();
    form_builder(const form_builder&) = delete;
    form_builder& operator=(const form_builder&) = delete;

    /// Builds the grammar; may be called once. Throws std::runtime_error for a form that cannot be
    /// enforced, unsupported_schema, free_schema, grammar_too_large, work_limit_exceeded. The
    /// memory that it charges is released by the destructor.
    grammar build();

  private:
    class impl;
    std::unique_ptr<impl> impl_;
};

}  // namespace semantic::engine
