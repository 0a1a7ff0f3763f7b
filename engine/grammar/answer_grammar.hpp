#pragma once
// What a request wants its answer to look like, in the words of the model's chat template family.
// Thread: one at a time (the scheduler's resolve stage); what comes out may be shared.

#include <list>
#include <memory>
#include <string>

#include "engine/grammar/grammar.hpp"
#include "engine/text/tokenizer.hpp"
#include "engine/types/generation.hpp"
#include "storage/types/errc.hpp"

namespace semantic::engine {

class answer_grammars {
  public:
    /// `words` must outlive this. `family`: chat_template::family().
    answer_grammars(const tokenizer& words, std::string family);

    /// Null when the request leaves its answer free. A grammar met lately is not made again.
    /// Errors: bad_value, naming the schema's place and keyword, a tool that is not there, or a
    /// family whose models have no tool calls.
    storage::result<std::shared_ptr<const grammar>> of(const generation_request& request);

  private:
    struct known {
        std::string key;
        std::shared_ptr<const grammar> rules;
    };

    const tokenizer& tokenizer_;
    const std::string family_;
    std::list<known> recent_;  // newest first
};

}  // namespace semantic::engine
