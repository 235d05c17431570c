// SPDX-License-Identifier: MIT
// The options of llama.cpp's programs (llama-cli, llama-completion, llama-bench, llama-perplexity,
// llama-embedding, llama-tokenize, llama-quantize, llama-server) that Hearth does not have.
#include "cli/llama_options.h"

#include <stddef.h>
#include <string.h>

#include "cli/options.h"
#include "cli/spelling.h"

#define ONLY_RUN   HEARTH_CMD_RUN
#define RUN        (HEARTH_CMD_RUN | HEARTH_CMD_CHAT)
#define SERVE      HEARTH_CMD_SERVE
#define BENCH      HEARTH_CMD_BENCH
#define PERPLEXITY HEARTH_CMD_PERPLEXITY
#define TOKENIZE   HEARTH_CMD_TOKENIZE
#define QUANTIZE   HEARTH_CMD_QUANTIZE
#define EMBED      HEARTH_CMD_EMBED
#define ENGINE     (RUN | SERVE | BENCH | PERPLEXITY | EMBED)
#define MODEL      (ENGINE | TOKENIZE)
#define TEXT       (RUN | SERVE | PERPLEXITY | EMBED)

#define FLAG  HEARTH_LLAMA_FLAG
#define VALUE HEARTH_LLAMA_VALUE
#define MAYBE HEARTH_LLAMA_MAYBE

#define NO_DOWNLOAD  "there is no download; give a GGUF file"
#define NO_CHAT      "run continues a text; hearth chat MODEL talks, and has this option"
#define NO_SERVER    "hearth serve MODEL is the server"
#define NO_TLS       "there is no TLS; a proxy in front of the server does it"
#define ONE_MODEL    "the server has one model"
#define ALWAYS       "it is always there; --api-key keeps others out"
#define IN_REQUESTS  "requests say it, in chat_template_kwargs and reasoning_effort"
#define NO_TOOLS     "hearth chat and run have no tools; hearth serve takes them in requests, in the field tools"
#define NO_AGENT     "the server has no tools; it hands the model's calls to the client"
#define NO_GRAMMAR   "no text is generated that a grammar could constrain; hearth run has it"
#define IN_FIELDS    "requests say it, in grammar, json_schema and response_format"
#define NO_MEDIA     "there are no images and no sound; models read text only"
#define NO_VECTOR    "there are no control vectors"
#define APPLIED      "adapters are applied when the model opens, and stay so; --lora-scaled FILE:0 leaves one out"
#define NO_REWRITE   "the file's own metadata holds; --override-kv changes it"
#define NO_EMBEDDING "hearth embed MODEL -p TEXT prints embeddings"
#define NO_RANK      "there is no reranking"
#define ONE_MACHINE  "everything is computed on this machine"
#define NO_IMATRIX   "quantize cannot use an importance matrix"
#define ONE_TYPE     "--tensor-type NAME=TYPE names such tensors (token_embd=Q8_0)"
#define ONLY_PPL     "hearth perplexity computes perplexity and KL divergence only"

