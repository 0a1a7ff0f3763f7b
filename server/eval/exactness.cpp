// SPDX-License-Identifier: Apache-2.0
// exactness: whether this machine computes a model's logits alike on every way that a server has.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include "engine/recipe/calibration_text.hpp"
#include "server/eval/command_line.hpp"
#include "server/eval/exact_ways.hpp"
#include "storage/pool/kv_recipe.hpp"

namespace semantic::eval {

namespace po = boost::program_options;

namespace {

using storage::token_id;

constexpr int tokens_default = 600;  // two blocks of 256 and a tail
constexpr int read_tokens_max = 1 << 20;
constexpr int chunk_tokens = 512;

/// A new directory, removed with its content at the end.
class scratch_folder {
  public:
    scratch_folder() {
        const char* named = std::getenv("TMPDIR");
        const bool is_named = named != nullptr && *named != '\0';
        path_ = std::string(is_named ? named : "/tmp") + "/semantic-exactness-XXXXXX";
        if (::mkdtemp(path_.data()) == nullptr)
            throw bad_input(path_ + ": cannot be made (TMPDIR names the folder)");
    }
    ~scratch_folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    scratch_folder(const scratch_folder&) = delete;
    scratch_folder& operator=(const scratch_folder&) = delete;
    const std::string& path() const noexcept { return path_; }

  private:
    std::string path_;
};

struct exactness_options {
    offline_options model;
    std::vector<std::string> kv;
    bool all = false;  // whether recipes that the model cannot have are skipped
    std::vector<token_id> tokens;
};

/// The tokens to read: of --text, or of the text that recipes are measured on.
std::vector<token_id> read_tokens(const options& given) {
    const int wanted = given.number("tokens", exact_ways::tokens_min, read_tokens_max);
    const bool own = given.has("text");
    const std::string text = own ? read_text_file(given.get<std::string>("text"))
                                 : std::string(engine::calibration_text());
    std::vector<token_id> tokens = given.tokenizer().encode(text);
    if (static_cast<int>(tokens.size()) < wanted)
        throw bad_input("the text has " + std::to_string(tokens.size()) + " tokens, fewer than " +
                        std::to_string(wanted) +
                        (own ? ": give a smaller --tokens" : ": give a longer one, --text"));
    tokens.resize(static_cast<std::size_t>(wanted));
    return tokens;
}

/// Reads the options. Throws bad_input.
exactness_options read_exactness_options(const options& given) {
    exactness_options read;
    const auto& kv = given.get<std::string>("kv");
    read.all = kv == "all";
    if (read.all)
        for (const storage::named_kv_recipe& each : storage::kv_recipes())
            read.kv.emplace_back(each.name);
    else
        read.kv = parse_kv_list("kv", kv);
    read.model.directory = given.model_directory();
    read.model.kernels = given.get<std::string>("kernels");
    if (read.model.kernels == "portable")
        throw bad_input(
            "--kernels portable: BLAS orders its sums as it likes, nothing is promised");
    read.model.weights = given.get<std::string>("weights");
    read.model.memory_limit_mb = given.memory_limit_mb();
    read.model.threads = given.number("threads", 0, 1024);
    read.model.chunk_tokens = chunk_tokens;
    read.model.sequences = exact_ways::sequences;
    read.tokens = read_tokens(given);
    read.model.tokens_max = static_cast<int>(read.tokens.size());
    return read;
}

/// Prints one row of the table. Returns: whether all bits were the same.
bool print_row(const std::string& kv, const std::vector<way_outcome>& outcomes) {
    bool same = true;
    std::printf("| %s |", kv.c_str());
    for (const way_outcome& each : outcomes) {
        if (each.differs_at)
            std::printf(" **other at %d** |", *each.differs_at);
        else
            std::printf(" same |");
        same = same && !each.differs_at;
    }
    std::printf("\n");
    std::fflush(stdout);  // a large model takes minutes for a row
    return same;
}

/// Prints what is compared, and the head of the table.
void print_head(const exact_ways& ways, std::size_t tokens,
                const std::vector<way_outcome>& outcomes) {
    std::printf(
        "logits of %d positions of a text of %zu tokens, bit for bit as those of the text read at "
        "once; prefixes of %d tokens, and of %d, inside a complete block\n\n| KV |",
        ways.positions(), tokens, ways.prefix(), ways.parting());
    for (const way_outcome& each : outcomes) std::printf(" %s |", each.name.c_str());
    std::printf("\n|---|");
    for (std::size_t i = 0; i < outcomes.size(); ++i) std::printf("---|");
    std::printf("\n");
}

/// A model that keeps K and V as `kv` says. It shares the weights of `first`; null: it loads them.
std::unique_ptr<offline_model> make_model(const exactness_options& options, const std::string& kv,
                                          const offline_model* first) {
    if (first != nullptr) return std::make_unique<offline_model>(*first, kv);
    offline_options own = options.model;
    own.kv = kv;
    return std::make_unique<offline_model>(own);
}

}  // namespace

int run_exactness(const command& self, const std::vector<std::string>& words) {
    options given(self);
    given.add_compute();
    given.add_tokenizer();
    given.add()("kv", po::value<std::string>()->default_value("default")->value_name("LIST"),
                ("how K and V are kept: 16, 8, 4, " + storage::kv_recipe_names() +
                 ", default (what the server takes for this model), or all that the model can have")
                    .c_str());
    given.add()("tokens", po::value<int>()->default_value(tokens_default)->value_name("N"),
                "the text's first N tokens");
    given.add()("text", po::value<std::string>()->value_name("FILE"),
                "UTF-8 text to read; - is standard input (left out: the one that recipes are "
                "measured on)");
    if (!given.parse(words)) return 0;
    const exactness_options options = read_exactness_options(given);
    std::unique_ptr<offline_model> first;
    if (options.all) first = make_model(options, "16", nullptr);
    int rows = 0, others = 0;
    for (const std::string& kv : options.kv) {
        std::unique_ptr<offline_model> model;
        try {
            model = make_model(options, kv, first.get());
        } catch (const bad_input& error) {
            if (!options.all) throw;
            std::cerr << "left out: " << error.what() << "\n";
            continue;
        }
        const scratch_folder folder;
        exact_ways ways(*model, options.tokens, folder.path());
        std::vector<way_outcome> outcomes;
        {
            progress_line progress(model->kv());
            std::size_t done = 0;
            outcomes = ways.run(
                [&](const std::string& way) { progress.show(done++, exact_ways::way_count, way); });
        }
        if (rows++ == 0) print_head(ways, options.tokens.size(), outcomes);
        others += print_row(model->kv(), outcomes) ? 0 : 1;
        if (first == nullptr) first = std::move(model);
    }
    if (others == 0) return 0;
    std::cerr << "semantic-eval exactness: " << others << " of " << rows
              << " recipes gave other bits\n";
    return 1;
}

}  // namespace semantic::eval
