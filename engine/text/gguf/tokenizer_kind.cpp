// SPDX-License-Identifier: Apache-2.0
#include "engine/text/gguf/tokenizer_kind.hpp"

#include <string>

#include "engine/text/gguf/gguf_fields.hpp"
#include "engine/text/gguf/gguf_pipelines.hpp"

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::gguf_view;
using storage::result;

namespace {

constexpr std::string_view model_key = "tokenizer.ggml.model";
constexpr std::string_view pre_key = "tokenizer.ggml.pre";

/// Errors: incompatible when the tokenizer has a setting that is not supported and would change its
/// token ids.
result<void> refuse_what_changes_ids(const gguf_view& metadata) {
    for (const std::string_view key :
         {"tokenizer.ggml.remove_extra_whitespaces", "tokenizer.ggml.add_sep_token"}) {
        const auto wanted = gguf_fields::flag(metadata, key);
        if (!wanted) return wanted.error();
        if (wanted->value_or(false))
            return failure{errc::incompatible, std::string(key) + " is not supported"};
    }
    constexpr std::string_view map_key = "tokenizer.ggml.precompiled_charsmap";
    const auto map = gguf_fields::numbers(metadata, map_key);
    if (!map) return map.error();
    if (*map != nullptr && (*map)->count > 0)
        return failure{errc::incompatible, std::string(map_key) + " is not supported"};
    return {};
}

/// The row of the pre-tokenizer: `pre`, or the file's when that is empty. Errors: bad_value for an
/// unknown `pre`; incompatible when the file names none that is known.
result<const gguf_pipeline*> find_pipeline(const gguf_view& metadata, std::string_view pre) {
    const auto said = gguf_fields::text(metadata, pre_key);
    if (!said) return said.error();
    const gguf_pipeline* found = find_gguf_pipeline(pre.empty() ? *said : pre);
    if (found != nullptr) return found;
    if (!pre.empty())
        return failure{errc::bad_value, "there is no pre-tokenizer '" + std::string(pre) +
                                            "' (there are: " + gguf_pipeline_names() + ")"};
    const std::string reason =
        said->empty() ? " is missing" : " '" + std::string(*said) + "' is not known";
    return failure{errc::incompatible,
                   std::string(pre_key) + reason +
                       "; --tokenizer-pre can name one of: " + gguf_pipeline_names()};
}

}  // namespace

result<gguf_tokenizer_kind> kind_of_gguf_tokenizer(const gguf_view& metadata,
                                                   std::string_view pre) {
    const auto model = gguf_fields::text(metadata, model_key);
    if (!model) return model.error();
    if (model->empty())
        return failure{errc::incompatible,
                       std::string(model_key) + " is missing: the file has no tokenizer"};
    if (auto refused = refuse_what_changes_ids(metadata); !refused) return refused.error();
    if (*model == "gpt2") {
        const auto pipeline = find_pipeline(metadata, pre);
        if (!pipeline) return pipeline.error();
        return gguf_tokenizer_kind{*model, *pipeline};
    }
    if (*model != "llama" && *model != "gemma4")
        return failure{errc::incompatible,
                       std::string(model_key) + " '" + std::string(*model) +
                           "' is not supported (supported: gpt2, llama, gemma4)"};
    if (!pre.empty())
        return failure{errc::bad_value, "the pre-tokenizer '" + std::string(pre) +
                                            "' is for files of " + std::string(model_key) +
                                            " gpt2, and this one has " + std::string(*model)};
    return gguf_tokenizer_kind{*model, nullptr};
}

}  // namespace semantic::engine
