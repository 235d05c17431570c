// SPDX-License-Identifier: MIT
// docs/architectures.md names exactly what the code's tables know: architectures, which of them have packs, and
// the classes that are converted to each.
#include "check.h"

#include "convert/hf_model.h"
#include "model/arch.h"

enum { NAME, MODELS, DIFFERENCES, PACKS, CONVERT, PITFALLS, COLUMNS };

struct line {
    char text[2000];
    const char *cell[COLUMNS];
};

// Cuts "| a | b | ... |" into its cells. False: it is no such line.
static bool cut(struct line *l)
{
    char *at = l->text;
    if (strncmp(at, "| `", 3))
        return false;
    at += 2;
    for (int i = 0; i < COLUMNS; i++) {
        char *end = strstr(at, " |");
        if (end == at - 1) // an empty cell
            end = at - 1;
        assert_non_null(end);
        l->cell[i] = at;
        *end = '\0';
        at = end + 2 + (end[2] == ' ');
        if (end < l->cell[i])
            l->cell[i] = "";
    }
    return true;
}

// Whether a list of words with commas between them has this one.
static bool has_word(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ','))
            return true;
    return false;
}

static size_t count_words(const char *list)
{
    size_t n = *list != '\0';
    for (; *list; list++)
        n += *list == ',';
    return n;
}

static void check_line(const struct line *l, const struct hearth_arch *arch)
{
    char name[80];
    snprintf(name, sizeof name, "`%s`", arch->name);
    assert_string_equal(l->cell[NAME], name);
    for (int i = MODELS; i <= DIFFERENCES; i++)
        assert_true(*l->cell[i]);
    assert_true(*l->cell[PITFALLS]);
    if (hearth_arch_packs(arch) ? strcmp(l->cell[PACKS], "yes") : strncmp(l->cell[PACKS], "no: ", 4))
        fail_msg("%s: packs: \"%s\"", name, l->cell[PACKS]);
    size_t classes = 0;
    const char *of, *class;
    for (size_t i = 0; (class = hearth_hf_class_at(i, &of)); i++) {
        if (strcmp(of, arch->name) != 0)
            continue;
        classes++;
        if (!has_word(l->cell[CONVERT], class))
            fail_msg("%s: %s is converted, and not in the table", name, class);
    }
    if (classes != count_words(l->cell[CONVERT]))
        fail_msg("%s: %zu classes are converted, and the table has \"%s\"", name, classes, l->cell[CONVERT]);
}

static void test_arch_table(void **state)
{
    (void)state;
    struct line l;
    size_t n = 0;
    FILE *f = fopen(HEARTH_SOURCE_DIR "/docs/architectures.md", "r");
    assert_non_null(f);
    while (fgets(l.text, sizeof l.text, f)) {
        if (!cut(&l))
            continue;
        const struct hearth_arch *arch = hearth_arch_at(n++);
        if (!arch)
            fail_msg("%s is in no table of the code", l.cell[NAME]);
        check_line(&l, arch);
    }
    fclose(f);
    if (hearth_arch_at(n))
        fail_msg("%s is not in the table", hearth_arch_at(n)->name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_arch_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
