// SPDX-License-Identifier: MIT
// What requests say of adapters.
#ifndef HEARTH_SERVE_ADAPTERS_H
#define HEARTH_SERVE_ADAPTERS_H

#include "serve/exchange.h"

// Whether the field `lora`, if there is one, asks for the scales that adapters have; else there is an error in
// the exchange.
bool hearth_request_adapters(struct hearth_exchange *x);

#endif