static const struct hearth_llama_option table[] = {
    // ---- where the work is done: devices have whole layers, and threads are placed by the system
    {"-sm --split-mode -mg --main-gpu", VALUE, ENGINE, NULL},
    {"-ncffn --n-cpu-ffn", VALUE, ENGINE, NULL},
    {"--no-host -mmp --mmap -dio --direct-io", VALUE, BENCH, NULL}, // flags of the other programs
    {"--no-host --repack -nr --no-repack", FLAG, ENGINE, NULL},
    {"-kvo --kv-offload -nkvo --no-kv-offload", MAYBE, ENGINE, NULL},
    {"-nopo --no-op-offload", MAYBE, BENCH, NULL},
    {"-fit --fit -fitt --fit-target -fitc --fit-ctx", VALUE, ENGINE, NULL},
    {"--rpc -rpc", VALUE, ENGINE, ONE_MACHINE},
    {"--list-devices", FLAG, ENGINE, "hearth devices lists them"},
    {"-tb --threads-batch -C --cpu-mask -Cr --cpu-range --cpu-strict --prio --poll -Cb --cpu-mask-batch",
     VALUE, ENGINE, NULL},
    {"-Crb --cpu-range-batch --cpu-strict-batch --prio-batch --poll-batch --numa", VALUE, ENGINE, NULL},

    // ---- loading: weights are read into memory, or streamed with --ram
    {"--mlock --mmap --no-mmap -dio --direct-io -ndio --no-direct-io --check-tensors", FLAG, ENGINE, NULL},
    {"-lm --load-mode -lzm --lazy-mode", VALUE, ENGINE, NULL},
    {"--offline", FLAG, MODEL, NULL},
    {"-hf -hfr --hf-repo -hff --hf-file -hft --hf-token -mu --model-url -dr --docker-repo", VALUE, MODEL,
     NO_DOWNLOAD},
    {"-cl --cache-list --gpt-oss-20b-default --gpt-oss-120b-default --vision-gemma-* --embd-gemma-default",
     FLAG, MODEL, NO_DOWNLOAD},
    {"--override-kv", VALUE, QUANTIZE,
     "the metadata stays; --override-kv of run and others changes it while it runs"},
    {"--rope-* --yarn-* -gan --grp-attn-n -gaw --grp-attn-w", VALUE, ENGINE, NO_REWRITE},
    {"--control-vector --control-vector-scaled --control-vector-layer-range", VALUE, ENGINE, NO_VECTOR},
    {"--no-mmproj --no-mmproj-auto --mmproj-auto --mmproj-offload --no-mmproj-offload", FLAG, TEXT, NULL},
    {"-mm --mmproj -mmu --mmproj-url -mmdev --mmproj-device --image --audio --video", VALUE, TEXT, NO_MEDIA},
    {"--image-* --video-* --tts-* --mtmd-* -mv --model-vocoder", VALUE, TEXT, NO_MEDIA},

    // ---- the KV cache, and what is evaluated together: results do not depend on it
    {"-b --batch-size -dt --defrag-thold -ctxcp --ctx-checkpoints --swa-checkpoints", VALUE, ENGINE, NULL},
    {"-cram --cache-ram -cms --checkpoint-min-step --keep", VALUE, ENGINE, NULL},
    {"-fa --flash-attn", MAYBE, ENGINE, NULL},
    {"--swa-full -kvu --kv-unified -no-kvu --no-kv-unified --no-context-shift", FLAG, ENGINE, NULL},
    {"--context-shift", FLAG, ENGINE,
     "there is no context shift; a text ends with its context, which -c makes larger"},
    {"--prompt-cache", VALUE, RUN, NULL},
    {"--prompt-cache-all --prompt-cache-ro --warmup --no-warmup", FLAG, ENGINE, NULL},

    // ---- drafting makes generation faster and changes no text
    {"--spec-default --spec-draft-backend-sampling --no-spec-draft-backend-sampling --spec-draft-cpu-moe",
     FLAG, TEXT, NULL},
    {"-cmoed --cpu-moe-draft", FLAG, TEXT, NULL},
    {"-hfd -hfrd --hf-repo-draft --spec-draft-hf", VALUE, TEXT, NO_DOWNLOAD},
    {"-md --model-draft --spec-draft-model", VALUE, PERPLEXITY | EMBED, NULL},
    {"--spec-* -td --threads-draft -tbd --threads-batch-draft -Cd --cpu-mask-draft -Crd", VALUE, TEXT, NULL},
    {"--cpu-range-draft --cpu-strict-draft --prio-draft --poll-draft -Cbd -Crbd --cpu-mask-batch-draft",
     VALUE, TEXT, NULL},
    {"--cpu-range-batch-draft --cpu-strict-batch-draft --prio-batch-draft --poll-batch-draft -ctkd -ctvd",
     VALUE, TEXT, NULL},
    {"--cache-type-k-draft --cache-type-v-draft -otd --override-tensor-draft -ncmoed --n-cpu-moe-draft",
     VALUE, TEXT, NULL},
    {"--draft --draft-n --draft-max", VALUE, PERPLEXITY | EMBED, NULL},
    {"--draft-min --draft-n-min --draft-p-split --draft-p-min -cd", VALUE, TEXT, NULL},
    {"--ctx-size-draft -devd --device-draft -ngld --gpu-layers-draft --n-gpu-layers-draft", VALUE, TEXT,
     NULL},
    {"-lcs --lookup-cache-static -lcd --lookup-cache-dynamic", VALUE, TEXT, NULL},

    // ---- the prompt and the chat
    {"-no-cnv --no-conversation", FLAG, HEARTH_CMD_CHAT, "that is hearth run MODEL -p TEXT"},
    {"-no-cnv --no-conversation -st --single-turn --simple-io --no-display-prompt", FLAG, ENGINE, NULL},
    {"--jinja", FLAG, HEARTH_CMD_CHAT | SERVE, ""}, // templates are evaluated
    {"--jinja --no-jinja --no-reasoning-preserve --no-skip-chat-parsing --no-in-prefix-bos", FLAG, RUN, NULL},
    {"-cnv --conversation -i --interactive -if --interactive-first -mli --multiline-input --in-prefix-bos",
     FLAG, ONLY_RUN, NO_CHAT},
    {"-ins --instruct -cml --chatml --reasoning-preserve --skip-chat-parsing", FLAG, ONLY_RUN,
     "run continues a text; hearth chat MODEL talks"},
    {"-ins --instruct -cml --chatml --reasoning-preserve --skip-chat-parsing --in-prefix-bos", FLAG,
     HEARTH_CMD_CHAT, "the template decides; --chat-template chatml is one"},
    {"--in-prefix --in-suffix", VALUE, HEARTH_CMD_CHAT, "the template decides what is around messages"},
    {"--reasoning-*", VALUE, HEARTH_CMD_CHAT, "there is only --reasoning on and off"},
    {"-sys --system-prompt -sysf --system-prompt-file --in-prefix --in-suffix --chat-template*", VALUE,
     ONLY_RUN, NO_CHAT},
    {"-rea --reasoning*", VALUE, ONLY_RUN, NO_CHAT},
    {"-r --reverse-prompt", VALUE, RUN,
     "there are no stop texts; only tokens that end a text stop it, and -n"},
    {"--display-prompt", FLAG, RUN, "standard output carries the generated text alone"},
    {"--verbose-prompt", FLAG, RUN | EMBED, "hearth tokenize shows a prompt's tokens"},
    {"-bf --binary-file --in-file", VALUE, MODEL, "-f takes any file"},
    {"-ptc --print-token-count", VALUE, RUN, NULL},
    {"--stdin", FLAG, TOKENIZE, NULL},

    // ---- sampling
    {"-bs --backend-sampling --no-backend-sampling --no-penalize-nl", FLAG, TEXT, NULL},
    {"--adaptive-target --adaptive-decay", VALUE, TEXT, "there is no sampler adaptive-p"},
    {"--tfs", VALUE, TEXT, "there is no sampler TFS, nor has llama.cpp one any more; see --min-p"},
    {"--grammar --grammar-file -j --json-schema -jf --json-schema-file", VALUE, SERVE, IN_FIELDS},
    {"--grammar --grammar-file -j --json-schema -jf --json-schema-file", VALUE, PERPLEXITY | EMBED,
     NO_GRAMMAR},
    {"--n-probs", VALUE, TEXT, "probabilities are not printed; --logits-out writes all logits"},

    // ---- messages
    {"--perf --show-timings --log-prefix --no-log-prefix --log-timestamps", FLAG, ENGINE, NULL},
    {"--no-perf --no-show-timings", FLAG, ENGINE & ~RUN, NULL}, // run and chat have them
    {"--no-log-timestamps --no-log-jsonl", FLAG, ENGINE, NULL},
    {"--log-jsonl", FLAG, ENGINE, "messages are text; --stats json ends them with one line of JSON"},
    {"-co --color --log-colors", MAYBE, ENGINE, NULL},
    {"-lv --verbosity --log-verbosity", VALUE, MODEL, NULL},
    {"--log-file", VALUE, MODEL, "messages go to standard error; 2>FILE sends them to a file"},
    {"--completion-bash", FLAG, MODEL, "hearth --generate bash prints the completion"},

    // ---- llama-bench
    {"--progress", FLAG, BENCH, NULL},
    {"--delay", VALUE, BENCH, NULL},
    {"-embd --embeddings", VALUE, BENCH, "speed is measured of generation alone"},
    {"-oe --output-err", VALUE, BENCH, "-o FORMAT goes to standard output, and nothing else does"},

    // ---- llama-perplexity
    {"-np --parallel", VALUE, PERPLEXITY | EMBED, NULL},
    {"-ns --sequences --ppl-output-type", VALUE, PERPLEXITY, NULL},
    {"--ppl-stride", VALUE, PERPLEXITY, "chunks do not overlap, as with --ppl-stride 0; -c is their length"},
    {"--hellaswag --winogrande --multiple-choice", FLAG, PERPLEXITY, ONLY_PPL},
    {"--hellaswag-tasks --winogrande-tasks --multiple-choice-tasks", VALUE, PERPLEXITY, ONLY_PPL},

    // llama-perplexity and llama-embedding take what makes texts, too, and make none.
    {"-n --predict --n-predict -s --seed --samplers --sampler-seq --sampling-seq --temp --temperature", VALUE,
     PERPLEXITY | EMBED, NULL},
    {"--top-k --top-p --min-p --top-nsigma --top-n-sigma --xtc-probability --xtc-threshold --typical --typical-p",
     VALUE, PERPLEXITY | EMBED, NULL},
    {"--repeat-last-n --repeat-penalty --presence-penalty --frequency-penalty --dynatemp-range --dynatemp-exp",
     VALUE, PERPLEXITY | EMBED, NULL},
    {"--dry-* --mirostat --mirostat-lr --mirostat-ent -l --logit-bias", VALUE, PERPLEXITY | EMBED, NULL},
    {"--ignore-eos --no-escape", FLAG, PERPLEXITY | EMBED, NULL},
    {"-p --prompt", VALUE, PERPLEXITY, "-f FILE gives the text"},
    {"-e --escape", FLAG, PERPLEXITY, "the text is taken as it is"},

    // ---- llama-quantize
    {"--allow-requantize", FLAG, QUANTIZE, NULL},
    {"--max-buffer-size", VALUE, QUANTIZE, NULL},
    {"--imatrix --include-weights --exclude-weights", VALUE, QUANTIZE, NO_IMATRIX},
    {"--leave-output-tensor", FLAG, QUANTIZE, ONE_TYPE},
    {"--output-tensor-type --token-embedding-type --tensor-type-file", VALUE, QUANTIZE, ONE_TYPE},
    {"--prune-layers", VALUE, QUANTIZE, "layers are never left out"},
    {"--keep-split", FLAG, QUANTIZE, "OUT is one file"},
    {"--dry-run", FLAG, QUANTIZE, "the size is known when OUT is written"},

    // ---- llama-server
    {"-cb --cont-batching -nocb --no-cont-batching --cache-prompt --no-cache-prompt --metrics --props --slots",
     FLAG, SERVE, NULL},
    {"--ui --webui --cache-idle-slots --no-cache-idle-slots --no-agent -no-ag --no-reasoning-preserve", FLAG,
     SERVE, NULL},
    {"--no-skip-chat-parsing --no-models-autoload --no-ui-mcp-proxy --no-webui-mcp-proxy", FLAG, SERVE, NULL},
    {"--lora-init-without-apply", FLAG, RUN | SERVE, APPLIED},
    {"--cache-reuse -sps --slot-prompt-similarity --kv-unified-per-slot", VALUE, SERVE, NULL},
    {"--no-slots --no-ui --no-webui", FLAG, SERVE, ALWAYS},
    {"--no-jinja --reasoning-preserve --skip-chat-parsing --prefill-assistant --no-prefill-assistant", FLAG,
     SERVE, "the template decides"},
    {"--reasoning-*", VALUE, SERVE, IN_REQUESTS},
    {"--ssl-*", VALUE, SERVE, NO_TLS},
    {"--models-autoload", FLAG, SERVE, ONE_MODEL},
    {"--models-*", VALUE, SERVE, ONE_MODEL},
    {"-ag --agent --ui-mcp-proxy --webui-mcp-proxy", FLAG, SERVE, NO_AGENT},
    {"--tools* --mcp-*", VALUE, SERVE, NO_AGENT},
    {"--cors-credentials --no-cors-credentials", FLAG, SERVE, "there is --cors-origins alone"},
    {"--cors-headers --cors-methods", VALUE, SERVE, "there is --cors-origins alone"},
    {"--path --ui-config* --webui-config* --api-prefix --media-path --server-base --tags --log-prompts-dir",
     VALUE, SERVE, "the server does not have it"},
    {"--sleep-idle-seconds", VALUE, SERVE, "the model stays; --ram bounds its memory"},
    {"--reuse-port", FLAG, SERVE, "a port has one server"},
    {"--embedding --embeddings", FLAG, SERVE | EMBED, NULL},
    {"--rerank --reranking", FLAG, SERVE | EMBED, NO_RANK},
    {"--cls-separator", VALUE, SERVE | EMBED, NO_RANK},
    {"--attention", VALUE, SERVE | EMBED, "the model decides"},
    {"--embd-normalize", VALUE, SERVE, "requests say it, in embd_normalize"},
    {"--spm-infill --infill", FLAG, SERVE, "there is no infill; write its control tokens into the prompt"},

    // ---- other programs, and what llama.cpp's options are not
    {"--pooling --attention --embd-* --embedding --embeddings --rerank --reranking --cls-separator", VALUE,
     RUN, NO_EMBEDDING},
    {"-a --alias --tags --host --port --reuse-port --path --api-* --ui* --webui* --no-ui* --no-webui* --cors-*",
     VALUE, RUN, NO_SERVER},
    {"--tools* --mcp-* -ag --agent", VALUE, RUN, NO_TOOLS},
    {"--ssl-* -to --timeout --sse-ping-interval --threads-http --cache-prompt", VALUE, RUN, NO_SERVER},
    {"--cache-reuse --metrics --props --slots --no-slots --slot-* -sps --media-path --models-* --server-base",
     VALUE, RUN, NO_SERVER},
    {"-cb --cont-batching --no-cont-batching -nocb --sleep-idle-seconds --no-cache-prompt --log-prompts-dir",
     VALUE, RUN, NO_SERVER},
    {"--cache-idle-slots --no-cache-idle-slots --kv-unified-per-slot --no-agent -no-ag --no-cors-*", VALUE,
     RUN, NO_SERVER},
    {"--no-models-* --prefill-assistant --no-prefill-assistant", VALUE, RUN, NO_SERVER},
    {"-o --output --output-file", VALUE, RUN, "the text goes to standard output; > FILE sends it to a file"},
    {"--spm-infill --infill --fim-*", FLAG, RUN,
     "there is no infill; write its control tokens into the prompt"},
    {"--diffusion-*", VALUE, RUN, "diffusion models cannot be run"},
    {NULL, FLAG, 0, NULL},
};

