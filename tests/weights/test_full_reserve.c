// SPDX-License-Identifier: MIT
// A step whose first cluster finds no room: the reserve of the neuron cache is full of reads for other
// neurons of the layer, because what was read ahead for it was guessed wrong and is still on its way. The
// step lets it go and comes to the same logits.
//
// The model is made for that. Component SIGN of the stream is negative in layer 0 and, by a bias of layer 1's
// attention, positive in layer 1; a predictor of layer 1 that sees it negative does not name the first
// cluster, and one that sees it positive names all neurons. Component GATE closes all gates for the tokens
// that the profile is made of and opens them for the others, so that the profile lets expect no neuron and
// the reserve is as small as it can be: one cluster.
#include "check.h"

#include "convert/pack.h"
#include "convert/profile.h"
#include "made_models.h"
#include "sparse/space.h"
#include "streaming_support.h"

enum { SIGN = 0, GATE = 1, FF = 7168, ROWS = 4 };

static float value(const char *tensor, uint64_t row, uint64_t column, float usual)
{
    if (!strcmp(tensor, "token_embd.weight"))
        return column == SIGN ? -20.0f : column == GATE ? (row % 2 ? -100.0f : 100.0f) : usual;
    if (!strcmp(tensor, "blk.1.attn_output.bias"))
        return column == SIGN ? 1e4f : usual;
    if (strstr(tensor, "ffn_gate.bias"))
        return 0.0f;
    if (strstr(tensor, "ffn_gate.weight"))
        return column == GATE ? -1.0f : 0.0f;
    if (strstr(tensor, "ffn_down_t.weight"))
        return column == GATE ? 0.0f : usual;
    if (strstr(tensor, "fc1.weight")) // rank 0: SIGN where it is positive, rank 1: where it is negative
        return column != SIGN ? 0.0f : row == 0 ? 10.0f : row == 1 ? -10.0f : 0.0f;
    const bool blind = !strcmp(tensor, "blk.1.fc2.weight") && row < hearth_cluster_size(FF);
    if (strstr(tensor, "fc2.weight"))
        return column == 0 || (column == 1 && !blind) ? 1.0f : 0.0f;
    return usual;
}

// A prompt of three tokens and steps, all of tokens with open gates.
static void evaluate_one(const char *pack, const struct way *way, float *logits)
{
    const hearth_token text[] = {1, 41, 43};
    struct opened o = open_way(pack, way);
    const int seq = hearth_seq_new(o.session, &err);
    OK(hearth_prompt(o.session, seq, text, 3, NULL, NULL, &err));
    for (int i = 0; i < ROWS; i++) {
        memcpy(logits + i * MADE_VOCAB, hearth_logits(o.session, 0), MADE_VOCAB * sizeof *logits);
        const hearth_token token = 2 * i + 61;
        if (i + 1 < ROWS)
            OK(hearth_step(o.session, &seq, &token, 1, &err));
    }
    close_opened(&o);
}

static void make_pack(const char *pack)
{
    const struct made made = {.arch = "llama",
                              .predictors = true,
                              .by_neuron = true,
                              .optional = true,
                              .ff = FF,
                              .value = value,
                              .set = {{"feed_forward.activation", 's', 0, "relu"}}};
    char model[512], profile[512];
    snprintf(model, sizeof model, "%s", in_folder("model.gguf"));
    snprintf(profile, sizeof profile, "%s", in_folder("profile"));
    made_write(model, &made);
    struct hearth_model *m;
    OK(hearth_model_open(&m, model, NULL, &err));
    hearth_token tokens[200];
    for (int i = 0; i < 200; i++)
        tokens[i] = i * 14 % MADE_VOCAB; // even ones
    OK(hearth_profile(m, tokens, 200, &(struct hearth_profile_params){.n_threads = 2}, profile, NULL, &err));
    hearth_model_close(&m);
    OK(hearth_pack_write(model, pack, &(struct hearth_pack_params){.profile = profile}, NULL, &err));
}

static void test_full_reserve(void **state)
{
    (void)state;
    static float want[ROWS * MADE_VOCAB], got[ROWS * MADE_VOCAB];
    char pack[512];
    snprintf(pack, sizeof pack, "%s", in_folder("pack.hearth.gguf"));
    make_pack(pack);
    struct way way = {.n_threads = 2, .n_seqs = 1, .sparsity = HEARTH_SPARSITY_PREDICT, .threshold = 0.5f};
    evaluate_one(pack, &way, want);
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        uint64_t least, most;
        way.n_threads = n_threads;
        find_budgets_of(pack, way, &least, &most);
        for (uint64_t i = 2; i <= 5; i++) { // all dense weights in memory, and few neurons
            struct way small = way;
            small.ram = least + (most - least) * i / 128;
            small.throttle = "100000,0"; // so that reads last
            small.tests = (struct hearth_weights_tests){SMALL, .always = true};
            evaluate_one(pack, &small, got);
            assert_memory_equal(got, want, sizeof want);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_full_reserve)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
