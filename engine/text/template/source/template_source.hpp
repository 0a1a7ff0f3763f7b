// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads a model's chat templates, and its type, which decides if there is no template.

#include <map>
#include <string>

#include "storage/types/errc.hpp"

namespace semantic::storage {
struct gguf_view;
}

namespace semantic::engine {

/// What a model's files say about its templates.
struct template_source {
    std::string path;        // of the file or key that has the template, or should have had it
    std::string text;        // the default one; empty: there is none
    std::string tools_text;  // the one for requests with tools; empty: it is the default one
    std::string bos;         // empty: not said
    std::string eos;         // the same
    std::string type_key;    // what the type of model is called: "model_type"
    std::string type;
    std::string others;   // of templates by other names, where there is no default: "rag"
    bool is_file = true;  // there is a file that could have it
};

/// Blocks. Reads the template in a folder's chat_template.jinja, chat_template.json or
/// tokenizer_config.json, the first that has one. Each may be one text or several with names, and
/// additional_chat_templates/NAME.jinja has more. Errors: corrupt.
storage::result<template_source> read_template_source(const std::string& directory);

/// Reads a model's templates from a GGUF's metadata: tokenizer.chat_template and
/// tokenizer.chat_template.NAME, whose names need not be listed in tokenizer.chat_templates.
/// Errors: corrupt, with the key.
storage::result<template_source> read_template_source(const storage::gguf_view& metadata);

}  // namespace semantic::engine
