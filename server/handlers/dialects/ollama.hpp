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

/// Engine: loaded.
ollama_reply post_ollama_chat(const services& server, const request& incoming, client_link& client);
ollama_reply post_ollama_generate(const services& server, const request& incoming,
                                  client_link& client);
/// Engine: none.
ollama_reply get_ollama_tags(const services& server, const request& incoming, client_link& client);
ollama_reply get_ollama_running(const services& server, const request& incoming,
                                client_link& client);
ollama_reply post_ollama_show(const services& server, const request& incoming, client_link& client);
/// Success for a model that is here; not_found for any other, since the server fetches nothing.
ollama_reply post_ollama_pull(const services& server, const request& incoming, client_link& client);
response get_ollama_version(const services& server, const request& incoming);
/// 400: a model that continues text is none that embeds it.
response refuse_ollama_embeddings(const services& server, const request& incoming);
/// Functions of other servers of this API: making, copying, deleting models.
response refuse_ollama(const services& server, const request& incoming);

}  // namespace semantic::server
