// SPDX-License-Identifier: Apache-2.0
#pragma once
// The file that --models-file names: models with the names clients may use for them, and options
// that hold for one of them. YAML:
//
//   default: coder                 # the model to start with, where --model names none
//   models:
//     - name: coder                # required; what clients call it
//       path: ~/models/coder.gguf  # as --model takes it; absent: by the name
//       aliases: [claude-haiku-4-5, gpt-5-mini]
//       kv-recipe: k8v8            # any of model_options()
//
// Pure, but for read_models_file(). Errors: bad_value, one line "FILE:LINE: what".

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/config/config.hpp"
#include "storage/types/errc.hpp"

namespace semantic::server {

/// An option of the server as it is set for one model.
struct model_setting {
    const config_option* option = nullptr;
    std::string value;  // as text; valid for the option
};

struct listed_model {
    std::string name;
    std::string path;  // empty: found by the name
    std::vector<std::string> aliases;
    std::vector<model_setting> settings;
};

struct models_file {
    std::string default_name;  // empty: not said
    std::vector<listed_model> models;
};

// What a file may hold at most.
constexpr std::size_t models_file_bytes_max = 1 << 20;
constexpr std::size_t listed_models_max = 1000;
constexpr std::size_t aliases_max = 100;  // of one model
constexpr std::size_t model_name_bytes_max = 200;

/// The options that a model may have of its own.
std::span<const std::string_view> model_options();

/// Parses the file's text. `called`: the file's name in errors. Errors: also for unknown keys,
/// values of a wrong type, values that an option does not take, and names that two models have.
storage::result<models_file> parse_models_file(const std::string& text, const std::string& called);
/// Reads and parses the file. Blocks. Errors: also not_found, when it cannot be read.
storage::result<models_file> read_models_file(const std::string& path);

/// Returns: `base`, overridden by a model's own settings. Requires: settings of a models_file.
config with_settings(config base, const std::vector<model_setting>& settings);

}  // namespace semantic::server
