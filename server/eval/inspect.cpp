// SPDX-License-Identifier: Apache-2.0
// inspect: what a model is, what it costs, and what of it would be refused.

#include <boost/json.hpp>

#include <cstdio>
#include <iostream>
#include <map>

#include "server/eval/command_line.hpp"
#include "server/eval/model_report.hpp"

namespace semantic::eval {

namespace po = boost::program_options;
namespace json = boost::json;

namespace {

std::string megabytes(std::uint64_t bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
    return text;
}

/// Layers that see a window, in short: "5 of 18 layers see 512 tokens".
std::string windows_of(const engine::model_config& config) {
    int sliding = 0, window = 0;
    for (const engine::layer_config& layer : config.layers) {
        if (layer.window == 0) continue;
        ++sliding;
        window = std::max(window, layer.window);
    }
    if (sliding == 0) return "";
    return std::to_string(sliding) + " of " + std::to_string(config.layers.size()) +
           " layers see " + std::to_string(window) + " tokens";
}

int mixture_layers(const engine::model_config& config) {
    int count = 0;
    for (const engine::layer_config& layer : config.layers) count += layer.mixture ? 1 : 0;
    return count;
}

/// Layers that do not attend, in short: "24 of 32 layers: gated delta rule".
std::string recurrent_of(const engine::model_config& config) {
    int count = 0;
    const char* kind = "";
    for (const engine::layer_config& layer : config.layers) {
        if (!engine::is_recurrent(layer.mixer)) continue;
        ++count;
        kind = layer.mixer == engine::mixer_kind::delta_rule    ? "gated delta rule"
               : layer.mixer == engine::mixer_kind::state_space ? "Mamba-2"
                                                                : "short convolution";
    }
    if (count == 0) return "";
    return std::to_string(count) + " of " + std::to_string(config.layers.size()) +
           " layers: " + kind;
}

/// The number of tensors that are left out, by the beginnings of their names: "model.visual: 12,
/// mtp: 15".
std::string left_out_of(const model_report& report) {
    std::map<std::string, int> counts;
    for (const std::string& name : report.left_out) {
        const std::size_t first = name.find('.');
        const bool inside = name.starts_with("model.");
        ++counts[name.substr(0, inside ? name.find('.', first + 1) : first)];
    }
    std::string text;
    for (const auto& [name, count] : counts)
        text.append(text.empty() ? "" : ", ").append(name + ": " + std::to_string(count));
    return text;
}

/// The geometry for the JSON form.
json::object geometry_of(const engine::model_config& config) {
    json::object out{{"family", config.family},
                     {"layers", config.layers.size()},
                     {"hidden", config.hidden},
                     {"intermediate", config.intermediate},
                     {"heads", config.heads},
                     {"kv_heads", config.kv_heads},
                     {"head_dim", config.head_dim},
                     {"vocabulary", config.vocabulary},
                     {"context_tokens", config.context_tokens_max},
                     {"tied_head", config.tied_head}};
    if (const std::string windows = windows_of(config); !windows.empty()) out["windows"] = windows;
    if (config.state_bytes() > 0) {
        out["recurrent_layers"] = recurrent_of(config);
        out["state_bytes"] = config.state_bytes();
    }
    if (config.latent.rank > 0) out["latent_rank"] = config.latent.rank;
    if (const int layers = mixture_layers(config); layers > 0) {
        out["mixture_layers"] = layers;
        out["experts"] = config.mixture.experts;
        out["experts_per_token"] = config.mixture.per_token;
    }
    return out;
}

/// The report in its JSON form.
json::object json_of(const model_report& report) {
    json::array types, kv;
    for (const tensor_type& type : report.types)
        types.push_back({{"type", type.name},
                         {"tensors", type.tensors},
                         {"bytes", type.bytes},
                         {"supported", type.is_read}});
    for (const kv_cost& cost : report.kv) {
        json::object row{{"kv", cost.name}, {"bits", cost.bits}};
        if (cost.score && cost.score->is_measured()) {
            row["divergence_mean"] = cost.score->divergence_mean;
            row["same_top_share"] = cost.score->same_top_share;
            row["same_top_share_se"] = cost.score->same_top_error();
            row["positions"] = cost.score->positions;
        }
        if (!cost.not_measured.empty()) row["not_measured"] = cost.not_measured;
        if (!cost.refused.empty()) {
            row["refused"] = cost.refused;
        } else {
            row["bytes_per_token"] = cost.bytes_per_token;
            row["bytes_per_token_behind_windows"] = cost.lasting_bytes_per_token;
            row["agents_4k"] = json::value_from(cost.agents_4k);
            row["agents_16k"] = json::value_from(cost.agents_16k);
        }
        kv.push_back(std::move(row));
    }
    json::object out{{"model", report.model.id},
                     {"path", report.model.path},
                     {"container", report.container},
                     {"files", report.files},
                     {"file_bytes", report.file_bytes},
                     {"types", std::move(types)},
                     {"weight_bytes", nullptr},
                     {"memory", nullptr},
                     {"geometry", nullptr},
                     {"tokenizer", nullptr},
                     {"chat_template", nullptr},
                     {"pool_bytes", report.pool_bytes},
                     {"kv", std::move(kv)},
                     {"kv_default", nullptr},
                     {"loads", report.problems.empty()},
                     {"problems", json::array(report.problems.begin(), report.problems.end())}};
    if (report.weight_bytes != 0) out["weight_bytes"] = report.weight_bytes;
    if (!report.left_out.empty())
        out["left_out"] = json::array(report.left_out.begin(), report.left_out.end());
    if (report.memory)
        out["memory"] = json::object{{"needed_bytes", report.memory->needs.sum()},
                                     {"pool_bytes", report.memory->pool},
                                     {"limit_bytes", report.memory->limit.bytes},
                                     {"limit", report.memory->limit.name}};
    if (report.config) out["geometry"] = geometry_of(*report.config);
    if (report.tokenizer)
        out["tokenizer"] = json::object{{"kind", report.tokenizer->kind},
                                        {"vocabulary", report.tokenizer->vocabulary},
                                        {"puts_in_front", report.tokenizer->first}};
    if (!report.template_family.empty()) out["chat_template"] = report.template_family;
    if (!report.template_assumed.empty()) out["chat_template_reason"] = report.template_assumed;
    if (!report.kv_default.empty()) {
        out["kv_default"] = report.kv_default;
        out["measured_seconds"] = report.measured_seconds;
    }
    return out;
}

/// Prints a line of the text form: a name and what it says.
void print_line(const char* name, const std::string& text) {
    std::printf("%-14s %s\n", name, text.c_str());
}

/// Prints the geometry in the text form.
void print_geometry(const engine::model_config& config) {
    print_line("family", config.family);
    print_line("geometry", std::to_string(config.layers.size()) + " layers, hidden " +
                               std::to_string(config.hidden) + ", intermediate " +
                               std::to_string(config.intermediate) + ", vocabulary " +
                               std::to_string(config.vocabulary) +
                               (config.tied_head ? ", tied head" : ""));
    std::string attention = std::to_string(config.heads) + " heads";
    if (config.latent.rank > 0) {
        attention += ", one latent of " + std::to_string(config.latent.rank);
    } else {
        attention += " of " + std::to_string(config.head_dim) + ", " +
                     std::to_string(config.kv_heads) + " for K and V";
        if (!config.has_uniform_heads()) attention += ", at most: layers differ";
    }
    if (const std::string windows = windows_of(config); !windows.empty())
        attention += "; " + windows;
    print_line("attention", attention);
    if (config.state_bytes() > 0)
        print_line("recurrent", recurrent_of(config) + "; a state of " +
                                    megabytes(config.state_bytes()) + " a sequence");
    if (const int layers = mixture_layers(config); layers > 0)
        print_line("mixture", std::to_string(layers) + " layers of " +
                                  std::to_string(config.mixture.experts) + " experts, " +
                                  std::to_string(config.mixture.per_token) + " a token");
    print_line("context", std::to_string(config.context_tokens_max) + " tokens");
}

/// Prints the table of KV recipes.
void print_kv(const model_report& report) {
    const bool measured = !report.kv_default.empty();
    std::printf("\n| KV | bytes per token | past the windows | agents of 4096 | of 16384 |%s\n",
                measured ? " KL, mean | same top |" : "");
    std::printf("|---|---|---|---|---|%s\n", measured ? "---|---|" : "");
    for (const kv_cost& cost : report.kv) {
        const std::string name =
            cost.name == report.kv_default ? cost.name + " (default)" : cost.name;
        if (!cost.refused.empty()) {
            std::printf("| %s | %s | | | |%s\n", name.c_str(), cost.refused.c_str(),
                        measured ? " | |" : "");
            continue;
        }
        const auto shown = [](std::uint64_t number) {
            return static_cast<unsigned long long>(number);
        };
        std::printf("| %s | %llu | %llu |", name.c_str(), shown(cost.bytes_per_token),
                    shown(cost.lasting_bytes_per_token));
        for (const auto& agents : {cost.agents_4k, cost.agents_16k})
            std::printf(" %s |", agents ? std::to_string(*agents).c_str() : "-");
        if (cost.score && cost.score->is_measured())
            std::printf(" %.4f | %.1f ± %.1f %% |",
                        static_cast<double>(cost.score->divergence_mean),
                        100.0 * static_cast<double>(cost.score->same_top_share),
                        100.0 * cost.score->same_top_error());
        else if (measured)
            std::printf(" %s | - |", cost.not_measured.c_str());
        std::printf("\n");
    }
    std::printf("in a pool of %llu MiB%s\n",
                static_cast<unsigned long long>(report.pool_bytes >> 20),
                measured ? "" : "; --measure says which recipe is this model's default");
    if (measured) std::printf("measured in %.1f s\n", report.measured_seconds);
}

/// Prints the report in its text form.
void print_text(const model_report& report) {
    print_line("model", report.model.id);
    print_line("path", report.model.path);
    print_line("files", report.container + ", " + std::to_string(report.files) +
                            (report.files == 1 ? " file, " : " files, ") +
                            megabytes(report.file_bytes));
    if (report.config) print_geometry(*report.config);
    for (const tensor_type& type : report.types)
        print_line(&type == &report.types.front() ? "tensors" : "",
                   type.name + ": " + std::to_string(type.tensors) + ", " + megabytes(type.bytes) +
                       (type.is_read ? "" : " (not supported)"));
    if (report.weight_bytes != 0) print_line("weights", megabytes(report.weight_bytes) + " packed");
    if (!report.left_out.empty()) print_line("left out", left_out_of(report));
    if (report.memory) print_line("memory", server::to_text(*report.memory));
    if (const auto& tokenizer = report.tokenizer)
        print_line("tokenizer",
                   tokenizer->kind + ", " + std::to_string(tokenizer->vocabulary) + " tokens" +
                       (tokenizer->first.empty() ? "" : ", begins with " + tokenizer->first));
    if (!report.template_family.empty())
        print_line(
            "chat template",
            report.template_family +
                (report.template_assumed.empty() ? "" : ", because " + report.template_assumed));
    if (!report.kv.empty()) print_kv(report);
    std::printf("\n%s\n", report.problems.empty() ? "It will load." : "It will not load:");
    for (const std::string& problem : report.problems) std::printf("- %s\n", problem.c_str());
}

}  // namespace

int run_inspect(const command& self, const std::vector<std::string>& words) {
    options given(self);
    given.add_chat_template();
    given.add_tokenizer();
    given.add()("weights", po::value<std::string>()->default_value("native")->value_name("FORM"),
                "what matrices are quantised to while they load: native (not at all), q8 or q4");
    given.add_memory();
    given.add()("memory-mb", po::value<int>()->default_value(8192)->value_name("MB"),
                "of the KV pool, in MiB");
    given.add()("measure", po::bool_switch(),
                "read the weights and measure what each KV recipe costs the model");
    given.add()("json", po::bool_switch(), "print one JSON object");
    if (!given.parse(words)) return 0;
    const auto pool = static_cast<std::uint64_t>(given.number("memory-mb", 1, 1 << 24)) << 20;
    const model_report report = report_on(given, pool, given.get<bool>("measure"));
    if (given.get<bool>("json")) {
        std::cout << json_of(report) << "\n";
    } else {
        print_text(report);
    }
    return report.problems.empty() ? 0 : 1;
}

}  // namespace semantic::eval
