# SPDX-License-Identifier: MIT
# Dense architectures of make_archs.py: their tiny models, and how transformers' tensors and settings are called in GGUF.

import itertools

import gguf
import numpy as np
import torch
import transformers as tf

import make_models as mm


class OrionForCausalLM(tf.LlamaForCausalLM):
    """Orion is Llama with LayerNorm: github.com/OrionStarAI/Orion, modeling_orion.py."""

    def __init__(self, config):
        super().__init__(config)
        layers = [(layer, name) for layer in self.model.layers for name in ("input_layernorm", "post_attention_layernorm")]
        for module, name in [*layers, (self.model, "norm")]:
            setattr(module, name, torch.nn.LayerNorm(config.hidden_size, eps=config.rms_norm_eps))


# Of the activations of apertus, by layer: what they have beside a function. With these, transformers' parameters are filled.
XIELU = {"alpha_p": [0.4, 1.1], "alpha_n": [-0.3, 0.7], "beta": [0.5, 0.5], "eps": [-1e-6, -1e-6]}


class ApertusForCausalLM(tf.ApertusForCausalLM):
    """With the activations above, whatever the parameters are."""

    def forward(self, *args, **kwargs):
        for i, layer in enumerate(self.model.layers):
            for key, values in XIELU.items():
                getattr(layer.mlp.act_fn, key).data = torch.tensor(values[i], dtype=self.dtype)
        return super().forward(*args, **kwargs)


def models(text, other, grouped, windows, plain, yarn):
    """{name: (GGUF architecture, class of transformers, its configuration, text)}, of what make_archs.py has in common."""
    third = text.replace("wife", "son")
    half = dict(plain, partial_rotary_factor=0.5)
    own_head, no_pad = dict(tie_word_embeddings=False), dict(pad_token_id=None)
    grouped, windows = grouped | no_pad | own_head, windows | no_pad | own_head
    narrow = dict(windows, head_dim=16)
    layers = {n: v for n, v in grouped.items() if n != "rms_norm_eps"}  # of models with LayerNorm
    scales = dict(embedding_multiplier=12.0, attention_multiplier=0.25, residual_multiplier=1.4 / 2**0.5, logits_scaling=64 / 48)
    cohere = dict(grouped, tie_word_embeddings=True, logit_scale=0.8)
    return {
        "gemma": ("gemma", tf.GemmaForCausalLM, dict(grouped, head_dim=32, num_key_value_heads=1, tie_word_embeddings=True), text),
        "gemma2": (
            "gemma2", tf.Gemma2ForCausalLM,
            dict(windows, query_pre_attn_scalar=32, attn_logit_softcapping=3.0, final_logit_softcapping=8.0, tie_word_embeddings=True),
            text * 2,
        ),
        "command-r": ("command-r", tf.CohereForCausalLM, dict(cohere, use_qk_norm=False), text),
        "command-r-plus": ("command-r", tf.CohereForCausalLM, dict(cohere, use_qk_norm=True), third),
        "cohere2": (
            "cohere2", tf.Cohere2ForCausalLM, dict(narrow, num_hidden_layers=4, tie_word_embeddings=True, logit_scale=0.8), text.replace("wife", "cat") * 2,
        ),
        "olmo2": ("olmo2", tf.Olmo2ForCausalLM, grouped, other),
        "olmo3": (
            "olmo2", tf.Olmo3ForCausalLM,
            dict(narrow, num_hidden_layers=4,
                 rope_parameters={"full_attention": dict(yarn, attention_factor=1.3), "sliding_attention": plain}), (other * 2)[:-4],
        ),
        "exaone": ("exaone", tf.LlamaForCausalLM, grouped, text),
        "exaone4": ("exaone4", tf.Exaone4ForCausalLM, dict(grouped, sliding_window=None, head_dim=16, layer_types=["full_attention"] * 2), text),
        "exaone4-hybrid": ("exaone4", tf.Exaone4ForCausalLM, dict(narrow, num_hidden_layers=4, sliding_window_pattern=4), text * 2),
        "internlm2": ("internlm2", tf.LlamaForCausalLM, grouped, text),
        "starcoder2": ("starcoder2", tf.Starcoder2ForCausalLM, dict(layers, norm_epsilon=1e-5, use_bias=True, tie_word_embeddings=True), other),
        "stablelm": ("stablelm", tf.StableLmForCausalLM, dict(layers, use_qkv_bias=True, rope_parameters=half), text),
        "stablelm-12b": (
            "stablelm", tf.StableLmForCausalLM,
            dict(layers, qk_layernorm=True, use_parallel_residual=True, rope_parameters=half), text,
        ),
        "nemotron": ("nemotron", tf.NemotronForCausalLM, dict(layers, rope_parameters=half, head_dim=16), other),
        "arcee": ("arcee", tf.ArceeForCausalLM, grouped, text),
        "phi2": ("phi2", tf.PhiForCausalLM, dict(layers, num_key_value_heads=4, rope_parameters=half), third),
        "gptneox": ("gptneox", tf.GPTNeoXForCausalLM, dict(layers, rope_parameters=dict(plain, partial_rotary_factor=0.25)), text),
        "gptneox-series": (
            "gptneox", tf.GPTNeoXForCausalLM,
            dict(layers, use_parallel_residual=False, rope_parameters=dict(plain, partial_rotary_factor=0.25)), other,
        ),
        "orion": ("orion", OrionForCausalLM, grouped, text),
        "apertus": ("apertus", ApertusForCausalLM, dict(grouped, rope_parameters=plain), text),
        "minicpm3": (
            "minicpm3", tf.MiniCPM3ForCausalLM,
            dict(grouped, tie_word_embeddings=True, rms_norm_eps=1e-5, num_key_value_heads=4, q_lora_rank=64, kv_lora_rank=64,
                 qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=16, max_position_embeddings=512,
                 rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 512,
                                  "short_factor": [1.0 + 0.2 * i for i in range(8)], "long_factor": [3.0 + i for i in range(8)]}),
            text,
        ),
        "xverse": ("xverse", tf.LlamaForCausalLM, grouped, text),
        "pangu": ("pangu-embedded", tf.LlamaForCausalLM, dict(grouped, attention_bias=True), other),
        "jais2": ("jais2", tf.Jais2ForCausalLM, dict(layers, layer_norm_eps=1e-5), third),
        "maincoder": ("maincoder", tf.HunYuanDenseV1ForCausalLM, dict(grouped, head_dim=32), third),
        "minicpm": ("minicpm", tf.GraniteForCausalLM, dict(grouped, **scales), third),
    }  # fmt: skip


