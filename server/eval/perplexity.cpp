// SPDX-License-Identifier: Apache-2.0
// perplexity: what a text costs to predict, and what fewer bits of K and V change about it.

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>

#include "engine/kernels/task_runner.hpp"
#include "engine/recipe/prediction_scores.hpp"
#include "server/eval/command_line.hpp"
#include "server/eval/offline_model.hpp"
#include "storage/pool/kv_recipe.hpp"

namespace semantic::eval {

namespace po = boost::program_options;

namespace {

using engine::compare;
using engine::position_score;
using engine::prediction;
using engine::quantile;
using engine::read_logits;
using engine::score_sum;
using storage::token_id;

// The most bytes of logits of one piece of a window for one KV form; two forms' are in memory at a
// time.
constexpr std::size_t piece_bytes = std::size_t{64} << 20;
constexpr int piece_tokens_max = 512;
constexpr int context_default = 8192;
constexpr double tail_share = 0.999;
constexpr double two_sided_95 = 1.96;
constexpr int first_depth = 512;  // positions of the first bucket; each next one ends twice as far

/// One way to keep K and V, and its scores.
struct kv_form {
    std::string name;  // as the user spelled it
    std::string recipe;
    std::unique_ptr<offline_model> model;
    score_sum all;
    std::vector<score_sum> by_depth;
    std::vector<float> divergences;  // [positions]

    /// Adds the score of a position, also to the bucket of its depth: 0 to 511, 512 to 1023, then
    /// twice as far each.
    void add(const position_score& score, int position) {
        all.add(score);
        divergences.push_back(static_cast<float>(score.divergence));
        std::size_t bucket = 0;
        for (int end = first_depth; position >= end; end *= 2) ++bucket;
        if (by_depth.size() <= bucket) by_depth.resize(bucket + 1);
        by_depth[bucket].add(score);
    }
};

/// The windows of a text; each is read into an empty cache.
struct window_plan {
    std::vector<token_id> tokens;
    std::optional<token_id> first;  // replaces each window's first token: a begin-of-text token
    int context = 0;
    int scored_from = 0;  // the first position whose prediction counts

    std::size_t count() const { return tokens.size() / static_cast<std::size_t>(context); }
    std::vector<token_id> window(std::size_t index) const {
        const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(index) * context;
        std::vector<token_id> ids(begin, begin + context);
        if (first) ids.front() = *first;
        return ids;
    }
};

struct perplexity_options {
    offline_options model;
    std::string id;
    std::string text;
    std::vector<std::string> kv;
    int context = 0;  // 0: the default, or the model's where that is less
    int tokens = 0;   // 0: all
    bool second_half = false;
    std::string csv;  // empty: none
};

/// The token that the tokenizer puts in front of a text; nothing: none.
std::optional<token_id> first_token(const engine::tokenizer& tokenizer) {
    const auto plain = tokenizer.encode("a"), whole = tokenizer.encode("a", true);
    const auto at = std::search(whole.begin(), whole.end(), plain.begin(), plain.end());
    if (at == whole.begin() || at == whole.end()) return std::nullopt;
    return whole.front();
}

/// Reads the text and divides it into windows. Throws bad_input.
window_plan plan_windows(const perplexity_options& options, const engine::tokenizer& tokenizer,
                         int context_max) {
    window_plan plan;
    plan.context = options.context != 0 ? options.context : std::min(context_default, context_max);
    if (plan.context > context_max)
        throw bad_input("--context " + std::to_string(plan.context) + ": the model's context has " +
                        std::to_string(context_max) + " tokens");
    plan.scored_from = options.second_half ? plan.context / 2 : 0;
    plan.first = first_token(tokenizer);
    plan.tokens = tokenizer.encode(read_text_file(options.text));
    if (plan.first) plan.tokens.insert(plan.tokens.begin(), *plan.first);
    const std::size_t read = plan.tokens.size();
    if (options.tokens != 0)
        plan.tokens.resize(std::min(read, static_cast<std::size_t>(options.tokens)));
    if (plan.count() == 0)
        throw bad_input((read > plan.tokens.size() ? "--tokens " : options.text + ": ") +
                        std::to_string(plan.tokens.size()) + " tokens do not fill a window of " +
                        std::to_string(plan.context) + ": give a smaller --context");
    return plan;
}

/// Makes the models. The first one loads the weights, which all share.
std::vector<kv_form> make_forms(const perplexity_options& options) {
    std::vector<kv_form> forms;
    for (const std::string& name : options.kv) {
        kv_form form;
        form.name = name;
        if (forms.empty()) {
            offline_options first = options.model;
            first.kv = name;
            form.model = std::make_unique<offline_model>(first);
        } else {
            form.model = std::make_unique<offline_model>(*forms.front().model, name);
        }
        form.recipe = storage::name_of(form.model->layout().recipe());
        forms.push_back(std::move(form));
    }
    return forms;
}

/// Runs a window through all forms, one piece after the other, so that only a piece's logits are in
/// memory.
class window_reader {
  public:
    window_reader(std::vector<kv_form>& forms, const window_plan& plan)
        : forms_(forms),
          plan_(plan),
          vocabulary_(static_cast<std::size_t>(forms.front().model->config().vocabulary)),
          tasks_(forms.front().model->threads()) {}

