// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which files `--model` means: a path, a model that was fetched, one in the Hugging Face cache, or
// the embedded one, found from the program itself so that no path is built in.
// Thread: any. Everything blocks: it asks the file system.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "storage/types/errc.hpp"

namespace semantic::server {

/// The path of the running program's own file. `argv0` is used where the system does not say.
std::filesystem::path executable_path(const std::string& argv0);

/// Finds the small model that comes with the program. Returns:
/// PREFIX/share/semantic/models/semantic-tiny for an installed PREFIX/bin/PROGRAM, or
/// etc/models/semantic-tiny of the source tree for BUILD/bin/PROGRAM; empty when neither holds a
/// config.json.
std::string find_embedded_model(const std::filesystem::path& executable);

/// Returns: the folder of all models that come with the program; empty where there is none.
std::filesystem::path find_embedded_models(const std::filesystem::path& executable);

/// The folders in which a model is looked for by its name. An empty path: nowhere.
struct model_places {
    std::filesystem::path home;      // replaces ~
    std::filesystem::path own;       // ~/.semantic/models: NAME/ or NAME.gguf
    std::filesystem::path hub;       // the Hugging Face cache: models--ORG--NAME/
    std::filesystem::path embedded;  // what comes with the program: NAME/

    /// From HOME, HF_HUB_CACHE, HF_HOME and XDG_CACHE_HOME, and from where the program lies.
    static model_places of_environment();
};

struct found_model {
    std::string path;  // a folder with config.json, or a GGUF file (the first of several parts)
    std::string id;    // what clients call it: the last name of a path without .gguf, or ORG/NAME
};

/// Finds the model that a user named: a path that exists; else NAME in `own`; else NAME in
/// `embedded`; else ORG/NAME in the Hugging Face cache, where :FILE.gguf or :QUANT after it names
/// one of several files. A folder without safetensors means its only GGUF file. Errors:
/// not_found, with what was looked for, where, and what is there; incompatible for a file that is
/// no model.
storage::result<found_model> find_model(std::string_view name, const model_places& places);

struct models_in_folder {
    std::vector<found_model> models;  // by name; those of a sub-folder with several as FOLDER/NAME
    std::vector<std::string> notes;   // warnings about what looks like a model and is none
};
/// Lists the models in `folder`: each sub-folder with config.json, each GGUF file there or in a
/// sub-folder; one in several parts counts once, hidden ones do not. Errors: not_found, when it is
/// no folder or cannot be read.
storage::result<models_in_folder> models_in(const std::string& folder, const model_places& places);

/// Returns: a file's name without .gguf and, of a split model, without -00001-of-000NN.
std::string gguf_stem(std::string_view file_name);

}  // namespace semantic::server
