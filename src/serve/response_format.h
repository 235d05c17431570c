// SPDX-License-Identifier: MIT
// The form that a request wants its answer to have.
#ifndef HEARTH_SERVE_RESPONSE_FORMAT_H
#define HEARTH_SERVE_RESPONSE_FORMAT_H

#include "serve/exchange.h"

// Finds what the request wants: "grammar" (GBNF), "json_schema", "response_format" or "text": {"format":
// ...}. *gbnf: the grammar's text, which the caller frees; NULL: any text will do. Without any of them, a
// request with tools gets a grammar that keeps calls valid. False: there is an error in the exchange.
bool hearth_response_format(struct hearth_exchange *x, char **gbnf);

#endif
