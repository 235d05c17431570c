// SPDX-License-Identifier: MIT
// Scales of whole matrices: a model whose matrix has the scale 2 beside it gives the bytes of one whose matrix is
// doubled; scales of the wrong shape, that are no numbers, or of something that has none are refused by name.
#include "check.h"

#include "arch_models.h"
#include "convert/pack.h"
#include "model/model.h"

enum { N_TOKENS = 24, EACH = 2 };

static char path[300], packed[300];

// ---- meaning

static char scale[96], matrix[96]; // "blk.1.attn_q.scale" and so on

static void name_both(const char *stem, int layer)
{
    char prefix[16] = "";
    if (strcmp(stem, "output"))
        snprintf(prefix, sizeof prefix, "blk.%d.", layer);
    snprintf(matrix, sizeof matrix, "%s%s.weight", prefix, stem);
    snprintf(scale, sizeof scale, "%s%s.scale", prefix, stem);
}

static float with_scale(const char *tensor, uint64_t row, uint64_t column, float usual)
{
    (void)row, (void)column;
    return strcmp(tensor, scale) ? usual : 2.0f;
}

static float doubled(const char *tensor, uint64_t row, uint64_t column, float usual)
{
    (void)row, (void)column;
    return strcmp(tensor, matrix) ? usual : 2.0f * usual;
}

static bool keep_row(void *arg, int index, const float *logits)
{
    memcpy((float *)arg + (size_t)index * MADE_VOCAB, logits, MADE_VOCAB * sizeof *logits);
    return true;
}

// Logits of a prompt, then of steps.
static void run(float *out, const struct made *made)
{
    struct hearth_model *m = NULL;
    struct hearth_session *s = NULL;
    struct hearth_session_params p = hearth_session_params_default();
    hearth_token tokens[N_TOKENS];
    for (int i = 0; i < N_TOKENS; i++)
        tokens[i] = i ? (i * 37 + 11) % MADE_VOCAB : 1;
    p.n_threads = 2;
    made_write(path, made);
    CHECK(hearth_model_open(&m, path, NULL, &check_error));
    CHECK(hearth_session_open(&s, m, &p, &check_error));
    int seq = hearth_seq_new(s, NULL);
    CHECK(hearth_prompt(s, seq, tokens, N_TOKENS / 2, keep_row, out, &check_error));
    for (int i = N_TOKENS / 2; i < N_TOKENS; i++) {
        CHECK(hearth_step(s, &seq, &tokens[i], 1, &check_error));
        keep_row(out, i, hearth_logits(s, 0));
    }
    hearth_session_close(&s);
    hearth_model_close(&m);
}

// Whether a made model has the matrix, and computes with whole ones: *n is how many there are in the tensor.
static bool has_matrix(const struct made *made, uint64_t *n)
{
    static struct made_tensor tensors[256];
    struct made_list list = {made, tensors, 0};
    const struct hearth_arch *arch = hearth_arch_find((struct hearth_str){made->arch, strlen(made->arch)});
    bool has = false;
    made_list_tensors(&list, arch);
    for (size_t i = 0; i < list.n; i++) {
        if (strstr(tensors[i].name, "ffn_down_t"))
            return false;
        has |= !strcmp(tensors[i].name, matrix) && tensors[i].ne[1] > 1;
        *n = strcmp(tensors[i].name, matrix) ? *n : tensors[i].ne[2];
    }
    for (const struct made_kv *kv = made->set; kv->key; kv++)
        if (strstr(kv->key, "activation"))
            return false;
    return has;
}

static void test_meaning(void **state)
{
    (void)state;
    static const char *const stems[] = {"attn_q",       "attn_k",         "attn_v",         "attn_output",
                                        "attn_qkv",     "attn_gate",      "ffn_gate",       "ffn_up",
                                        "ffn_down",     "ffn_gate_exps",  "ffn_up_exps",    "ffn_down_exps",
                                        "ffn_up_shexp", "ffn_gate_shexp", "ffn_down_shexp", "ssm_in",
                                        "ssm_out",      "ssm_alpha",      "ssm_beta",       "output"};
    static float with[N_TOKENS * MADE_VOCAB], without[N_TOKENS * MADE_VOCAB], plain[N_TOKENS * MADE_VOCAB];
    for (size_t i = 0; i < sizeof stems / sizeof stems[0]; i++) {
        int tried = 0;
        for (size_t k = 0; k < N_MODELS && tried < EACH; k++)
            for (int layer = 0; layer < 2 && tried < EACH; layer++) {
                struct made made = models[k];
                uint64_t n = 1;
                name_both(stems[i], layer);
                if (!has_matrix(&made, &n))
                    continue;
                tried++;
                run(plain, &made);
                made.value = doubled;
                run(without, &made);
                made.value = with_scale;
                made.extra = scale;
                made.extra_n = n;
                run(with, &made);
                if (memcmp(with, without, sizeof with))
                    fail_msg("%s: %s = 2 is not the matrix doubled", made.arch, scale);
                if (!memcmp(with, plain, sizeof with))
                    fail_msg("%s: %s does not matter", made.arch, scale);
            }
        if (!tried)
            fail_msg("no model has %s", stems[i]);
    }
}

