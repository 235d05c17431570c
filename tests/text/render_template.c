// SPDX-License-Identifier: MIT
// Renders a template of Jinja with the variables of a JSON object: render_template TEMPLATE JSON. Both are files. What
// is rendered goes to standard output, a failure to standard error. For comparing with other engines
// (tools/oracle/check_templates.py).
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja_run.h"

struct text {
    char *s;
    size_t n;
};

static struct text read_file(const char *path)
{
    struct text t = {malloc(1 << 24), 0};
    FILE *f = fopen(path, "rb");
    if (!f || !t.s) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(2);
    }
    t.n = fread(t.s, 1, 1 << 24, f);
    fclose(f);
    return t;
}

static void fill(struct jinja *j, struct jinja_dict *variables, void *arg)
{
    const struct text *json = arg;
    const struct jinja_value v = hearth_jinja_read_json(j, json->s, json->n, "variables", JINJA_DATA);
    if (v.type != JINJA_DICT)
        hearth_jinja_fail(j, "the variables are no object");
    *variables = *v.u.dict;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    struct text source = read_file(argv[1]), json = read_file(argv[2]);
    struct hearth_error err = {0};
    struct hearth_jinja *t;
    struct jinja j = {.limit = (size_t)256 << 20, .now = 1700000000};
    const struct jinja_string *out = NULL;
    int rc = hearth_jinja_open(&t, source.s, source.n, &err);
    if (!rc)
        rc = hearth_jinja_render(&j, t, fill, &json, &out, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.message);
    else
        fwrite(out->s, 1, out->n, stdout);
    hearth_jinja_free(&j);
    hearth_jinja_close(&t);
    free(source.s);
    free(json.s);
    return rc ? 1 : 0;
}
