#include "protocol/admin.hpp"

#include <boost/json.hpp>

#include <limits>

#include "protocol/wire/fields.hpp"

namespace semantic::protocol::admin {

namespace json = boost::json;

namespace {

constexpr std::size_t model_bytes_max = 4'096;  // a path

}  // namespace

result<std::optional<std::uint64_t>> parse_seed(std::string_view body, const json_limits& limits) {
    return read_object(body, limits, [](const json_cursor& root) {
        std::optional<std::uint64_t> seed;
        const json_cursor field = root.at("seed");
        if (!field.value().is_null())
            seed = static_cast<std::uint64_t>(
                field.as_integer(0, std::numeric_limits<std::int64_t>::max()));
        return seed;
    });
}

std::string seed_body(std::optional<std::uint64_t> seed) {
    json::value shown;
    if (seed) shown = *seed;
    return to_text(json::object{{"status", "ok"}, {"seed", std::move(shown)}});
}

result<swap_request> parse_swap(std::string_view body, const json_limits& limits) {
    return read_object(body, limits, [](const json_cursor& root) {
        swap_request request;
        request.model = bounded_at(root, "model_id", model_bytes_max);
        if (auto field = root.find("timeout_seconds"))
            request.timeout_seconds = field->as_number(1, 300);
        return request;
    });
}

std::string current_body(const loaded_model& model) {
    return to_text(json::object{{"model_id", model.id},
                                {"n_layers", model.layers},
                                {"n_kv_heads", model.kv_heads},
                                {"head_dim", model.head_dim},
                                {"block_tokens", model.block_tokens}});
}

std::string available_body(const std::vector<std::string>& models) {
    json::array list;
    for (const std::string& model : models) list.push_back(json::string(model));
    return to_text(json::object{{"models", std::move(list)}});
}

std::string swapped_body(std::string_view model) {
    return to_text(json::object{{"status", "success"},
                                {"old_model_id", model},
                                {"new_model_id", model},
                                {"message", "this model is loaded already"}});
}

std::string cleared_body(const clearing& done) {
    const auto frames = std::to_string(done.frames);
    std::string message = "Cleared " + std::to_string(done.on_disk) +
                          " agents (hot: " + std::to_string(done.hot) + ", pool frames: " + frames +
                          ")";
    if (done.kept > 0) message += "; " + std::to_string(done.kept) + " answer requests and stay";
    return to_text(json::object{{"status", "success"},
                                {"hot_cleared", done.hot},
                                {"disk_cleared", done.on_disk},
                                {"pool_cleared", done.frames},
                                {"kept", done.kept},
                                {"message", std::move(message)}});
}

}  // namespace semantic::protocol::admin
