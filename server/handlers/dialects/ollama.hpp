// SPDX-License-Identifier: Apache-2.0
#pragma once
// The Ollama API: answers as lines of JSON, and what its clients ask of models. Each is a dialect
// of what the other APIs do (protocol/README.md).
// Cancelled half-way (server stop): the engine request is cancelled, nothing more is sent.

#include <boost/asio/awaitable.hpp>

#include <optional>

#include "server/http/client_link.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

using ollama_reply = boost::asio::awaitable<std::optional<response>>;

/// POST /api/chat: answers a conversation. Requires a loaded model.
ollama_reply post_ollama_chat(const services& server, const request& incoming, client_link& client);
/// POST /api/generate: answers one prompt. Requires a loaded model.
ollama_reply post_ollama_generate(const services& server, const request& incoming,
                                  client_link& client);
/// GET /api/tags: all models.
ollama_reply get_ollama_tags(const services& server, const request& incoming, client_link& client);
/// GET /api/ps: the loaded models.
ollama_reply get_ollama_running(const services& server, const request& incoming,
                                client_link& client);
/// POST /api/show: what is known of one model.
ollama_reply post_ollama_show(const services& server, const request& incoming, client_link& client);
/// POST /api/pull: success for a model that is here; not_found for others, since the server fetches
/// nothing.
ollama_reply post_ollama_pull(const services& server, const request& incoming, client_link& client);
/// GET /api/version: the version of the API that clients compare with.
response get_ollama_version(const services& server, const request& incoming);
/// POST /api/embed and /api/embeddings: 400, because the server has no embedding models.
response refuse_ollama_embeddings(const services& server, const request& incoming);
/// POST /api/create, /api/copy, /api/push and DELETE /api/delete: refused, because the server does
/// not change models.
response refuse_ollama(const services& server, const request& incoming);

}  // namespace semantic::server
