// SPDX-License-Identifier: Apache-2.0
#pragma once
// The models that this server knows, and which of them a request's name means. Pure values; built
// once at start, then only read, from any thread.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/config/model_path.hpp"
#include "server/models/models_file.hpp"
#include "storage/types/errc.hpp"

namespace semantic::server {

struct registered_model {
    std::string name;  // what clients call it
    std::vector<std::string> aliases{};
    std::string path{};  // a folder or a GGUF file (the first of several parts); empty: see `fault`
    std::vector<model_setting> settings{};
    std::string fault{};  // why it cannot be loaded; empty: nothing is known against it
};

class registry {
  public:
    /// Requires: at least one model; `start` is one of them; no name or alias twice.
    registry(std::vector<registered_model> models, std::size_t start);

    const std::vector<registered_model>& models() const noexcept { return models_; }
    const registered_model& at(std::size_t model) const { return models_.at(model); }
    std::size_t size() const noexcept { return models_.size(); }
    /// The model that the server starts with.
    std::size_t start() const noexcept { return start_; }
    /// Returns: the model with that name or alias. "NAME:latest", as Ollama's clients write it,
    /// means NAME.
    std::optional<std::size_t> find(std::string_view name) const;
    /// Returns: the model that a request's name means. An unknown name means `otherwise`, since
    /// clients send any name; where names are `strict`, nothing.
    std::optional<std::size_t> resolve(std::string_view name, std::size_t otherwise,
                                       bool strict) const;
    /// "a, b and 3 more": for errors.
    std::string names() const;

  private:
    std::vector<registered_model> models_;
    std::size_t start_;
};

/// What a registry is made from.
struct registry_sources {
    std::string models_file_name;  // for errors
    models_file file;
    std::vector<found_model> folder;  // of --models-dir, by name
    std::string wanted;               // --model; empty: not said
    std::string embedded;  // the folder of the model that comes with the server, or empty
    /// As find_model().
    std::function<storage::result<found_model>(const std::string&)> find;
};

struct made_registry {
    registry models;
    std::vector<std::string> notes;  // for the log: what was left out
};

/// The models of the file in its order, then those of the folder that it does not speak of, then
/// --model where it is neither. The server starts with --model; else the file's default; else the
/// file's first; else the folder's only one; else the embedded one, which is then the only model.
/// Errors: not_found and bad_value, one sentence: no model to start with, or several and none
/// named; --model's name is another model's. A model of the file that is not there is kept with its
/// fault, unless it is to start.
storage::result<made_registry> make_registry(const registry_sources& from);

}  // namespace semantic::server
