// SPDX-License-Identifier: Apache-2.0
#include "server/eval/model_report.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <utility>

#include "engine/model/capacity.hpp"
#include "engine/model/weights/gguf_blocks.hpp"
#include "engine/model/weights/weight_files.hpp"
#include "engine/model/weights/weights.hpp"
#include "server/eval/offline_model.hpp"
#include "storage/files/file.hpp"
#include "storage/files/gguf.hpp"

namespace semantic::eval {

namespace {

constexpr int report_block_tokens = 256;
constexpr std::uint64_t tokenizer_bytes_max = std::uint64_t{64} << 20;

/// Collects the report. A step that fails adds a problem, and the others go on.
class inspection {
  public:
    inspection(const options& given, std::uint64_t pool_bytes) : given_(given) {
        report_.model = given.model();
        report_.pool_bytes = pool_bytes;
    }

    model_report run(bool measure) && {
        if (storage::is_gguf_path(path())) {
            read_gguf();
        } else {
            read_folder();
        }
        attempt([&] { report_.config = take(engine::model_config::load(path())); });
        if (report_.config) {
            // Types that are not read were reported already, with all tensors that have them.
            const bool known = std::all_of(report_.types.begin(), report_.types.end(),
                                           [](const tensor_type& type) { return type.is_read; });
            if (known && !report_.types.empty()) check_weights();
            read_kv();
        }
        attempt([&] { read_tokenizer(); });
        attempt([&] {
            const engine::chat_template rules = given_.chat_rules();
            report_.template_family = rules.family();
            report_.template_assumed = rules.assumed();
        });
        if (report_.problems.empty()) plan_memory();
        const auto& pre = given_.get<std::string>("tokenizer-pre");
        if (measure && report_.problems.empty()) measure_kv(pre == "auto" ? "" : pre);
        return std::move(report_);
    }

  private:
    const std::string& path() const { return report_.model.path; }

    /// Runs `body`. An exception becomes a problem of the report, once.
    template <class Body>
    void attempt(Body&& body) {
        try {
            body();
        } catch (const std::exception& error) {
            const std::string problem = error.what();
            const auto& known = report_.problems;
            if (std::find(known.begin(), known.end(), problem) == known.end())
                report_.problems.push_back(problem);
        }
    }

    /// Counts a tensor of this type.
    void count(const std::string& type, std::uint64_t bytes, bool is_read) {
        auto& counted = types_[type];
        counted.name = type;
        counted.tensors += 1;
        counted.bytes += bytes;
        counted.is_read = is_read;
    }