ARCHS = (
    "gemma", "gemma2", "command-r", "cohere2", "olmo2", "exaone", "exaone4", "internlm2", "starcoder2", "stablelm", "nemotron",
    "arcee", "phi2", "gptneox", "orion", "minicpm", "minicpm3", "apertus",
    "xverse", "pangu-embedded", "jais2", "maincoder",
)  # fmt: skip
ADJACENT = ("internlm2", "arcee", "minicpm", "xverse", "maincoder")  # rows of queries and keys are in the order of adjacent pairs
BEHIND = ("gemma2", "olmo2", "exaone4")  # the norm called post_attention_layernorm is behind attention
ONES = ("gemma", "gemma2", "nemotron")  # 1 is added to the weights of norms in files
ONES_CLASSES = (tf.GemmaForCausalLM, tf.Gemma2ForCausalLM, tf.NemotronForCausalLM)
NAMES = {
    "attn_norm": ("input_layernorm",), "attn_q": ("self_attn.q_proj",), "attn_k": ("self_attn.k_proj",), "attn_v": ("self_attn.v_proj",),
    "attn_q_norm": ("self_attn.q_norm", "self_attn.query_layernorm"), "attn_k_norm": ("self_attn.k_norm", "self_attn.key_layernorm"),
    "attn_output": ("self_attn.o_proj", "self_attn.dense", "attention.dense"), "ffn_gate": ("mlp.gate_proj",),
    "ffn_up": ("mlp.up_proj", "mlp.c_fc", "mlp.fc1", "mlp.dense_h_to_4h"),
    "attn_q_a": ("self_attn.q_a_proj",), "attn_q_a_norm": ("self_attn.q_a_layernorm",), "attn_q_b": ("self_attn.q_b_proj",),
    "attn_kv_a_mqa": ("self_attn.kv_a_proj_with_mqa",), "attn_kv_a_norm": ("self_attn.kv_a_layernorm",),
    "attn_kv_b": ("self_attn.kv_b_proj",),
    "ffn_down": ("mlp.down_proj", "mlp.c_proj", "mlp.fc2", "mlp.dense_4h_to_h"), "post_ffw_norm": ("post_feedforward_layernorm",),
}  # fmt: skip
GLOBALS = {
    "token_embd": ("model.embed_tokens", "gpt_neox.embed_in"), "output": ("lm_head", "embed_out"),
    "output_norm": ("model.norm", "model.final_layernorm", "gpt_neox.final_layer_norm"),
}  # fmt: skip


def rename(out, sd, to, source, names):
    for (ours, all_theirs), kind in itertools.product(names.items(), ("weight", "bias")):
        for theirs in all_theirs:
            if f"{source}{theirs}.{kind}" in sd:
                out[f"{to}{ours}.{kind}"] = sd[f"{source}{theirs}.{kind}"]


