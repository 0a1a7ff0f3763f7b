// SPDX-License-Identifier: Apache-2.0
// logits, greedy: numbers to compare with another implementation's.

#include <algorithm>
#include <charconv>
#include <fstream>
#include <numeric>
#include <sstream>

#include "server/eval/command_line.hpp"
#include "server/eval/offline_model.hpp"
#include "storage/files/safetensors.hpp"
#include "storage/pool/kv_recipe.hpp"

namespace semantic::eval {

namespace po = boost::program_options;

namespace {

constexpr int tokens_limit = 1 << 24;

/// Parses "all" or positions separated by commas. Returns: them ascending, each once. Throws
/// bad_input.
std::vector<int> parse_positions(const std::string& list, std::size_t token_count) {
    std::vector<int> positions(token_count);
    if (list == "all") {
        std::iota(positions.begin(), positions.end(), 0);
        return positions;
    }
    positions.clear();
    std::istringstream words(list);
    for (std::string word; std::getline(words, word, ',');) {
        int position = -1;
        const auto [end, ec] = std::from_chars(word.data(), word.data() + word.size(), position);
        if (ec != std::errc() || end != word.data() + word.size() || position < 0 ||
            static_cast<std::size_t>(position) >= token_count) {
            throw bad_input("--positions: \"" + word + "\" is no position in " +
                            std::to_string(token_count) + " tokens");
        }
        positions.push_back(position);
    }
    std::sort(positions.begin(), positions.end());
    positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
    if (positions.empty()) throw bad_input("--positions is empty");
    return positions;
}

/// Writes positions and logits as a safetensors file. Throws bad_input.
void write_logits(const std::string& path, const std::vector<int>& positions,
                  const std::vector<float>& logits) {
    const std::vector<std::int64_t> wide(positions.begin(), positions.end());
    const auto rows = static_cast<std::int64_t>(wide.size());
    const storage::tensor_to_write tensors[] = {
        {"positions", storage::dtype::i64, {rows}, std::as_bytes(std::span(wide))},
        {"logits",
         storage::dtype::f32,
         {rows, static_cast<std::int64_t>(logits.size()) / rows},
         std::as_bytes(std::span(logits))}};
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << storage::safetensors_header(tensors, {});
    for (const storage::tensor_to_write& tensor : tensors) {
        out.write(reinterpret_cast<const char*>(tensor.bytes.data()),
                  static_cast<std::streamsize>(tensor.bytes.size()));
    }
    out.close();
    if (!out) throw bad_input(path + ": writing failed");
}

/// Adds the options of commands that compute one sequence.
void add_sequence_options(options& given) {
    given.add_compute();
    given.add()("tokens", po::value<std::string>()->required()->value_name("FILE"),
                "JSON array of token ids; - is standard input");
    given.add()("kv-bits", po::value<std::string>()->default_value("default")->value_name("RECIPE"),
                ("how K and V are kept: 16, 8, 4, " + storage::kv_recipe_names() +
                 "; default: what the server takes for this model")
                    .c_str());
    given.add()("chunk", po::value<int>()->default_value(512)->value_name("N"),
                "tokens prefilled at once; the results do not depend on it");
    given.add()("compensated", po::bool_switch(),
                "multiply what 8 bits lose of activations too: nearly a float model's logits, for "
                "twice the work");
}

/// The model's options as the command line has them. `tokens_max`: of the sequence. Throws
/// bad_input.
offline_options model_options(const options& given, std::size_t tokens_max) {
    const auto recipes = parse_kv_list("kv-bits", given.get<std::string>("kv-bits"));
    if (recipes.size() != 1) throw bad_input("--kv-bits: one recipe is needed here");
    if (tokens_max > tokens_limit)
        throw bad_input(std::to_string(tokens_max) + " tokens are too many");
    offline_options options{given.model_directory(),           given.get<std::string>("kernels"),
                            given.number("threads", 0, 1024),  recipes[0],
                            given.number("chunk", 1, 1 << 16), static_cast<int>(tokens_max),
                            given.get<std::string>("weights"), given.get<bool>("compensated")};
    options.memory_limit_mb = given.memory_limit_mb();
    return options;
}

/// The token ids in the file of --tokens. Throws bad_input.
std::vector<storage::token_id> prompt_of(const options& given) {
    const auto& path = given.get<std::string>("tokens");
    auto ids = parse_ids(read_text_file(path), path == "-" ? "standard input" : path);
    if (ids.empty()) throw bad_input(path + ": there are no tokens in it");
    return ids;
}

}  // namespace

int run_logits(const command& self, const std::vector<std::string>& words) {
    options given(self);
    add_sequence_options(given);
    given.add()("positions",
                po::value<std::string>()->default_value("all")->value_name("all|p,q,..."),
                "whose logits to write, counted from 0");
    given.add()("out", po::value<std::string>()->required()->value_name("FILE"),
                "safetensors file to write");
    if (!given.parse(words)) return 0;
    const auto ids = prompt_of(given);
    const auto positions = parse_positions(given.get<std::string>("positions"), ids.size());
    offline_model model(model_options(given, ids.size()));
    std::vector<float> logits;
    {
        progress_line progress("tokens");
        logits = model.run(*model.start(), ids, positions,
                           [&](std::size_t done) { progress.show(done, ids.size()); });
    }
    write_logits(given.get<std::string>("out"), positions, logits);
    return 0;
}

int run_greedy(const command& self, const std::vector<std::string>& words) {
    options given(self);
    add_sequence_options(given);
    given.add()("max-new", po::value<int>()->default_value(32)->value_name("N"),
                "how many tokens to add");
    given.add()("stop", po::bool_switch(), "end after the first stop token of the model's config");
    if (!given.parse(words)) return 0;
    const auto ids = prompt_of(given);
    const int max_new = given.number("max-new", 0, tokens_limit);
    offline_model model(model_options(given, ids.size() + static_cast<std::size_t>(max_new)));
    std::vector<storage::token_id> stops;
    if (given.get<bool>("stop")) stops = model.config().eos_tokens;
    print_ids(model.greedy(ids, max_new, stops));
    return 0;
}

}  // namespace semantic::eval
