// The option table: names, meanings, bounds; and the variables that mean nothing here.

#include <array>
#include <cctype>
#include <charconv>
#include <fstream>
#include <sstream>

#include "engine/text/template/chat_template.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "server/config/config.hpp"
#include "storage/pool/kv_recipe.hpp"

namespace semantic::server {

namespace {

using names = std::span<const std::string_view>;

std::string lower(std::string_view text) {
    std::string copy(text);
    for (char& c : copy) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return copy;
}

std::string parse_number(std::string_view text, long long least, long long most, long long& value) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most)
        return "must be a whole number from " + std::to_string(least) + " to " +
               std::to_string(most);
    return {};
}

template <auto Member, long long Least, long long Most>
std::string set_number(config& into, std::string_view text) {
    long long value = 0;
    std::string why = parse_number(text, Least, Most, value);
    if (why.empty())
        into.*Member = static_cast<std::remove_reference_t<decltype(into.*Member)>>(value);
    return why;
}

template <auto Member>
std::string print_number(const config& from) {
    return std::to_string(from.*Member);
}

template <auto Member, long long Least, long long Most>
std::string set_duration(config& into, std::string_view text) {
    long long value = 0;
    std::string why = parse_number(text, Least, Most, value);
    if (why.empty()) into.*Member = std::remove_reference_t<decltype(into.*Member)>(value);
    return why;
}

template <auto Member>
std::string print_duration(const config& from) {
    return std::to_string((from.*Member).count());
}

template <auto Member>
std::string set_text(config& into, std::string_view text) {
    if (text.empty()) return "must not be empty";
    into.*Member = std::string(text);
    return {};
}

template <auto Member>
std::string print_text(const config& from) {
    return from.*Member;
}

/// Empty is a value too: the default.
template <auto Member>
std::string set_any_text(config& into, std::string_view text) {
    into.*Member = std::string(text);
    return {};
}

std::string set_log_level(config& into, std::string_view text) {
    std::string name = lower(text);
    if (name == "critical") name = "error";
    for (log_level level :
         {log_level::debug, log_level::info, log_level::warning, log_level::error}) {
        if (name != to_string(level)) continue;
        into.log_from = level;
        return {};
    }
    return "must be debug, info, warning or error";
}

std::string set_kernels(config& into, std::string_view text) {
    for (std::string_view name : {"auto", "avx512", "avxvnni", "avx2", "portable", "scalar"}) {
        if (text != name) continue;
        into.kernels = text;
        return {};
    }
    return "must be auto, avx512, avxvnni, avx2, portable or scalar";
}

std::string set_weights(config& into, std::string_view text) {
    for (std::string_view name : {"native", "q8", "q4"}) {
        if (text != name) continue;
        into.weights = text;
        return {};
    }
    return "must be native, q8 or q4";
}

std::string set_chat_template(config& into, std::string_view text) {
    if (text != "auto" && text != engine::own_template_family && !engine::chat_template::make(text))
        return "must be auto or one of: " + engine::chat_template::families();
    into.chat_template = text;
    return {};
}

std::string set_tokenizer_pre(config& into, std::string_view text) {
    if (text != "auto" && !engine::tokenizer::is_gguf_pre(text))
        return "must be auto or one of: " + engine::tokenizer::gguf_pres();
    into.tokenizer_pre = text;
    return {};
}

std::string set_kv_bits(config& into, std::string_view text) {
    std::string name = lower(text);
    if (name == "none" || name == "null" || name == "0") {
        name = "16";  // how the earlier system spelled "not quantised"
    } else if (name != "auto" && name != "4" && name != "8" && name != "16") {
        return "must be auto, 4, 8 or 16";
    }
    into.kv_bits = name;
    return {};
}

const std::string kv_recipe_meaning =
    "how keys and values are stored: " + storage::kv_recipe_names() +
    "; auto: the smallest that leaves this model as it is, measured at its first start";

std::string set_kv_recipe(config& into, std::string_view text) {
    if (text == "auto") {
        into.kv_recipe = text;
        return {};
    }
    const auto recipe = storage::find_kv_recipe(text);
    if (!recipe) return "must be auto or one of: " + storage::kv_recipe_names();
    into.kv_recipe = storage::name_of(*recipe);
    return {};
}

// The earlier system took 16 to 256; the kernels here are made for groups of 64.
std::string set_kv_group_size(config& into, std::string_view text) {
    if (text != "64") return "must be 64, the only group size there is";
    into.kv_group_size = 64;
    return {};
}

