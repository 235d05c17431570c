// SPDX-License-Identifier: MIT
// The options of llama.cpp's programs that are none of Hearth's: those that change nothing here are accepted,
// the others are refused by name.
#ifndef HEARTH_CLI_LLAMA_OPTIONS_H
#define HEARTH_CLI_LLAMA_OPTIONS_H

enum hearth_llama_value {
    HEARTH_LLAMA_FLAG,
    HEARTH_LLAMA_VALUE,
    HEARTH_LLAMA_MAYBE // its value may be left out, as in older versions
};

struct hearth_llama_option {
    const char *names; // all spellings; one that ends in * stands for all that begin so
    enum hearth_llama_value value;
    unsigned commands;  // HEARTH_CMD_*: where llama.cpp's program of that kind has it
    const char *answer; // why it is refused, and Hearth's way; NULL: accepted, changes nothing; "":
                        // accepted, as what it asks for is always so
};

// The option of this spelling that the commands (HEARTH_CMD_* bits) may be given; NULL: none.
const struct hearth_llama_option *hearth_llama_option_find(unsigned commands, const char *spelling);

// What to say of a command that llama.cpp or ollama have and Hearth does not; NULL: nothing.
const char *hearth_llama_command(const char *name);

#endif