    /// Lists the counted types, the largest first.
    void list_types() {
        for (auto& [name, type] : types_) report_.types.push_back(type);
        std::sort(report_.types.begin(), report_.types.end(),
                  [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    }

    /// Reads the headers of a GGUF and all its parts: version, tokenizer, types of tensors.
    void read_gguf() {
        attempt([&] {
            const auto parts = take(storage::open_gguf(path()));
            const auto& metadata = parts.front().view().metadata;
            report_.container = "GGUF version " + std::to_string(parts.front().view().version);
            kind_ = text_at(metadata, "tokenizer.ggml.model");
            if (const std::string pre = text_at(metadata, "tokenizer.ggml.pre"); !pre.empty())
                kind_ += ", pre " + pre;
            for (const storage::gguf_file& part : parts) {
                report_.files += 1;
                report_.file_bytes += part.bytes().size();
                for (const auto& [name, tensor] : part.view().tensors)
                    count(storage::find_block_size(tensor.type)->name, tensor.bytes.size(),
                          engine::can_dequantize(tensor.type));
            }
            list_types();
            for (const tensor_type& type : report_.types)
                if (!type.is_read) refuse_type(parts, type);
        });
    }

    static std::string text_at(
        const std::map<std::string, storage::gguf_value, std::less<>>& values,
        std::string_view key) {
        const auto at = values.find(key);
        const auto* text =
            at == values.end() ? nullptr : std::get_if<std::string_view>(&at->second);
        return text == nullptr ? "" : std::string(*text);
    }

    /// Adds a problem for a type of tensors that the loader does not support.
    void refuse_type(const std::vector<storage::gguf_file>& parts, const tensor_type& type) {
        for (const storage::gguf_file& part : parts) {
            for (const auto& [name, tensor] : part.view().tensors) {
                if (storage::find_block_size(tensor.type)->name != type.name) continue;
                report_.problems.push_back(path() + ": " + std::to_string(type.tensors) +
                                           " tensors have type " + type.name +
                                           ", which is not supported; the first is " + name +
                                           "; supported are " + engine::readable_gguf_types());
                return;
            }
        }
    }

    /// Reads the headers of a folder of safetensors.
    void read_folder() {
        report_.container = "folder of safetensors";
        attempt([&] {
            for (const engine::weight_file& file : take(engine::open_weight_files(path()))) {
                report_.files += 1;
                report_.file_bytes += file.bytes().size();
                for (const engine::stored_tensor& tensor : file.tensors())
                    count(tensor.type_name(), tensor.bytes.size(), true);
            }
            list_types();
        });
    }

    /// Checks the tensors as the loader would, and counts what they take packed.
    void check_weights() {
        attempt([&] {
            auto checked = take(engine::model_weights::check(path(), *report_.config, form()));
            report_.weight_bytes = checked.bytes;
            report_.left_out = std::move(checked.left_out);
        });
    }

    engine::weight_form form() const {
        const auto& name = given_.get<std::string>("weights");
        const auto found = engine::find_weight_form(name);
        if (!found) throw bad_input("--weights \"" + name + "\": possible are native, q8 and q4");
        return *found;
    }

    /// Plans the memory as the server does before it loads a model. Requires: no problem was found.
    void plan_memory() {
        attempt([&] {
            server::config settings;
            settings.memory_limit_mb = given_.memory_limit_mb();
            settings.weights = given_.get<std::string>("weights");
            report_.memory = take(server::plan_for({path(), settings}));
        });
    }

    /// Computes what each KV recipe costs, or why the model cannot have it.
    void read_kv() {
        for (const storage::named_kv_recipe& each : storage::kv_recipes()) {
            kv_cost cost;
            cost.name = each.name;
            cost.bits = each.recipe.mean_bits();
            try {
                const auto layout =
                    engine::make_kv_layout(*report_.config, each.recipe, report_block_tokens);
                cost.bytes_per_token = layout.bytes_per_token();
                cost.lasting_bytes_per_token = engine::lasting_bytes_per_token(layout);
                cost.agents_4k = agents_in(layout, 4096);
                cost.agents_16k = agents_in(layout, 16384);
            } catch (const std::exception& error) {
                cost.refused = error.what();
            }
            report_.kv.push_back(std::move(cost));
        }
    }

    /// Loads the model and measures what each recipe costs. Requires: no problem was found.
    void measure_kv(const std::string& tokenizer_pre) {
        attempt([&] {
            offline_options options;
            options.directory = path();
            options.kv = "16";
            options.weights = given_.get<std::string>("weights");
            options.memory_limit_mb = given_.memory_limit_mb();
            options.tokenizer_pre = tokenizer_pre;
            offline_model model(options);
            const auto begin = std::chrono::steady_clock::now();
            const auto scores = model.measure_recipes();
            report_.measured_seconds =
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
            const engine::recipe_score& best =
                engine::choose_recipe(scores, engine::recipe_bound());
            report_.kv_default = best.name;
            for (kv_cost& cost : report_.kv) {
                for (const engine::recipe_score& score : scores)
                    if (score.name == cost.name) cost.score = score;
                cost.not_measured = why_not_measured(cost, best);
            }
        });
    }

    /// Why a recipe has no score; empty: it has one.
    static std::string why_not_measured(const kv_cost& cost, const engine::recipe_score& best) {
        if (!cost.score) return "no candidate";
        if (cost.score->is_measured()) return "";
        return cost.score->bytes_share >= best.bytes_share
                   ? "not smaller than the default"
                   : "a finer one is not well within the bound";
    }

    std::optional<std::uint64_t> agents_in(const storage::kv_layout& layout, int tokens) const {
        if (tokens > report_.config->context_tokens_max) return std::nullopt;
        return engine::conversations_in(layout, tokens, report_.pool_bytes,
                                        engine::kept_state_bytes(*report_.config));
    }

    /// Loads the tokenizer and notes what it is.
    void read_tokenizer() {
        const engine::tokenizer tokenizer = given_.tokenizer();
        tokenizer_facts facts;
        facts.kind = kind_.empty() ? kind_of_folder() : kind_;
        facts.vocabulary = tokenizer.vocabulary();
        // What the tokenizer puts in front of a text: all tokens before those of the plain text.
        const auto plain = tokenizer.encode("a"), whole = tokenizer.encode("a", true);
        const auto at = std::search(whole.begin(), whole.end(), plain.begin(), plain.end());
        for (auto id = whole.begin(); at != whole.end() && id != at; ++id)
            facts.first += tokenizer.bytes(*id);
        report_.tokenizer = std::move(facts);
    }

    /// The kind of tokenizer that tokenizer.json names; empty: none.
    std::string kind_of_folder() const {
        const std::string json = take(storage::read_whole(
            storage::posix_file_system(), path() + "/tokenizer.json", tokenizer_bytes_max));
        boost::system::error_code ec;
        const boost::json::value root = boost::json::parse(json, ec);
        const auto* model = root.is_object() ? root.get_object().if_contains("model") : nullptr;
        const auto* type = model != nullptr && model->is_object()
                               ? model->get_object().if_contains("type")
                               : nullptr;
        return type != nullptr && type->is_string() ? std::string(type->get_string()) : "";
    }

    const options& given_;
    model_report report_;
    std::map<std::string, tensor_type> types_;
    std::string kind_;  // of a GGUF's tokenizer
};

}  // namespace

model_report report_on(const options& given, std::uint64_t pool_bytes, bool measure) {
    return inspection(given, pool_bytes).run(measure);
}

}  // namespace semantic::eval
