// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the commands of semantic-eval share: options, errors, reading of input, progress.

#include <boost/program_options.hpp>

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/text/template/chat_template.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "server/config/model_path.hpp"
#include "storage/types/errc.hpp"
#include "storage/types/ids.hpp"

namespace semantic::eval {

/// Something that the user gave cannot be used. main() prints its text as one line on stderr and
/// exits with 1.
struct bad_input : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// A command: `run` gets the words after its name and returns the exit status.
struct command {
    const char* name;
    const char* arguments;  // as the usage line shows them
    const char* summary;
    int (*run)(const command& self, const std::vector<std::string>& words);
};

int run_tokenize(const command& self, const std::vector<std::string>& words);
int run_detokenize(const command& self, const std::vector<std::string>& words);
int run_render(const command& self, const std::vector<std::string>& words);
int run_logits(const command& self, const std::vector<std::string>& words);
int run_greedy(const command& self, const std::vector<std::string>& words);
int run_capacity(const command& self, const std::vector<std::string>& words);
int run_inspect(const command& self, const std::vector<std::string>& words);
int run_perplexity(const command& self, const std::vector<std::string>& words);
int run_exactness(const command& self, const std::vector<std::string>& words);
int run_recall(const command& self, const std::vector<std::string>& words);
int run_sweep(const command& self, const std::vector<std::string>& words);

/// The options of one command, with --help and --model added.
class options {
  public:
    explicit options(const command& self);
    boost::program_options::options_description_easy_init add() {
        return description_.add_options();
    }
    /// --threads, --kernels, --weights and add_memory(), for commands that compute.
    void add_compute();
    /// --memory-limit-mb, for commands that load a model.
    void add_memory();
    std::size_t memory_limit_mb() const;
    /// --chat-template, for commands that render conversations.
    void add_chat_template();
    /// --tokenizer-pre, for commands that read the tokenizer.
    void add_tokenizer();
    /// Returns: false when --help was asked for and shown. Throws on unknown or missing options,
    /// naming them.
    bool parse(const std::vector<std::string>& words);

    bool has(const char* name) const { return values_.count(name) != 0; }
    template <class Value>
    const Value& get(const char* name) const {
        return values_[name].as<Value>();
    }
    /// A whole number in a range. Throws bad_input naming the option otherwise.
    int number(const char* name, int least, int most) const;
    /// The model that --model names, or the embedded one. Blocks. Throws bad_input.
    server::found_model model() const;
    /// The path of model().
    std::string model_directory() const;
    /// The folder that --model names, where it has one of `files` (a tokenizer or template can be
    /// used without weights); else model_directory().
    std::string words_directory(std::span<const char* const> files) const;
    /// The model's tokenizer; of a GGUF the kind that --tokenizer-pre says. Throws bad_input.
    engine::tokenizer tokenizer() const;
    /// The model's chat template, or the one that --chat-template names. Throws bad_input.
    engine::chat_template chat_rules() const;

  private:
    const command& self_;
    boost::program_options::options_description description_;
    boost::program_options::variables_map values_;
};

/// Sets the path of the embedded model, which is used without --model; empty: there is none.
void set_embedded_model(std::string directory);

/// Returns: the value of a result. Throws bad_input with its error.
template <class Value>
Value take(storage::result<Value> result) {
    if (!result) throw bad_input(result.error().what);
    return std::move(*result);
}

std::string read_standard_input();
/// The content of a file; "-" is standard input. Throws bad_input.
std::string read_text_file(const std::string& path);
/// Parses a JSON array of token ids. `source` names it in errors. Throws bad_input.
std::vector<storage::token_id> parse_ids(const std::string& json, const std::string& source);
void print_ids(const std::vector<storage::token_id>& ids);
/// Throws bad_input unless `name` is a KV recipe, 16, 8, 4, or default.
void check_kv_name(const std::string& name);
/// The names in a list such as "16,k8r-v4r,default", checked by check_kv_name(). `option`: the
/// option's name for errors. Throws bad_input.
std::vector<std::string> parse_kv_list(const std::string& option, const std::string& list);

/// One line on stderr that is rewritten in place; silent when stderr is no terminal.
class progress_line {
  public:
    explicit progress_line(std::string label);
    ~progress_line();
    /// Rewrites the line: "LABEL: done of all, note".
    void show(std::size_t done, std::size_t all, const std::string& note = {});

  private:
    std::string label_;
    bool terminal_;
    bool shown_ = false;
};

}  // namespace semantic::eval