template <auto Member>
std::string set_switch(config& into, std::string_view text) {
    std::string name = lower(text);
    bool on = name == "on" || name == "true" || name == "yes" || name == "1";
    bool off = name == "off" || name == "false" || name == "no" || name == "0";
    if (!on && !off) return "must be on or off";
    into.*Member = on;
    return {};
}

template <auto Member>
std::string print_switch(const config& from) {
    return from.*Member ? "on" : "off";
}

std::string set_block_tokens(config& into, std::string_view text) {
    long long value = 0;
    std::string why = parse_number(text, 16, 4096, value);
    if (!why.empty()) return why;
    if (value % 16 != 0) return "must be a multiple of 16";
    into.block_tokens = static_cast<int>(value);
    return {};
}

/// "a, b" -> "a", "b".
std::vector<std::string> items_of(std::string_view text) {
    std::vector<std::string> items;
    while (!text.empty()) {
        std::size_t comma = std::min(text.find(','), text.size());
        std::string_view item = text.substr(0, comma);
        text.remove_prefix(std::min(comma + 1, text.size()));
        while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
        while (!item.empty() && item.back() == ' ') item.remove_suffix(1);
        items.emplace_back(item);
    }
    return items;
}

std::string set_api_keys(config& into, std::string_view text) {
    std::vector<std::string> keys = items_of(text);
    for (const std::string& key : keys)
        if (key.empty()) return "has an empty key in its comma list";
    into.api_keys = std::move(keys);
    return {};
}

// One line: a key, and perhaps the name of its tenant. Blocks.
std::string set_api_key_file(config& into, std::string_view text) {
    into.api_key_file = text;
    into.file_keys.clear();
    if (text.empty()) return {};
    std::ifstream file(into.api_key_file);
    if (!file) return "cannot be read";
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
        std::istringstream words(line);
        tenant_key entry;
        std::string rest;
        words >> entry.key >> entry.tenant >> rest;
        if (entry.key.empty() || entry.key.front() == '#') continue;
        const std::string where = "line " + std::to_string(number);
        if (!rest.empty()) return where + " has more than a key and the name of a tenant";
        for (const tenant_key& other : into.file_keys)
            if (other.key == entry.key) return where + " has a key that stands above it already";
        into.file_keys.push_back(std::move(entry));
    }
    return into.file_keys.empty() ? "has no key in it" : std::string();
}

std::string print_api_keys(const config& from) {
    std::string count = std::to_string(from.api_keys.size());
    return from.api_keys.empty() ? std::string() : count + " set";
}

bool is_origin(std::string_view text) {
    std::size_t scheme = text.find("://");
    if (scheme == std::string_view::npos || scheme == 0) return false;
    std::string_view host = text.substr(scheme + 3);
    return !host.empty() && host.find_first_of("/ *") == std::string_view::npos;
}

std::string set_cors_origins(config& into, std::string_view text) {
    constexpr const char* wanted =
        "must be none, *, or a comma list of loopback and origins such as https://a.example";
    std::vector<std::string> origins = items_of(text);
    if (origins.empty()) return wanted;
    bool is_alone = origins.size() == 1;
    for (const std::string& one : origins)
        if (one != "loopback" && !is_origin(one) && !(is_alone && (one == "*" || one == "none")))
            return wanted;
    if (origins.front() == "none") origins.clear();
    into.cors_origins = std::move(origins);
    return {};
}

std::string print_cors_origins(const config& from) {
    std::string list;
    for (const std::string& one : from.cors_origins)
        list.append(list.empty() ? "" : ",").append(one);
    return list.empty() ? "none" : list;
}

std::string set_admin_key(config& into, std::string_view text) {
    if (text.find_first_of(" \t\r\n") != std::string_view::npos) return "has white space in it";
    into.admin_key = text;
    return {};
}

