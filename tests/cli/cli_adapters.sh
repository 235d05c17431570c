#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# --lora and --lora-scaled: several adapters in both spellings, any budget and micro-batch, what is refused, what inspect
# tells of an adapter, what the server says of them; --override-kv.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
adapters=$source_dir/tests/golden/adapters
model=$golden/qwen3.Q8_0.gguf
tale=(-p "The old woman and the hen" -n 12 --temp 0 --ignore-eos)

# ---- texts
run 0 run "$model" "${tale[@]}" --logits-out "$tmp/plain"
run 0 run "$model" "${tale[@]}" --lora "$adapters/qwen3-all.gguf,$adapters/qwen3-some.gguf" --logits-out "$tmp/both"
cmp -s "$tmp/plain" "$tmp/both" && fail "adapters change nothing"
run 0 run "$model" "${tale[@]}" --lora "$adapters/qwen3-all.gguf" --lora-scaled "$adapters/qwen3-some.gguf:1.0" \
    --logits-out "$tmp/spelled" --ram min -ub 3 -t 1
same "$tmp/both" "$tmp/spelled"
run 0 run "$model" "${tale[@]}" --lora-scaled "$adapters/qwen3-all.gguf:0,$adapters/qwen3-some.gguf:-0" --logits-out "$tmp/none"
same "$tmp/plain" "$tmp/none"
run 0 perplexity "$model" -f "$source_dir/README.md" -c 64 --chunks 2 --lora-scaled "$adapters/qwen3-all.gguf:0.1"
run 0 embed "$model" -p hen --lora "$adapters/qwen3-all.gguf"
run 0 plan "$model" --lora "$adapters/qwen3-all.gguf" --ram 1G \
    --machine "$source_dir/devices/oneplus-12.txt"

# ---- refusals
run 1 run "$golden/qwen3moe.Q8_0.gguf" "${tale[@]}" --lora "$adapters/qwen3-all.gguf"
err_has 'the adapter is for models of architecture "qwen3", and'
run 1 run "$golden/qwen3.F16.gguf" "${tale[@]}" --lora "$adapters/qwen3-all.gguf" # it has one layer
err_has "the adapter changes blk.1.attn_q.weight, which there is none of in"
run 1 run "$model" "${tale[@]}" --lora "$model"
err_has "it is no LoRA adapter"
run 1 run "$model" "${tale[@]}" --lora "$tmp/none.gguf"
err_has "none.gguf"
for value in a.gguf a.gguf: a.gguf:x a.gguf:nan a.gguf:inf :1 "$adapters/qwen3-all.gguf:1,"; do
    run 2 run "$model" "${tale[@]}" --lora-scaled "$value"
    err_has "must be FILE:SCALE, with a finite number"
done
run 2 run "$model" "${tale[@]}" --lora "a.gguf,,b.gguf"
err_has "names of files with commas between them"
for command in run serve; do
    run 2 "$command" "$model" --lora-init-without-apply
    err_has "--lora-init-without-apply: adapters are applied when the model opens"
done

# ---- inspect
run 0 inspect "$adapters/qwen3-all.gguf"
out_has "adapter       lora, of 15 matrices, rank 4, alpha 8"
run 0 inspect "$adapters/qwen3-some.gguf"
out_has "adapter       lora, of 6 matrices, rank 3"
run 0 inspect "$adapters/qwen3-all.gguf" --json
[ "$(json "$tmp/out" adapter/matrices)" = 15 ] || fail "adapter/matrices"
[ "$(json "$tmp/out" adapter/most_rank)" = 4 ] || fail "adapter/most_rank"
run 0 inspect "$model" --json
[ "$(json "$tmp/out" adapter)" = null ] || fail "a model is no adapter"

# ---- other metadata than the file's
run 0 run "$model" "${tale[@]}" --logits-out "$tmp/base" --override-kv qwen3.rope.freq_base=float:500
cmp -s "$tmp/plain" "$tmp/base" && fail "--override-kv changes nothing"
run 0 run "$model" "${tale[@]}" --logits-out "$tmp/again" --ram min \
    --override-kv general.name=str:a,b=c --override-kv "qwen3.rope.freq_base=float:1,qwen3.rope.freq_base=float:500"
same "$tmp/base" "$tmp/again"
run 0 tokenize "$model" -p hen --override-kv tokenizer.ggml.add_bos_token=bool:true
cp "$tmp/out" "$tmp/with"
run 0 tokenize "$model" -p hen --override-kv tokenizer.ggml.add_bos_token=bool:false
cmp -s "$tmp/with" "$tmp/out" && fail "add_bos_token changes nothing"
for value in x qwen3.embedding_length=str:a qwen3.block_count=int:x; do
    run 1 run "$model" "${tale[@]}" --override-kv "$value"
    err_has "KEY=TYPE:VALUE is wanted"
done
err_has "(option --override-kv)"
run 2 quantize "$model" "$tmp/new.gguf" Q4_0 --override-kv general.name=str:a
err_has "--override-kv: the metadata stays"

# ---- the server
# shellcheck source=tests/cli/serve.sh
. "$(dirname "$0")/serve.sh"
start "$model" -np 1 -c 256 --lora "$adapters/qwen3-all.gguf" --lora-scaled "$adapters/qwen3-some.gguf:0.5"
ask 200 /lora-adapters
has 0/path "$adapters/qwen3-all.gguf"
has 1/id 1
has 1/scale 0.5
ask 200 /lora-adapters -d '[{"id": 0, "scale": 1}, {"id": 1, "scale": 0.5}]'
has success true
ask 400 /lora-adapters -d '[{"id": 0, "scale": 1}]'
grep -q "adapter 1 has scale 0.5" "$tmp/out" || fail "$(cat "$tmp/out")"
ask 400 /lora-adapters -d '[{"id": 2, "scale": 1}]'
ask 400 /completion -d '[]'
ask 200 /completion -d '{"prompt": "a", "n_predict": 2, "lora": [{"id": 1, "scale": 0.5}, {"id": 0, "scale": 1.0}]}'
ask 400 /completion -d '{"prompt": "a", "n_predict": 2, "lora": [{"id": 0, "scale": 0.5}]}'
ask 400 /v1/completions -d '{"prompt": "a", "lora": "x"}'
ask 400 /embedding -d '{"content": "a", "lora": []}'
grep -q "adapter 0 has scale 1" "$tmp/out" || fail "$(cat "$tmp/out")"
stop
start "$model" -np 1 -c 256
ask 200 /lora-adapters
[ "$(cat "$tmp/out")" = "[]" ] || fail "there are adapters"
ask 200 /completion -d '{"prompt": "a", "n_predict": 2, "lora": []}'
stop
