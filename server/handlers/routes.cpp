#include "server/handlers/routes.hpp"

#include <array>

#include "server/handlers/anthropic.hpp"
#include "server/handlers/health.hpp"
#include "server/handlers/metrics.hpp"
#include "server/handlers/models.hpp"
#include "server/handlers/openai.hpp"

namespace semantic::server {

namespace {

using enum auth_class;

constexpr std::array table{
    route{"GET", "/", get_root, nullptr, open, body_class::none, engine_need::none},
    route{"GET", "/health", get_health, nullptr, open, body_class::none, engine_need::none},
    route{"GET", "/health/live", get_health_live, nullptr, open, body_class::none,
          engine_need::none},
    route{"GET", "/health/ready", get_health_ready, nullptr, open, body_class::none,
          engine_need::none},
    route{"GET", "/health/startup", get_health_startup, nullptr, open, body_class::none,
          engine_need::none},
    route{"GET", "/metrics", get_metrics, nullptr, open, body_class::none, engine_need::none},
    route{"GET", "/v1/models", get_models, nullptr, key, body_class::none, engine_need::loaded},
    route{"GET", "/v1/models/{id}", get_model, nullptr, key, body_class::none, engine_need::loaded},
    route{"POST", "/v1/messages", nullptr, post_messages, key, body_class::json,
          engine_need::loaded},
    route{"POST", "/api/event_logging/batch", post_event_logging, nullptr, key, body_class::json,
          engine_need::none},
    route{"POST", "/v1/chat/completions", nullptr, post_chat_completions, key, body_class::json,
          engine_need::loaded},
    route{"POST", "/v1/messages/count_tokens", nullptr, post_count_tokens, key, body_class::json,
          engine_need::loaded},
};

}  // namespace

std::span<const route> routes() { return table; }

}  // namespace semantic::server