constexpr std::array<std::string_view, 1> host_names{"SEMANTIC_SERVER_HOST"};
constexpr std::array<std::string_view, 1> port_names{"SEMANTIC_SERVER_PORT"};
constexpr std::array<std::string_view, 1> key_names{"ANTHROPIC_API_KEY"};
constexpr std::array<std::string_view, 1> cors_names{"SEMANTIC_SERVER_CORS_ORIGINS"};
constexpr std::array<std::string_view, 1> log_names{"SEMANTIC_SERVER_LOG_LEVEL"};
constexpr std::array<std::string_view, 1> model_names{"SEMANTIC_MODEL_ID"};
constexpr std::array<std::string_view, 1> batch_names{"SEMANTIC_MAX_BATCH_SIZE"};
constexpr std::array<std::string_view, 1> min_chunk_names{"SEMANTIC_CHUNKED_PREFILL_MIN_CHUNK"};
constexpr std::array<std::string_view, 1> max_chunk_names{"SEMANTIC_CHUNKED_PREFILL_MAX_CHUNK"};
constexpr std::array<std::string_view, 1> cache_dir_names{"SEMANTIC_AGENT_CACHE_DIR"};
constexpr std::array<std::string_view, 1> hot_names{"SEMANTIC_AGENT_MAX_AGENTS_IN_MEMORY"};

constexpr long long million = 1'000'000;

