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

/// Something the user gave cannot be used: one line on stderr, exit 1.
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
    /// What --model names, or the embedded model. Blocks. Throws bad_input.
    server::found_model model() const;
    std::string model_directory() const;
    /// The folder that --model names, where it has one of the files; else model_directory().
    std::string words_directory(std::span<const char* const> files) const;
    /// The model's; a GGUF's as --tokenizer-pre says. Throws bad_input.
    engine::tokenizer tokenizer() const;
    /// The model's, or the one that --chat-template names. Throws bad_input.
    engine::chat_template chat_rules() const;

  private:
    const command& self_;
    boost::program_options::options_description description_;
    boost::program_options::variables_map values_;
};

/// Where the embedded model was found when the program started; empty when nowhere.
void set_embedded_model(std::string directory);

/// Takes the value out of a result or throws its sentence.
template <class Value>
Value take(storage::result<Value> result) {
    if (!result) throw bad_input(result.error().what);
    return std::move(*result);
}

std::string read_standard_input();
/// "-" is standard input.
std::string read_text_file(const std::string& path);
/// A JSON array of token ids. `source` names it in errors.
std::vector<storage::token_id> parse_ids(const std::string& json, const std::string& source);
void print_ids(const std::vector<storage::token_id>& ids);
/// Throws bad_input unless `name` is a KV recipe, 16, 8, 4, or default.
void check_kv_name(const std::string& name);
/// "16,k8r-v4r,default" as names, each of them as check_kv_name() wants it. `option`: for messages.
std::vector<std::string> parse_kv_list(const std::string& option, const std::string& list);

/// One line on stderr that is rewritten in place; silent when stderr is no terminal.
class progress_line {
  public:
    explicit progress_line(std::string label);
    ~progress_line();
    void show(std::size_t done, std::size_t all, const std::string& note = {});

  private:
    std::string label_;
    bool terminal_;
    bool shown_ = false;
};

}  // namespace semantic::eval
