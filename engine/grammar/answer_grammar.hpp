#pragma once
// What a request wants its answer to look like, in the words of the model's chat template family.
// Thread: one at a time (the scheduler's resolve stage); what comes out may be shared.

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "engine/grammar/grammar.hpp"
#include "engine/grammar/vocabulary_trie.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "engine/types/generation.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine {

/// What holds an answer; no rules when it is free.
struct held_form {
    std::shared_ptr<const grammar> rules;
    std::shared_ptr<const vocabulary_trie> vocabulary;
    std::vector<std::string> not_held{};  // of schemas that are not strict, by place and keyword
};

class answer_grammars {
  public:
    /// `words` must outlive this. `family`: chat_template::family().
    answer_grammars(const tokenizer& words, std::string family);

    /// A grammar met lately is not made again.
    /// Errors: bad_value, naming the place and keyword of a strict schema, a tool that is not
    /// there, or a family whose models have no tool calls.
    storage::result<held_form> of(const generation_request& request);

  private:
    struct known {
        std::string key;
        std::shared_ptr<const grammar> rules;
        std::vector<std::string> not_held;
    };
    storage::result<const known*> rules_of(const generation_request& request);

    const tokenizer& tokenizer_;
    const std::string family_;
    std::list<known> recent_;                            // newest first
    std::shared_ptr<const vocabulary_trie> vocabulary_;  // made for the first answer that is held
};

}  // namespace semantic::engine