const std::array options{
    config_option{"host", "Network", "ADDRESS", "address to listen on", host_names, false,
                  set_text<&config::host>, print_text<&config::host>},
    config_option{"port", "Network", "N", "TCP port; 0 lets the system pick one", port_names, false,
                  set_number<&config::port, 0, 65535>, print_number<&config::port>},
    config_option{"api-key", "Network", "LIST",
                  "keys that clients must send, separated by commas, each with agents of its own; "
                  "empty: no authentication",
                  key_names, true, set_api_keys, print_api_keys},
    config_option{"cors-origins", "Network", "LIST",
                  "web pages that may use the server: origins separated by commas, loopback for "
                  "those of this machine, * for all, none; without a key also whose names a server "
                  "on loopback answers to",
                  cors_names, false, set_cors_origins, print_cors_origins},
    config_option{"api-key-file",
                  "Network",
                  "FILE",
                  "more keys, one a line; 'KEY NAME': keys with the same name share their agents",
                  {},
                  false,
                  set_api_key_file,
                  print_text<&config::api_key_file>},
    config_option{
        "admin-key",
        "Network",
        "KEY",
        "what /admin asks for as x-admin-key; empty: /admin answers only a server that "
        "listens on loopback and has no api-key",
        {},
        true,
        set_admin_key,
        [](const config& from) { return std::string(from.admin_key.empty() ? "" : "set"); }},
    config_option{"body-limit-mb",
                  "Network",
                  "MB",
                  "largest request body, in MiB",
                  {},
                  false,
                  set_number<&config::body_limit_mb, 1, 4096>,
                  print_number<&config::body_limit_mb>},
    config_option{"max-connections",
                  "Network",
                  "N",
                  "open connections; further ones wait in the kernel",
                  {},
                  false,
                  set_number<&config::max_connections, 1, million>,
                  print_number<&config::max_connections>},
    config_option{"request-timeout-s",
                  "Network",
                  "S",
                  "longest time one answer may take, in seconds",
                  {},
                  false,
                  set_duration<&config::request_timeout, 1, million>,
                  print_duration<&config::request_timeout>},
    config_option{"shutdown-grace-s",
                  "Network",
                  "S",
                  "how long running answers may go on after SIGTERM, in seconds",
                  {},
                  false,
                  set_duration<&config::shutdown_grace, 0, million>,
                  print_duration<&config::shutdown_grace>},
    config_option{"io-threads",
                  "Network",
                  "N",
                  "threads that serve connections",
                  {},
                  false,
                  set_number<&config::io_threads, 1, 64>,
                  print_number<&config::io_threads>},
    config_option{"log-level", "Network", "LEVEL",
                  "least level that is logged: debug, info, warning, error", log_names, false,
                  set_log_level,
                  [](const config& from) { return std::string(to_string(from.log_from)); }},

    config_option{"model", "Model", "MODEL",
                  "a folder, a .gguf file, NAME in ~/.semantic/models, or ORG/NAME[:FILE or QUANT] "
                  "in the Hugging Face cache; empty: the first of models-file, the only one of "
                  "models-dir, else the embedded model",
                  model_names, false, set_any_text<&config::model>, print_text<&config::model>},
    config_option{"models-dir",
                  "Model",
                  "DIR",
                  "a folder of models that this server knows by name: sub-folders and .gguf files",
                  {},
                  false,
                  set_any_text<&config::models_directory>,
                  print_text<&config::models_directory>},
    config_option{"models-file",
                  "Model",
                  "FILE",
                  "models with names, aliases and options of their own, in YAML; see "
                  "etc/semantic-models.yaml",
                  {},
                  false,
                  set_any_text<&config::models_file>,
                  print_text<&config::models_file>},
    config_option{"context-tokens",
                  "Model",
                  "TOKENS",
                  "what a prompt and its answer may have together, in tokens; 0: as the model says",
                  {},
                  false,
                  set_number<&config::context_tokens, 0, 100 * million>,
                  print_number<&config::context_tokens>},
    config_option{"kernels",
                  "Model",
                  "NAME",
                  "CPU kernels: auto, avx512, avxvnni, avx2, portable, scalar",
                  {},
                  false,
                  set_kernels,
                  print_text<&config::kernels>},
    config_option{"weights",
                  "Model",
                  "FORM",
                  "what matrices are quantised to while they load: native (not at all), q8, q4",
                  {},
                  false,
                  set_weights,
                  print_text<&config::weights>},
    config_option{"chat-template",
                  "Model",
                  "NAME",
                  "chat template family; auto: the one that the model's files show",
                  {},
                  false,
                  set_chat_template,
                  print_text<&config::chat_template>},
    config_option{"tokenizer-pre",
                  "Model",
                  "NAME",
                  "what tokenizer.ggml.pre of a GGUF is taken for; auto: what the file says",
                  {},
                  false,
                  set_tokenizer_pre,
                  print_text<&config::tokenizer_pre>},
    config_option{"trust-content",
                  "Model",
                  "on|off",
                  "take special tokens that a request's texts spell for such, as if the template "
                  "had written them; off: they are text",
                  {},
                  false,
                  set_switch<&config::trust_content>,
                  print_switch<&config::trust_content>},
    config_option{
        "strict-model-names",
        "Model",
        "on|off",
        "refuse requests for a model that the server does not know; off: such a name means "
        "the loaded one",
        {},
        false,
        set_switch<&config::strict_model_names>,
        print_switch<&config::strict_model_names>},
    config_option{"compute-threads",
                  "Model",
                  "N",
                  "threads that compute; 0: all cores",
                  {},
                  false,
                  set_number<&config::compute_threads, 0, 1024>,
                  print_number<&config::compute_threads>},
    config_option{"max-batch", "Model", "N", "requests that run in one step", batch_names, false,
                  set_number<&config::max_batch, 1, 1024>, print_number<&config::max_batch>},
    config_option{"max-queued",
                  "Model",
                  "N",
                  "requests that wait behind the running ones",
                  {},
                  false,
                  set_number<&config::max_queued, 0, million>,
                  print_number<&config::max_queued>},
    config_option{"prefill-min-chunk", "Model", "TOKENS", "smallest prefill chunk, in tokens",
                  min_chunk_names, false, set_number<&config::prefill_min_chunk_tokens, 16, 65536>,
                  print_number<&config::prefill_min_chunk_tokens>},
    config_option{"prefill-max-chunk", "Model", "TOKENS", "largest prefill chunk, in tokens",
                  max_chunk_names, false, set_number<&config::prefill_max_chunk_tokens, 16, 65536>,
                  print_number<&config::prefill_max_chunk_tokens>},
    config_option{"chunked-prefill-threshold",
                  "Model",
                  "TOKENS",
                  "prompts longer than this are prefilled in chunks, in tokens",
                  {},
                  false,
                  set_number<&config::chunked_prefill_threshold_tokens, 16, million>,
                  print_number<&config::chunked_prefill_threshold_tokens>},
    config_option{"decode-latency-ms",
                  "Model",
                  "MS",
                  "how long running answers wait for a token while a prompt is read, in "
                  "milliseconds",
                  {},
                  false,
                  set_duration<&config::decode_latency, 1, million>,
                  print_duration<&config::decode_latency>},

    config_option{"cache-dir", "Cache", "DIR", "where the agents' memory is kept", cache_dir_names,
                  false, set_text<&config::cache_directory>, print_text<&config::cache_directory>},
    config_option{"cache-budget-mb",
                  "Cache",
                  "MB",
                  "memory for the KV pool, in MiB; 0: the smaller of 8192 and 40 % of the RAM",
                  {},
                  false,
                  set_number<&config::cache_budget_mb, 0, 16 * million>,
                  print_number<&config::cache_budget_mb>},
    config_option{"disk-budget-mb",
                  "Cache",
                  "MB",
                  "what all files in cache-dir may take, in MiB; 0: the smaller of 65536 and 10 % "
                  "of the file system, of which 5 % stay free in any case",
                  {},
                  false,
                  set_number<&config::disk_budget_mb, 0, 1024 * million>,
                  print_number<&config::disk_budget_mb>},
    config_option{"max-hot-agents", "Cache", "N",
                  "agents kept in memory; 0: as many as the pool holds", hot_names, false,
                  set_number<&config::max_hot_agents, 0, million>,
                  print_number<&config::max_hot_agents>},
    config_option{
        "kv-bits",
        "Cache",
        "BITS",
        "4, 8 or 16 bits for every stored key and value, whatever they cost the model: short for "
        "--kv-recipe k4v4, k8v8, k16v16",
        {},
        false,
        set_kv_bits,
        print_text<&config::kv_bits>},
    config_option{"kv-recipe",
                  "Cache",
                  "NAME",
                  kv_recipe_meaning,
                  {},
                  false,
                  set_kv_recipe,
                  print_text<&config::kv_recipe>},
    config_option{"kv-group-size",
                  "Cache",
                  "N",
                  "elements that share one scale: 64",
                  {},
                  false,
                  set_kv_group_size,
                  print_number<&config::kv_group_size>},
    config_option{"block-tokens",
                  "Cache",
                  "TOKENS",
                  "tokens of one cache block, a multiple of 16",
                  {},
                  false,
                  set_block_tokens,
                  print_number<&config::block_tokens>},
    config_option{
        "save-wait-ms",
        "Cache",
        "MS",
        "how long the end of an answer waits for its memory to be on disk, in milliseconds",
        {},
        false,
        set_duration<&config::save_wait, 0, million>,
        print_duration<&config::save_wait>},
};

