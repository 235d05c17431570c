// SPDX-License-Identifier: MIT
// The web page.
#include "serve/api.h"
#include "serve/page.h"

void hearth_api_page(struct hearth_exchange *x)
{
    x->status = 200;
    x->type = "text/html; charset=utf-8";
    x->policy = hearth_web_page_policy;
    hearth_out_add(&x->out, hearth_web_page, hearth_web_page_bytes);
    x->finished = true;
}
