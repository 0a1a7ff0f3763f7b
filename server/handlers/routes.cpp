// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/routes.hpp"

#include <array>

#include "server/dashboard/dashboard.hpp"
#include "server/handlers/admin.hpp"
#include "server/handlers/agents.hpp"
#include "server/handlers/coordination.hpp"
#include "server/handlers/dialects/anthropic.hpp"
#include "server/handlers/dialects/ollama.hpp"
#include "server/handlers/dialects/openai.hpp"
#include "server/handlers/health.hpp"
#include "server/handlers/kv_events.hpp"
#include "server/handlers/mcp.hpp"
#include "server/handlers/metrics.hpp"
#include "server/handlers/models/llama_cpp.hpp"
#include "server/handlers/models/memory_report.hpp"
#include "server/handlers/models/model_changes.hpp"
#include "server/handlers/models/models.hpp"
#include "server/handlers/responses/compaction.hpp"
#include "server/handlers/responses/conversations.hpp"
#include "server/handlers/responses/responses.hpp"
#include "server/handlers/responses/socket.hpp"
#include "server/handlers/scenario_runs.hpp"
#include "server/http/live/live_socket.hpp"

namespace semantic::server {

namespace {

using enum auth_class;
constexpr bool metered = true;

constexpr std::array table{
    route{"GET", "/", get_root, nullptr, open, body_class::none, engine_need::none},
    route{"GET", "/health", get_health, nullptr, open, body_class::none, engine_need::none},
    route{"GET", "/health/live", get_health_live, nullptr, open, body_class::none,
          engine_need::none},
    route{"GET", "/health/ready", get_health_ready, nullptr, open, body_class::none,
          engine_need::none},
    route{"GET", "/health/startup", get_health_startup, nullptr, open, body_class::none,
          engine_need::none},
    route{"GET", "/dashboard", get_dashboard, nullptr, open, body_class::none, engine_need::none},
    route{"GET", "/dashboard/{id}", get_dashboard_file, nullptr, open, body_class::none,
          engine_need::none},
    route{"GET", "/ws", nullptr, get_ws, open, body_class::none, engine_need::none},
    route{"GET", "/ws/kv-events", nullptr, get_kv_events, admin, body_class::none,
          engine_need::none},
    route{"GET", "/metrics", get_metrics, nullptr, reader, body_class::none, engine_need::none},
    route{"GET", "/v1/usage", get_usage, nullptr, key, body_class::none, engine_need::none},
    route{"GET", "/admin/nodes", get_nodes, nullptr, admin, body_class::none, engine_need::none},
    route{"GET", "/admin/usage", get_all_usage, nullptr, admin, body_class::none,
          engine_need::none},
    route{"GET", "/v1/models", nullptr, get_models, key, body_class::none, engine_need::none},
    route{"GET", "/v1/models/{id...}", nullptr, get_model, key, body_class::none,
          engine_need::none},
    route{"GET", "/props", nullptr, get_props, key, body_class::none, engine_need::loaded},
    route{"GET", "/slots", nullptr, get_slots, key, body_class::none, engine_need::loaded},
    route{"POST", "/v1/messages", nullptr, post_messages, key, body_class::json, engine_need::named,
          metered},
    route{"POST", "/api/event_logging/batch", post_event_logging, nullptr, key, body_class::json,
          engine_need::none},
    // Whether Claude Code reaches anybody, asked before it does anything else.
    route{"GET", "/api/hello", get_hello, nullptr, open, body_class::none, engine_need::none},
    route{"POST", "/v1/chat/completions", nullptr, post_chat_completions, key, body_class::json,
          engine_need::named, metered},
    route{"POST", "/v1/completions", nullptr, post_completions, key, body_class::json,
          engine_need::named, metered},
    route{"POST", "/v1/responses", nullptr, post_responses, key, body_class::json,
          engine_need::named, metered},
    route{"POST", "/v1/embeddings", refuse_embeddings, nullptr, key, body_class::json,
          engine_need::none},
    // In front of {id}: no response has this name.
    route{"POST", "/v1/responses/compact", nullptr, post_compact, key, body_class::json,
          engine_need::named, metered},
    route{"POST", "/v1/responses/input_tokens", nullptr, post_input_tokens, key, body_class::json,
          engine_need::named, metered},
    route{"POST", "/v1/conversations", nullptr, post_conversations, key, body_class::json,
          engine_need::loaded, metered},
    route{"GET", "/v1/conversations/{id}", nullptr, get_conversation, key, body_class::none,
          engine_need::loaded},
    route{"POST", "/v1/conversations/{id}", nullptr, post_conversation, key, body_class::json,
          engine_need::loaded, metered},
    route{"DELETE", "/v1/conversations/{id}", nullptr, delete_conversation, key, body_class::none,
          engine_need::loaded},
    route{"POST", "/v1/conversations/{id}/items", nullptr, post_conversation_items, key,
          body_class::json, engine_need::loaded, metered},
    route{"GET", "/v1/conversations/{id}/items", nullptr, get_conversation_items, key,
          body_class::none, engine_need::loaded},
    route{"GET", "/v1/conversations/{id}/items/{id}", nullptr, get_conversation_item, key,
          body_class::none, engine_need::loaded},
    route{"DELETE", "/v1/conversations/{id}/items/{id}", nullptr, delete_conversation_item, key,
          body_class::none, engine_need::loaded},
    route{"GET", "/v1/responses", nullptr, get_responses, key, body_class::none, engine_need::none},
    route{"GET", "/v1/responses/{id}", nullptr, get_response, key, body_class::none,
          engine_need::loaded},
    route{"DELETE", "/v1/responses/{id}", nullptr, delete_response, key, body_class::none,
          engine_need::loaded},
    route{"GET", "/v1/responses/{id}/input_items", nullptr, get_response_items, key,
          body_class::none, engine_need::loaded},
    route{"POST", "/v1/responses/{id}/cancel", nullptr, post_response_cancel, key, body_class::json,
          engine_need::loaded},
    route{"POST", "/api/chat", nullptr, post_ollama_chat, key, body_class::json, engine_need::named,
          metered},
    route{"POST", "/api/generate", nullptr, post_ollama_generate, key, body_class::json,
          engine_need::named, metered},
    route{"GET", "/api/tags", nullptr, get_ollama_tags, key, body_class::none, engine_need::none},
    route{"GET", "/api/ps", nullptr, get_ollama_running, key, body_class::none, engine_need::none},
    route{"POST", "/api/show", nullptr, post_ollama_show, key, body_class::json, engine_need::none},
    route{"POST", "/api/pull", nullptr, post_ollama_pull, key, body_class::json, engine_need::none},
    route{"GET", "/api/version", get_ollama_version, nullptr, key, body_class::none,
          engine_need::none},
    route{"POST", "/api/embed", refuse_ollama_embeddings, nullptr, key, body_class::json,
          engine_need::none},
    route{"POST", "/api/embeddings", refuse_ollama_embeddings, nullptr, key, body_class::json,
          engine_need::none},
    route{"POST", "/api/create", refuse_ollama, nullptr, key, body_class::json, engine_need::none},
    route{"POST", "/api/copy", refuse_ollama, nullptr, key, body_class::json, engine_need::none},
    route{"POST", "/api/push", refuse_ollama, nullptr, key, body_class::json, engine_need::none},
    route{"DELETE", "/api/delete", refuse_ollama, nullptr, key, body_class::json,
          engine_need::none},
    route{"POST", "/v1/agents", nullptr, post_agents, key, body_class::json, engine_need::loaded},
    route{"GET", "/v1/agents", nullptr, get_agents, key, body_class::none, engine_need::loaded},
    // In front of {id}: agents of these two names can be reached by every other route.
    route{"GET", "/v1/agents/list", nullptr, get_agents, key, body_class::none,
          engine_need::loaded},
    route{"GET", "/v1/agents/stats", nullptr, get_agent_stats, key, body_class::none,
          engine_need::loaded},
    route{"GET", "/v1/agents/{id}", get_agent, nullptr, key, body_class::none, engine_need::loaded},
    route{"POST", "/v1/agents/{id}", nullptr, post_agent, key, body_class::json,
          engine_need::loaded},
    route{"DELETE", "/v1/agents/{id}", nullptr, delete_agent, key, body_class::none,
          engine_need::loaded},
    route{"POST", "/v1/agents/{id}/generate", nullptr, post_agent_generate, key, body_class::json,
          engine_need::loaded, metered},
    route{"POST", "/v1/agents/{id}/fork", nullptr, post_agent_fork, key, body_class::json,
          engine_need::loaded},
    route{"POST", "/v1/agents/{id}/evict", nullptr, post_agent_evict, key, body_class::json,
          engine_need::loaded},
    route{"GET", "/v1/agents/{id}/cache", nullptr, get_agent_cache, key, body_class::none,
          engine_need::loaded},
    route{"PUT", "/v1/agents/{id}/cache", nullptr, put_agent_cache, key, body_class::file,
          engine_need::loaded},
    route{"POST", "/mcp", nullptr, post_mcp, key, body_class::json, engine_need::loaded, metered},
    route{"POST", "/v1/coordination/sessions", nullptr, post_sessions, key, body_class::json,
          engine_need::loaded, metered},
    route{"GET", "/v1/coordination/sessions", nullptr, get_sessions, key, body_class::none,
          engine_need::loaded},
    route{"GET", "/v1/coordination/sessions/{id}", get_session, nullptr, key, body_class::none,
          engine_need::loaded},
    route{"DELETE", "/v1/coordination/sessions/{id}", nullptr, delete_session, key,
          body_class::none, engine_need::loaded},
    route{"POST", "/v1/coordination/sessions/{id}/turn", nullptr, post_session_turn, key,
          body_class::json, engine_need::loaded, metered},
    route{"POST", "/v1/coordination/sessions/{id}/turn/stream", nullptr, post_session_turn_stream,
          key, body_class::json, engine_need::loaded, metered},
    route{"POST", "/v1/coordination/sessions/{id}/round", nullptr, post_session_round, key,
          body_class::json, engine_need::loaded, metered},
    route{"POST", "/v1/coordination/sessions/{id}/round/stream", nullptr, post_session_round_stream,
          key, body_class::json, engine_need::loaded, metered},
    route{"POST", "/v1/coordination/sessions/{id}/decision", nullptr, post_session_decision, key,
          body_class::json, engine_need::loaded, metered},
    route{"POST", "/v1/coordination/sessions/{id}/whisper", nullptr, post_session_whisper, key,
          body_class::json, engine_need::loaded},
    route{"POST", "/v1/coordination/sessions/{id}/vote", nullptr, post_session_vote, key,
          body_class::json, engine_need::loaded},
    route{"GET", "/v1/coordination/sessions/{id}/messages", nullptr, get_session_messages, key,
          body_class::none, engine_need::loaded},
    route{"GET", "/v1/coordination/sessions/{id}/votes", nullptr, get_session_votes, key,
          body_class::none, engine_need::loaded},
    route{"GET", "/v1/coordination/scenarios", nullptr, get_scenarios, key, body_class::none,
          engine_need::loaded},
    route{"POST", "/v1/coordination/scenarios/{id}/runs", nullptr, post_scenario_run, key,
          body_class::json, engine_need::loaded, metered},
    route{"GET", "/v1/coordination/runs", nullptr, get_runs, key, body_class::none,
          engine_need::loaded},
    route{"GET", "/v1/coordination/runs/{id}", nullptr, get_run, key, body_class::none,
          engine_need::loaded},
    route{"POST", "/v1/coordination/runs/{id}/resume", nullptr, post_run_resume, key,
          body_class::json, engine_need::loaded, metered},
    route{"POST", "/v1/coordination/runs/{id}/cancel", nullptr, post_run_cancel, key,
          body_class::json, engine_need::loaded},
    route{"DELETE", "/v1/coordination/runs/{id}", nullptr, delete_run, key, body_class::none,
          engine_need::loaded},
    route{"DELETE", "/v1/coordination/caches/{id}", nullptr, delete_prefix_caches, key,
          body_class::none, engine_need::loaded},
    route{"DELETE", "/admin/caches", nullptr, delete_caches, admin, body_class::none,
          engine_need::loaded},
    route{"POST", "/admin/seed", post_seed, nullptr, admin, body_class::json, engine_need::none},
    route{"GET", "/debug/memory", nullptr, get_memory, admin, body_class::none, engine_need::none},
    route{"GET", "/admin/models/current", get_current_model, nullptr, admin, body_class::none,
          engine_need::none},
    route{"GET", "/admin/models/available", get_available_models, nullptr, admin, body_class::none,
          engine_need::none},
    route{"POST", "/admin/models/swap", nullptr, post_swap_model, admin, body_class::json,
          engine_need::none},
    route{"POST", "/admin/models/load", nullptr, post_load_model, admin, body_class::json,
          engine_need::none},
    route{"POST", "/admin/models/unload", nullptr, post_unload_model, admin, body_class::json,
          engine_need::none},
    // As the earlier system calls it.
    route{"POST", "/admin/models/offload", nullptr, post_unload_model, admin, body_class::json,
          engine_need::none},
    route{"POST", "/v1/messages/count_tokens", nullptr, post_count_tokens, key, body_class::json,
          engine_need::named, metered},
};

}  // namespace

std::span<const route> routes() { return table; }

}  // namespace semantic::server
