// SPDX-License-Identifier: MIT
// Which model a pack was made of.
#include "convert/pack.h"
#include "model/fingerprint.h"

int hearth_pack_source_of(const struct hearth_model *m, struct hearth_pack_source *out,
                          struct hearth_error *err)
{
    *out = (struct hearth_pack_source){.bytes = hearth_gguf_file_bytes(m->gguf)};
    return hearth_model_fingerprint(m, &out->fingerprint, err);
}

bool hearth_pack_is_of(const struct hearth_gguf *pack, const struct hearth_pack_source *source)
{
    const struct {
        const char *key;
        uint64_t wanted;
    } keys[] = {{"hearth.pack.source.fingerprint", source->fingerprint},
                {"hearth.pack.source.bytes", source->bytes}};
    bool is_of = hearth_gguf_is_pack(pack);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && is_of; i++) {
        uint64_t value = 0;
        is_of = !hearth_gguf_u64(pack, keys[i].key, true, &value, NULL) && value == keys[i].wanted;
    }
    return is_of;
}
