// SPDX-License-Identifier: Apache-2.0
#include "server/eval/command_line.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <sstream>
#include <unistd.h>

#include "server/config/hub_model.hpp"
#include "storage/pool/kv_recipe.hpp"

namespace semantic::eval {

namespace po = boost::program_options;

namespace {

std::string& embedded_model() {
    static std::string directory;
    return directory;
}

// Files of a model's folder, weights or not, from which its tokenizer, or its template, can be
// read.
constexpr std::array tokenizer_files{"tokenizer.json"};
constexpr std::array template_files{"tokenizer_config.json", "chat_template.jinja",
                                    "chat_template.json"};

}  // namespace

void set_embedded_model(std::string directory) { embedded_model() = std::move(directory); }

options::options(const command& self) : self_(self), description_("Options") {
    add()("help", "show this text");
    add()("model", po::value<std::string>()->value_name("MODEL"),
          "a folder, a .gguf file, NAME in ~/.semantic/models, semantic-tiny or "
          "semantic-tiny-recurrent, which come with the program, or [hf:]ORG/NAME[:FILE or QUANT] "
          "in the Hugging Face cache (default: semantic-tiny)");
}

void options::add_compute() {
    add()("threads", po::value<int>()->default_value(0)->value_name("N"), "0: one for every core");
    add()("kernels", po::value<std::string>()->default_value("auto")->value_name("NAME"),
          "auto, avx512, avxvnni, avx2, portable or scalar");
    add()("weights", po::value<std::string>()->default_value("native")->value_name("FORM"),
          "what matrices are quantised to while they load: native (not at all), q8 or q4");
    add_memory();
}

void options::add_memory() {
    add()("memory-limit-mb", po::value<int>()->default_value(0)->value_name("MB"),
          "memory for the whole program, in MiB; 0: what the machine, or its control group, can "
          "give");
}

std::size_t options::memory_limit_mb() const {
    return static_cast<std::size_t>(number("memory-limit-mb", 0, 16'000'000));
}

void options::add_chat_template() {
    add()("chat-template", po::value<std::string>()->default_value("auto")->value_name("NAME"),
          "chat template family; auto: the one that the model's files show");
}

void options::add_tokenizer() {
    add()("tokenizer-pre", po::value<std::string>()->default_value("auto")->value_name("NAME"),
          "what tokenizer.ggml.pre of a GGUF is taken for; auto: what the file says");
}

bool options::parse(const std::vector<std::string>& words) {
    const po::positional_options_description no_words;
    po::store(
        po::command_line_parser(words)
            .options(description_)
            .positional(no_words)
            .style(po::command_line_style::default_style & ~po::command_line_style::allow_guessing)
            .run(),
        values_);
    if (values_.count("help") != 0) {
        std::cout << "usage: semantic-eval " << self_.name << " " << self_.arguments << "\n"
                  << self_.summary << "\n\n"
                  << description_;
        return false;
    }
    po::notify(values_);
    return true;
}

int options::number(const char* name, int least, int most) const {
    const int value = get<int>(name);
    if (value < least || value > most) {
        throw bad_input("--" + std::string(name) + " is " + std::to_string(value) +
                        ": possible are " + std::to_string(least) + " to " + std::to_string(most));
    }
    return value;
}

server::found_model options::model() const {
    const bool named = values_.count("model") != 0;
    if (!named && embedded_model().empty())
        throw bad_input("the embedded model was not found next to the program: say --model");
    const std::string name = named ? get<std::string>("model") : embedded_model();
    const auto places = server::model_places::of_environment();
    return take(name.starts_with(server::hub_mark) ? server::find_hub_model(name, places)
                                                   : server::find_model(name, places));
}

std::string options::model_directory() const { return model().path; }

std::string options::words_directory(std::span<const char* const> files) const {
    if (values_.count("model") == 0) return model_directory();
    const std::filesystem::path named = get<std::string>("model");
    if (named.string().starts_with(server::hub_mark)) return model_directory();
    const auto has = [&](const char* file) {
        std::error_code ec;
        return std::filesystem::exists(named / file, ec);
    };
    if (std::ranges::any_of(files, has)) return named.string();
    const auto found = server::find_model(named.string(), server::model_places::of_environment());
    // A folder with only a tokenizer suffices where --chat-template names the template.
    if (!found && has(tokenizer_files[0])) return named.string();
    return take(found).path;
}

engine::tokenizer options::tokenizer() const {
    const auto& named = get<std::string>("tokenizer-pre");
    const std::string pre = named == "auto" ? "" : named;
    if (!pre.empty() && !engine::tokenizer::is_gguf_pre(pre))
        throw bad_input("--tokenizer-pre '" + pre +
                        "' must be auto or one of: " + engine::tokenizer::gguf_pres());
    return take(engine::tokenizer::load(words_directory(tokenizer_files), pre));
}

engine::chat_template options::chat_rules() const {
    const auto& family = get<std::string>("chat-template");
    const std::string directory = words_directory(template_files);
    if (family == "auto") return take(engine::chat_template::load(directory));
    auto rules = engine::chat_template::load(directory, family);
    if (!rules) throw bad_input("--chat-template: " + rules.error().what);
    return std::move(*rules);
}

std::string read_standard_input() {
    return std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
}

std::string read_text_file(const std::string& path) {
    if (path == "-") return read_standard_input();
    std::ifstream file(path, std::ios::binary);
    if (!file) throw bad_input(path + ": cannot be opened");
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (file.bad()) throw bad_input(path + ": reading failed");
    return text;
}

std::vector<storage::token_id> parse_ids(const std::string& json, const std::string& source) {
    boost::system::error_code ec;
    const boost::json::value value = boost::json::parse(json, ec);
    if (ec || !value.is_array()) throw bad_input(source + ": a JSON array of token ids is needed");
    std::vector<storage::token_id> ids;
    for (const boost::json::value& id : value.get_array()) {
        if (!id.is_int64() || id.get_int64() < 0 ||
            id.get_int64() > std::numeric_limits<storage::token_id>::max()) {
            throw bad_input(source + ": " + boost::json::serialize(id) + " at index " +
                            std::to_string(ids.size()) + " is no token id");
        }
        ids.push_back(static_cast<storage::token_id>(id.get_int64()));
    }
    return ids;
}

void print_ids(const std::vector<storage::token_id>& ids) {
    std::cout << '[';
    for (std::size_t i = 0; i < ids.size(); ++i) std::cout << (i == 0 ? "" : ", ") << ids[i];
    std::cout << "]\n";
}

void check_kv_name(const std::string& name) {
    if (name == "default" || storage::find_kv_recipe(name)) return;
    throw bad_input("\"" + name + "\" is not default, 16, 8, 4, " + storage::kv_recipe_names());
}

std::vector<std::string> parse_kv_list(const std::string& option, const std::string& list) {
    std::vector<std::string> names;
    std::istringstream words(list);
    for (std::string word; std::getline(words, word, ',');) {
        try {
            check_kv_name(word);
        } catch (const bad_input& error) {
            throw bad_input("--" + option + ": " + error.what());
        }
        names.push_back(word);
    }
    if (names.empty()) throw bad_input("--" + option + " is empty");
    return names;
}

progress_line::progress_line(std::string label)
    : label_(std::move(label)), terminal_(::isatty(STDERR_FILENO) == 1) {}

progress_line::~progress_line() {
    if (shown_) std::fputs("\r\033[K", stderr);
}

void progress_line::show(std::size_t done, std::size_t all, const std::string& note) {
    if (!terminal_) return;
    std::fprintf(stderr, "\r%s: %zu of %zu%s%s\033[K", label_.c_str(), done, all,
                 note.empty() ? "" : ", ", note.c_str());
    std::fflush(stderr);
    shown_ = true;
}

}  // namespace semantic::eval