// ---- refusals

static void opens(const struct made *made, int code, const char *says)
{
    struct hearth_model *m = NULL;
    struct hearth_error err = {0};
    made_write(path, made);
    const int rc = hearth_model_open(&m, path, NULL, &err);
    if (rc != code || (rc && !strstr(err.message, says)))
        fail_msg("%s: %d \"%s\" where %d \"%s\" was to come", made->extra, rc, err.message, code, says);
    hearth_model_close(&m);
}

static float infinite(const char *tensor, uint64_t row, uint64_t column, float usual)
{
    (void)row;
    return strstr(tensor, ".scale") && column == MADE_EXPERTS - 1 ? INFINITY : usual;
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t n;
        bool experts;
        int code;
    } cases[] = {
        {"blk.1.attn_q.scale", 1, false, HEARTH_OK},
        {"blk.1.attn_q.scale", 2, false, HEARTH_E_FORMAT},
        {"blk.1.attn_q.input_scale", 1, false, HEARTH_OK},
        {"blk.1.attn_q.input_scale", 2, false, HEARTH_E_FORMAT},
        {"blk.0.ffn_up_exps.scale", MADE_EXPERTS, true, HEARTH_OK},
        {"blk.0.ffn_up_exps.scale", 1, true, HEARTH_E_FORMAT},
        {"blk.0.ffn_up_exps.scale", MADE_EXPERTS - 1, true, HEARTH_E_FORMAT},
        {"blk.0.ffn_up_exps.input_scale", MADE_EXPERTS, true, HEARTH_OK},
        {"blk.0.ffn_up_exps.input_scale", 1, true, HEARTH_E_FORMAT},
        {"blk.0.ffn_up.scale", 1, true, HEARTH_E_UNSUPPORTED}, // there is no such matrix
        {"blk.0.ffn_up_exps.scale", 1, false, HEARTH_E_UNSUPPORTED},
        {"blk.0.attn_norm.scale", 1, false, HEARTH_E_UNSUPPORTED}, // a vector
        {"blk.0.ffn_gate_inp.scale", 1, true, HEARTH_E_UNSUPPORTED},
        {"blk.99.attn_q.scale", 1, false, HEARTH_E_UNSUPPORTED},
        {"blk.-1.attn_q.scale", 1, false, HEARTH_E_UNSUPPORTED},
        {"blk.0.attn_q.weight.scale", 1, false, HEARTH_E_UNSUPPORTED},
        {"blk.0..scale", 1, false, HEARTH_E_UNSUPPORTED},
        {".scale", 1, false, HEARTH_E_UNSUPPORTED},
        {"token_embd.scale", 1, false, HEARTH_E_UNSUPPORTED},
        {"output.scale", 1, false, HEARTH_OK},
        {"output.scale", 3, false, HEARTH_E_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        opens(&(struct made){.arch = "llama",
                             .experts = cases[i].experts,
                             .optional = cases[i].name[0] == 'o', // there is a head
                             .extra = cases[i].name,
                             .extra_n = cases[i].n},
              cases[i].code, cases[i].name);
    // The head is the embedding: nothing has the scale.
    opens(&(struct made){.arch = "llama", .without = "output.weight", .extra = "output.scale", .extra_n = 1},
          HEARTH_E_UNSUPPORTED, "output.scale");
    opens(&(struct made){.arch = "llama",
                         .experts = true,
                         .extra = "blk.1.ffn_down_exps.scale",
                         .extra_n = MADE_EXPERTS,
                         .value = infinite},
          HEARTH_E_FORMAT, "blk.1.ffn_down_exps.scale");
    opens(&(struct made){.arch = "llama", .by_neuron = true, .extra = "blk.1.ffn_up.scale", .extra_n = 1},
          HEARTH_E_UNSUPPORTED, "ffn_down_t");
}

static void test_packs(void **state)
{
    (void)state;
    const struct hearth_pack_params params = {0};
    struct hearth_error err = {0};
    made_write(path, &(struct made){.arch = "llama", .extra = "blk.1.ffn_up.scale", .extra_n = 1});
    assert_int_equal(hearth_pack_write(path, packed, &params, NULL, &err), HEARTH_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "blk.1.ffn_up.scale"));
}

static int name_files(void **state)
{
    if (make_folder(state))
        return -1;
    snprintf(path, sizeof path, "%s", in_folder("model.gguf"));
    snprintf(packed, sizeof packed, "%s", in_folder("model.hearth.gguf"));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meaning),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_packs),
    };
    return cmocka_run_group_tests_name("scales", tests, name_files, remove_folder);
}