    /// Reads one window and adds its scores to all forms.
    void read(const std::vector<token_id>& ids, const std::function<void(int)>& on_progress) {
        ids_ = ids;
        sequences_.clear();
        for (const kv_form& form : forms_) sequences_.push_back(form.model->start());
        const int last = plan_.context - 1;  // predicts what is not in the window
        const int step = forms_.front().model->chunk_tokens();
        for (int begin = 0; begin < last; begin += step) {
            read_piece(begin, std::min(begin + step, last));
            on_progress(begin);
        }
    }

  private:
    std::span<const float> row(const std::vector<float>& logits, std::size_t index) const {
        return std::span(logits).subspan(index * vocabulary_, vocabulary_);
    }

    /// Runs a piece through all forms; the first form is the reference for the scores.
    void read_piece(int begin, int end) {
        const int scored = std::clamp(plan_.scored_from, begin, end);
        std::vector<int> wanted(static_cast<std::size_t>(end - scored));
        std::iota(wanted.begin(), wanted.end(), scored - begin);
        const auto piece = std::span<const token_id>(ids_).subspan(
            static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
        std::vector<float> reference;
        std::vector<prediction> predictions(wanted.size());
        for (std::size_t i = 0; i < forms_.size(); ++i) {
            std::vector<float> logits = forms_[i].model->run(*sequences_[i], piece, wanted);
            if (i == 0) {
                reference.swap(logits);
                for_rows(wanted.size(),
                         [&](std::size_t r) { predictions[r] = read_logits(row(reference, r)); });
            }
            score(forms_[i], scored, predictions, reference, i == 0 ? reference : logits);
        }
    }

    /// Adds the scores of the positions from `first` on to a form.
    void score(kv_form& form, int first, const std::vector<prediction>& predictions,
               const std::vector<float>& reference, const std::vector<float>& logits) {
        std::vector<position_score> scores(predictions.size());
        for_rows(scores.size(), [&](std::size_t r) {
            const token_id next = ids_[static_cast<std::size_t>(first) + r + 1];
            scores[r] = compare(row(reference, r), predictions[r], row(logits, r), next);
        });
        for (std::size_t r = 0; r < scores.size(); ++r)
            form.add(scores[r], first + static_cast<int>(r));
    }

    /// Calls `body` for each row on the model's threads.
    void for_rows(std::size_t rows, const std::function<void(std::size_t)>& body) {
        forms_.front().model->compute([&] {
            tasks_.together([&] {
                tasks_.for_rows(0, static_cast<int>(rows), static_cast<int>(vocabulary_),
                                [&](int row) { body(static_cast<std::size_t>(row)); });
            });
        });
    }

    std::vector<kv_form>& forms_;
    const window_plan& plan_;
    const std::size_t vocabulary_;
    const engine::task_runner tasks_;
    std::vector<token_id> ids_;
    std::vector<std::unique_ptr<offline_sequence>> sequences_;
};

/// The bytes of K and V for a token as a share of those at 16 bits.
double kv_bytes_share(const kv_form& form) {
    const auto& layout = form.model->layout();
    const auto plain =
        engine::make_kv_layout(form.model->config(), storage::kv_recipe(16), layout.block_tokens());
    return static_cast<double>(layout.bytes_per_token()) /
           static_cast<double>(plain.bytes_per_token());
}

std::string title_of(const kv_form& form) {
    return form.name == "default" ? "default: " + form.recipe : form.name;
}

/// Prints a row for each form, and then one for each form and depth.
void print_tables(const std::vector<kv_form>& forms, const window_plan& plan) {
    std::printf(
        "windows of %d tokens: %zu; predictions from position %d on; intervals of 95 %%\n\n",
        plan.context, plan.count(), plan.scored_from);
    std::printf(
        "| KV | tokens | perplexity | change | KL, mean | KL, 99.9 %% | same top | bytes |\n");
    std::printf("|---|---|---|---|---|---|---|---|\n");
    for (const kv_form& form : forms) {
        const double ppl = form.all.perplexity();
        std::printf(
            "| %s | %d | %.4f ± %.4f | %+.3f %% ± %.3f | %.6f | %.5f | %.2f %% | %.1f %% |\n",
            title_of(form).c_str(), form.all.positions(), ppl,
            two_sided_95 * ppl * form.all.perplexity_error(), 100 * form.all.change(),
            100 * two_sided_95 * form.all.change_error(), form.all.divergence_mean(),
            quantile(form.divergences, tail_share), 100 * form.all.same_top_share(),
            100 * kv_bytes_share(form));
    }
    std::printf("\n| KV | positions | perplexity | change | KL, mean | same top |\n");
    std::printf("|---|---|---|---|---|---|\n");
    for (const kv_form& form : forms) {
        int begin = 0, end = first_depth;
        for (const score_sum& bucket : form.by_depth) {
            if (bucket.positions() > 0)
                std::printf("| %s | %d to %d | %.4f | %+.3f %% ± %.3f | %.6f | %.2f %% |\n",
                            title_of(form).c_str(), begin, std::min(end, plan.context) - 1,
                            bucket.perplexity(), 100 * bucket.change(),
                            100 * two_sided_95 * bucket.change_error(), bucket.divergence_mean(),
                            100 * bucket.same_top_share());
            begin = end;
            end *= 2;
        }
    }
}

std::string csv_field(const std::string& text) {
    if (text.find_first_of(",\"\n") == text.npos) return text;
    std::string quoted = "\"";
    for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
    return quoted + '"';
}

/// Writes a line for each form. Throws bad_input.
void write_csv(const std::string& path, const std::string& model,
               const std::vector<kv_form>& forms) {
    std::ofstream out(path, std::ios::trunc);
    out << "model,kv,tokens,ppl,ppl_change_pct,ppl_change_se,kl_mean,kl_p999,same_top_pct,"
           "kv_bytes_pct\n";
    out.precision(9);
    for (const kv_form& form : forms)
        out << csv_field(model) << ',' << form.name << ',' << form.all.positions() << ','
            << form.all.perplexity() << ',' << 100 * form.all.change() << ','
            << 100 * form.all.change_error() << ',' << form.all.divergence_mean() << ','
            << quantile(form.divergences, tail_share) << ',' << 100 * form.all.same_top_share()
            << ',' << 100 * kv_bytes_share(form) << '\n';
    out.close();
    if (!out) throw bad_input("--csv " + path + ": writing failed");
}

/// Checks that the CSV file can be written before hours of work. Throws bad_input.
void check_csv(const std::string& path) {
    if (!path.empty() && !std::ofstream(path, std::ios::app))
        throw bad_input("--csv " + path + ": cannot be written");
}

perplexity_options read_options(const options& given) {
    perplexity_options read;
    if (given.has("kv") && given.has("kv-bits"))
        throw bad_input("--kv and --kv-bits mean the same: give one of them");
    const char* kv = given.has("kv-bits") ? "kv-bits" : "kv";
    read.kv = parse_kv_list(kv, given.has(kv) ? given.get<std::string>(kv) : "16,8,4");
    if (given.has("context")) read.context = given.number("context", 2, 1 << 24);
    if (given.has("tokens")) read.tokens = given.number("tokens", 2, 1 << 30);
    read.second_half = given.get<bool>("second-half");
    read.text = given.get<std::string>("text");
    if (given.has("csv")) read.csv = given.get<std::string>("csv");
    const server::found_model model = given.model();
    read.id = model.id;
    read.model.directory = model.path;
    read.model.kernels = given.get<std::string>("kernels");
    read.model.weights = given.get<std::string>("weights");
    read.model.memory_limit_mb = given.memory_limit_mb();
    read.model.threads = given.number("threads", 0, 1024);
    read.model.compensated = given.get<bool>("compensated");
    return read;
}

void add_options(options& given) {
    given.add_compute();
    given.add_tokenizer();
    given.add()("text", po::value<std::string>()->required()->value_name("FILE"),
                "UTF-8 text to predict; - is standard input");
    given.add()("kv", po::value<std::string>()->value_name("LIST"),
                ("how K and V are kept: 16, 8, 4, " + storage::kv_recipe_names() +
                 ", default (what the server takes for this model); the first is what the others "
                 "are compared with (left out: 16,8,4)")
                    .c_str());
    given.add()("kv-bits", po::value<std::string>()->value_name("LIST"), "the same as --kv");
    given.add()("context", po::value<int>()->value_name("N"),
                "tokens of a window, each of which is read from an empty cache; what does not fill "
                "the last one is left out (left out: 8192, or the model's context where that is "
                "less)");
    given.add()("tokens", po::value<int>()->value_name("N"),
                "read no more than the text's first N tokens (left out: all)");
    given.add()("compensated", po::bool_switch(),
                "multiply what 8 bits lose of activations too, so that K and V alone make the "
                "difference; takes twice as long");
    given.add()("second-half", po::bool_switch(),
                "count only predictions in the second half of each window, as llama.cpp's "
                "perplexity does; its windows, and the token in front of each, are these");
    given.add()("csv", po::value<std::string>()->value_name("FILE"),
                "write one line for each of --kv; ppl_change_se is one standard error");
}

}  // namespace

int run_perplexity(const command& self, const std::vector<std::string>& words) {
    options given(self);
    add_options(given);
    if (!given.parse(words)) return 0;
    perplexity_options options = read_options(given);
    check_csv(options.csv);
    const auto config = take(engine::model_config::load(options.model.directory));
    const window_plan plan = plan_windows(options, given.tokenizer(), config.context_tokens_max);
    options.model.tokens_max = plan.context;
    options.model.chunk_tokens = static_cast<int>(std::clamp<std::size_t>(
        piece_bytes / (sizeof(float) * static_cast<std::size_t>(config.vocabulary)), 1,
        piece_tokens_max));
    std::vector<kv_form> forms = make_forms(options);
    {
        progress_line progress("tokens");
        const std::size_t all = plan.count() * static_cast<std::size_t>(plan.context);
        window_reader reader(forms, plan);
        for (std::size_t i = 0; i < plan.count(); ++i) {
            const std::size_t before = i * static_cast<std::size_t>(plan.context);
            reader.read(plan.window(i), [&](int done) {
                char note[48];
                std::snprintf(note, sizeof note, "perplexity %.3f", forms.front().all.perplexity());
                progress.show(before + static_cast<std::size_t>(done), all, note);
            });
        }
    }
    print_tables(forms, plan);
    if (!options.csv.empty()) write_csv(options.csv, options.id, forms);
    return 0;
}

}  // namespace semantic::eval
