// SPDX-License-Identifier: MIT
// Lists of an option's spellings.
#include "cli/spelling.h"

#include <string.h>

const char *hearth_spelling_next(const char *list, char out[HEARTH_SPELLING_MAX])
{
    while (list && (*list == ' ' || *list == ','))
        list++;
    if (!list || !*list)
        return NULL;
    size_t n = strcspn(list, ", ");
    size_t kept = n < HEARTH_SPELLING_MAX ? n : HEARTH_SPELLING_MAX - 1;
    memcpy(out, list, kept);
    out[kept] = '\0';
    return list + n;
}

bool hearth_spelling_in(const char *list, const char *spelling)
{
    char word[HEARTH_SPELLING_MAX];
    while ((list = hearth_spelling_next(list, word)))
        if (!strcmp(word, spelling))
            return true;
    return false;
}

void hearth_spelling_long(const char *list, char out[HEARTH_SPELLING_MAX])
{
    char word[HEARTH_SPELLING_MAX];
    out[0] = '\0';
    while ((list = hearth_spelling_next(list, word)))
        if (!strncmp(word, "--", 2) || strncmp(out, "--", 2) != 0)
            memcpy(out, word, sizeof word);
}