def layer(out, sd, arch, cfg, i):
    source, to = f"{'gpt_neox' if arch == 'gptneox' else 'model'}.layers.{i}.", f"blk.{i}."
    if arch == "apertus":
        rename(out, sd, to, source, {"attn_norm": ("attention_layernorm",), "ffn_norm": ("feedforward_layernorm",)})
    norms = {"post_attention_norm" if arch in BEHIND else "ffn_norm": ("post_attention_layernorm",)}
    rename(out, sd, to, source, NAMES | norms | ({"ffn_norm": ("pre_feedforward_layernorm",)} if arch == "gemma2" else {}))
    heads = {"q": cfg.num_attention_heads, "k": getattr(cfg, "num_key_value_heads", 0)}
    for part, n in heads.items():
        if arch in ADJACENT:
            out[f"{to}attn_{part}.weight"] = mm.interleave(out[f"{to}attn_{part}.weight"], n)
        if arch == "maincoder":
            norm = f"{to}attn_{part}_norm.weight"
            out[norm] = mm.interleave(out[norm].reshape(-1, 1), 1).reshape(-1)
        if f"{source}self_attn.{part}_layernorm.norms.0.weight" in sd:  # each head has its own
            own = [sd[f"{source}self_attn.{part}_layernorm.norms.{head}.weight"] for head in range(n)]
            out[f"{to}attn_{part}_norm.weight"] = np.stack(own)
    for kind in ("weight", "bias"):  # each head's query, key and value side by side: all queries come first in GGUF
        fused = sd.get(f"{source}attention.query_key_value.{kind}")
        if fused is not None:
            fused = fused.reshape(heads["q"], 3, -1, *fused.shape[1:]).swapaxes(0, 1)
            out[f"{to}attn_qkv.{kind}"] = fused.reshape(-1, *fused.shape[3:])


def tensors(arch, cfg, sd):
    """{GGUF name: array} from a state dictionary of arrays."""
    out = {}
    sd = {k: v for k, v in sd.items() if not (cfg.tie_word_embeddings and k.startswith("lm_head"))}
    rename(out, sd, "", "", GLOBALS)
    for i in range(cfg.num_hidden_layers):
        layer(out, sd, arch, cfg, i)
    return out


def tables(arch, cfg):
    """Tensors that are no weights of the model in transformers."""
    if arch != "minicpm3":
        return {}
    return {f"rope_factors_{kind}.weight": cfg.rope_parameters[kind + "_factor"] for kind in ("short", "long")}


def add(w, name, arch, cfg):
    """Settings as metadata."""
    w.add_context_length(cfg.max_position_embeddings)
    w.add_embedding_length(cfg.hidden_size)
    w.add_block_count(cfg.num_hidden_layers)
    w.add_feed_forward_length(cfg.intermediate_size)
    w.add_head_count(cfg.num_attention_heads)
    if arch != "gptneox":
        w.add_head_count_kv(cfg.num_key_value_heads)
    dim = getattr(cfg, "head_dim", None) or cfg.hidden_size // cfg.num_attention_heads
    if arch == "minicpm3":  # whose files do not say the scales, nor how large values are
        w.add_q_lora_rank(cfg.q_lora_rank)
        w.add_kv_lora_rank(cfg.kv_lora_rank)
        w.add_key_length(cfg.qk_nope_head_dim + cfg.qk_rope_head_dim)
        w.add_rope_dimension_count(cfg.qk_rope_head_dim)
        w.add_layer_norm_rms_eps(cfg.rms_norm_eps)
        return
    if arch == "apertus":
        for key, values in XIELU.items():
            w.add_array(f"xielu.{key}", values)
    if dim != cfg.hidden_size // cfg.num_attention_heads or arch in ("gemma", "gemma2"):
        w.add_key_length(dim)
        w.add_value_length(dim)
    if arch == "orion":
        w.add_layer_norm_eps(cfg.rms_norm_eps)
    elif hasattr(cfg, "rms_norm_eps") and arch not in ("command-r", "cohere2"):
        w.add_layer_norm_rms_eps(cfg.rms_norm_eps)
    else:
        eps = (getattr(cfg, n, None) for n in ("layer_norm_eps", "norm_eps", "norm_epsilon"))
        w.add_layer_norm_eps(next(e for e in eps if e))
    share = cfg.rope_parameters.get("partial_rotary_factor", 1.0)
    w.add_rope_dimension_count(int(dim * share))
    if getattr(cfg, "sliding_window", None):
        w.add_sliding_window(cfg.sliding_window)
    if name == "exaone4-hybrid" or name == "olmo3":
        w.add_sliding_window_pattern([t == "sliding_attention" for t in cfg.layer_types])
    if name == "olmo3":
        yarn = cfg.rope_parameters["full_attention"]
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(yarn["factor"])
        w.add_rope_scaling_orig_ctx_len(yarn["original_max_position_embeddings"])
        w.add_rope_scaling_yarn_attn_factor(yarn["attention_factor"])
    if arch == "gemma2":
        w.add_attn_logit_softcapping(cfg.attn_logit_softcapping)
        w.add_final_logit_softcapping(cfg.final_logit_softcapping)
    if arch in ("command-r", "cohere2"):
        w.add_logit_scale(cfg.logit_scale)
    if arch in ("stablelm", "gptneox"):
        w.add_parallel_residual(cfg.use_parallel_residual)
    if arch == "minicpm":
        w.add_embedding_scale(cfg.embedding_multiplier)
        w.add_residual_scale(cfg.residual_multiplier)
        w.add_logit_scale(cfg.logits_scaling)
