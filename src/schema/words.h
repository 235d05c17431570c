// SPDX-License-Identifier: MIT
// The keywords of schemas.
#ifndef HEARTH_SCHEMA_WORDS_H
#define HEARTH_SCHEMA_WORDS_H

#include <stdbool.h>

// Whether a keyword says nothing about what is valid.
bool hearth_schema_is_note(const char *word);
// The type that a keyword is about; "" : any; NULL: it is not known or not supported.
const char *hearth_schema_type_of(const char *word);

#endif