static bool matches(const char *names, const char *spelling)
{
    char word[HEARTH_SPELLING_MAX];
    while ((names = hearth_spelling_next(names, word))) {
        size_t n = strlen(word);
        if (word[n - 1] == '*' ? !strncmp(word, spelling, n - 1) : !strcmp(word, spelling))
            return true;
    }
    return false;
}

const struct hearth_llama_option *hearth_llama_option_find(unsigned commands, const char *spelling)
{
    for (const struct hearth_llama_option *opt = table; opt->names; opt++)
        if ((opt->commands & commands) && matches(opt->names, spelling))
            return opt;
    return NULL;
}

const char *hearth_llama_command(const char *name)
{
    static const struct {
        const char *names, *answer;
    } answers[] = {
        {"server", NO_SERVER},
        {"pull download", NO_DOWNLOAD},
        {"list ls ps rm stop cp", "models are files; Hearth keeps no list of them"},
        {"show info", "hearth inspect MODEL shows what is in a file"},
        {"create", "hearth convert HF_DIR OUT makes a GGUF of a Hugging Face folder"},
        {"cli completion generate", "hearth run MODEL -p TEXT continues a text"},
        {"ppl", "hearth perplexity MODEL -f TEXT scores a text"},
    };
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
        if (matches(answers[i].names, name))
            return answers[i].answer;
    return NULL;
}
