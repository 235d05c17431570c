// SPDX-License-Identifier: MIT
// Runs a fuzz target over the files of a folder, as an ordinary test, with any compiler. Each file is also
// given with its end cut off, in a few places: a corpus of good files then tests the bad ones, too.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        return 1;
    }
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    uint8_t *data = size >= 0 ? malloc((size_t)size + 1) : NULL;
    int failed = !data || fread(data, 1, (size_t)size, f) != (size_t)size;
    fclose(f);
    if (failed) {
        fprintf(stderr, "%s: cannot be read\n", path);
    } else {
        for (size_t cut = 0; cut <= 8; cut++) {
            // A block of its own, so that reading past its end is noticed.
            size_t n = (size_t)size - (size_t)size * cut / 8;
            uint8_t *part = malloc(n ? n : 1);
            if (!part)
                abort();
            for (size_t i = 0; i < n; i++)
                part[i] = data[i];
            LLVMFuzzerTestOneInput(part, n);
            free(part);
        }
    }
    free(data);
    return failed;
}

int main(int argc, char **argv)
{
    DIR *d = argc == 2 ? opendir(argv[1]) : NULL;
    if (!d) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    int n = 0, failed = 0;
    for (struct dirent *e; (e = readdir(d));) {
        char path[4096];
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", argv[1], e->d_name);
        failed += run_file(path);
        n++;
    }
    closedir(d);
    printf("%d files\n", n);
    return failed || n == 0;
}