constexpr std::array ignored{
    ignored_variable{"SEMANTIC_SCHEDULER_ENABLED", "requests are always scheduled together"},
    ignored_variable{"SEMANTIC_SCHEDULER_INTERLEAVE_THRESHOLD",
                     "prefill always takes turns with the running answers"},
    ignored_variable{"SEMANTIC_MAX_CONTEXT_LENGTH", "the model says it, or context-tokens"},
    ignored_variable{"SEMANTIC_PREFILL_STEP_SIZE",
                     "prefill-min-chunk and prefill-max-chunk bound a step"},
    ignored_variable{"SEMANTIC_CHUNKED_PREFILL_ENABLED",
                     "prompts longer than chunked-prefill-threshold always come in chunks"},
    ignored_variable{"SEMANTIC_REASONING_EXTRA_TOKENS", "a request gets the tokens it asks for"},
    ignored_variable{"SEMANTIC_DEFAULT_MAX_TOKENS", "a request says it"},
    ignored_variable{"SEMANTIC_DEFAULT_TEMPERATURE",
                     "a request or the model's generation_config.json says it"},
    ignored_variable{"SEMANTIC_SERVER_WORKERS",
                     "one process serves everyone; io-threads and compute-threads size it"},
    ignored_variable{"SEMANTIC_SERVER_RATE_LIMIT_PER_AGENT",
                     "max-batch and max-queued bound the load; a proxy can bound the rate"},
    ignored_variable{"SEMANTIC_SERVER_RATE_LIMIT_GLOBAL",
                     "max-batch and max-queued bound the load; a proxy can bound the rate"},
    ignored_variable{"SEMANTIC_AGENT_BATCH_WINDOW_MS", "a request joins the step that comes next"},
    ignored_variable{"SEMANTIC_AGENT_LRU_EVICTION_ENABLED",
                     "memory that is short is always taken from the agent idle the longest"},
    ignored_variable{"SEMANTIC_AGENT_EVICT_TO_DISK", "evicted memory is always on disk"},
    ignored_variable{"SEMANTIC_AGENT_VALIDATE_MODEL_TAG", "memory of another model is never used"},
    ignored_variable{"SEMANTIC_AUTH_DISABLED", "clients need a key when api-key is set"},
    ignored_variable{"SEMANTIC_DISABLE_FUSED_ATTN", "kernels chooses how is computed"},
    ignored_variable{"SEMANTIC_ENABLE_METAL_DECODE", "everything is computed on CPUs"},
};

}  // namespace

std::span<const config_option> config_options() { return options; }

std::span<const ignored_variable> ignored_variables() { return ignored; }

}  // namespace semantic::server
