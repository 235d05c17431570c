// SPDX-License-Identifier: MIT
// Which layers' experts the options leave to the CPU: see cpu_experts.h. Patterns are compared with the names that tensors
// have in files (blk.3.ffn_up_exps.weight), of any number of layers, as no model is open yet.
#include "cli/cpu_experts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common.h"
#include "cli/pattern.h"
#include "model/model.h"

// Of --override-tensor, in all.
#define MOST_RULES 256
// Layers in which tensors that are no experts' are looked for: enough to say that a pattern means them.
#define LAYERS_OF_OTHERS 200

static const char *const experts[] = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"};
static const char *const others[] = {
    "attn_norm",    "attn_q",         "attn_k",   "attn_v",   "attn_qkv",      "attn_output",
    "ffn_norm",     "ffn_gate",       "ffn_up",   "ffn_down", "ffn_gate_inp",  "ffn_gate_shexp",
    "ffn_up_shexp", "ffn_down_shexp", "attn_q_a", "attn_q_b", "attn_kv_a_mqa", "attn_kv_b",
    "attn_q_norm",  "attn_k_norm",    "ssm_in",   "ssm_out"};
static const char *const outside[] = {"token_embd.weight", "output.weight", "output_norm.weight"};

#define N_OF(list) (sizeof(list) / sizeof *(list))

// PATTERN=WHERE.
struct rule {
    const char *text; // of both
    int n;
    bool is_cpu;
    struct hearth_pattern *pattern;
};

struct rules {
    struct rule list[MOST_RULES];
    int n;
};

static void close_rules(struct rules *r)
{
    for (int i = 0; i < r->n; i++)
        hearth_pattern_close(r->list[i].pattern);
    r->n = 0;
}

static int add_rule(struct rules *r, const char *text, size_t n)
{
    const char *equals = memchr(text, '=', n), *why;
    if (!equals || equals == text || equals + 1 == text + n)
        return hearth_cli_usage(NULL, "--override-tensor %.*s: give PATTERN=CPU, such as \"exps=CPU\"",
                                (int)n, text);
    if (r->n == MOST_RULES)
        return hearth_cli_usage(NULL, "--override-tensor: there are more than %d patterns", MOST_RULES);
    struct rule *rule = &r->list[r->n];
    *rule = (struct rule){.text = text, .n = (int)n, .is_cpu = !strncmp(equals + 1, "CPU", 3)};
    rule->pattern = hearth_pattern_open(text, (size_t)(equals - text), &why);
    if (!rule->pattern)
        return hearth_cli_usage(NULL, "--override-tensor %.*s: the pattern cannot be used: %s", (int)n, text,
                                why);
    r->n++;
    return HEARTH_EXIT_OK;
}

// All patterns, in their order; close_rules() follows in any case.
static int read_rules(struct rules *r, const struct hearth_options *o)
{
    int status = HEARTH_EXIT_OK;
    r->n = 0;
    for (int i = 0; i < o->override_tensor.n && !status; i++) {
        const char *text = o->override_tensor.values[i];
        for (size_t n; !status; text += n + 1) {
            n = strcspn(text, ",;"); // llama-bench has semicolons
            status = add_rule(r, text, n);
            if (!text[n])
                break;
        }
    }
    return status;
}

// The first rule that a name is of; NULL: none is.
static const struct rule *rule_of(const struct rules *r, const char *name)
{
    for (int i = 0; i < r->n; i++)
        if (hearth_pattern_is_in(r->list[i].pattern, name))
            return &r->list[i];
    return NULL;
}

static const char *name_in(char *out, size_t size, int layer, const char *tensor)
{
    snprintf(out, size, "blk.%d.%s.weight", layer, tensor);
    return out;
}

// What rules say of a layer's experts.
struct verdict {
    int cpu, elsewhere, silent; // matrices that are the CPU's, a device's, or in no pattern
    const struct rule *rule;    // of one that is the CPU's
};

static struct verdict judge(const struct rules *r, int layer)
{
    struct verdict v = {0};
    for (size_t i = 0; i < N_OF(experts); i++) {
        char name[80];
        const struct rule *rule = rule_of(r, name_in(name, sizeof name, layer, experts[i]));
        v.cpu += rule && rule->is_cpu;
        v.elsewhere += rule && !rule->is_cpu;
        v.silent += !rule;
        v.rule = rule && rule->is_cpu ? rule : v.rule;
    }
    return v;
}

static bool means_experts(const struct rule *rule)
{
    bool does = false;
    for (int layer = 0; layer < HEARTH_MAX_LAYERS && !does; layer++)
        for (size_t i = 0; i < N_OF(experts) && !does; i++) {
            char name[80];
            does = hearth_pattern_is_in(rule->pattern, name_in(name, sizeof name, layer, experts[i]));
        }
    return does;
}

static bool means_others(const struct rule *rule)
{
    bool does = false;
    for (size_t i = 0; i < N_OF(outside) && !does; i++)
        does = hearth_pattern_is_in(rule->pattern, outside[i]);
    for (int layer = 0; layer < LAYERS_OF_OTHERS && !does; layer++)
        for (size_t i = 0; i < N_OF(others) && !does; i++) {
            char name[80];
            does = hearth_pattern_is_in(rule->pattern, name_in(name, sizeof name, layer, others[i]));
        }
    return does;
}

// What is not done of what the patterns ask for.
static void tell(const struct rules *r)
{
    for (int i = 0; i < r->n; i++) {
        const struct rule *rule = &r->list[i];
        const bool of_experts = means_experts(rule), of_others = means_others(rule);
        if (!rule->is_cpu)
            hearth_cli_info(
                "without effect here: --override-tensor %.*s (no tensor is bound to a device; see --vram "
                "and --tensor-split%s)",
                rule->n, rule->text, of_experts ? "; patterns behind it do not count for its experts" : "");
        else if (!of_experts || of_others)
            hearth_cli_info(
                "without effect here: --override-tensor %.*s%s (other tensors go where their layer "
                "goes; see --gpu-layers)",
                rule->n, rule->text, of_experts ? ", but for experts" : "");
    }
    for (int layer = 0; layer < HEARTH_MAX_LAYERS; layer++) {
        const struct verdict v = judge(r, layer);
        if (v.cpu && v.cpu < (int)N_OF(experts)) {
            hearth_cli_info(
                "without effect here: --override-tensor %.*s for experts of layer %d, and maybe others (gate, "
                "up and down of an expert are on a device, or none of them is)",
                v.rule->n, v.rule->text, layer);
            break;
        }
    }
}

int hearth_cli_check_cpu_experts(const struct hearth_options *o, bool tells)
{
    struct rules rules;
    const int status = read_rules(&rules, o);
    if (!status && tells)
        tell(&rules);
    close_rules(&rules);
    return status;
}

const unsigned char *hearth_cli_cpu_experts(const struct hearth_options *o, int *n)
{
    static unsigned char is[HEARTH_MAX_LAYERS];
    struct rules rules;
    *n = 0;
    if (!o->cpu_moe && !o->n_cpu_moe && !o->override_tensor.n)
        return is;
    read_rules(&rules, o);
    for (int layer = 0; layer < HEARTH_MAX_LAYERS; layer++) {
        const struct verdict v = judge(&rules, layer);
        const bool otherwise = v.silent == (int)N_OF(experts) && (o->cpu_moe || layer < o->n_cpu_moe);
        is[layer] = v.cpu == (int)N_OF(experts) || otherwise;
        *n = is[layer] ? layer + 1 : *n;
    }
    close_rules(&rules);
    return is;
}
