/* Run the network on the images of data/, write its outputs, and tell what each group did. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expected.h"
#include "network.h"

static void fail(const char *path, const char *what)
{
    fprintf(stderr, "%s: %s\n", path, what);
    exit(1);
}

/* Read a file of a known size. */
static void fill(const char *path, element_t *values, size_t count)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail(path, "cannot be read");
    if (fread(values, sizeof *values, count, file) != count || fgetc(file) != EOF)
        fail(path, "has another size than the network needs");
    fclose(file);
}

int main(void)
{
    enum { ENGINES = 5 };
    static const char *const engines[ENGINES] = {"LOAD", "SAVE", "CONV", "POOL", "MISC"};
    static const int engine_of[KINDS] = {[LOAD] = 0, [FETCH] = 0, [SAVE] = 1, [CONV] = 2, [MAX_POOL] = 3,
                                         [AVERAGE_POOL] = 3, [ADD] = 4, [MULTIPLY] = 4, [COPY] = 4};
    fill("data/input.bin", network_input, NETWORK_INPUTS);
    fill("data/parameters.bin", network_parameters, NETWORK_PARAMETERS);
    printf("group");
    for (int engine = 0; engine < ENGINES; engine++)
        printf("\t%s", engines[engine]);
    printf("\tbytes loaded\tbytes saved\n");
    for (int g = 0; g < GROUPS; g++) {
        long long instructions[ENGINES] = {0};
        memset(&counts, 0, sizeof counts);
        run_group(&groups[g]);
        if (groups[g].on_host)
            continue;
        for (int kind = 0; kind < KINDS; kind++)
            instructions[engine_of[kind]] += counts.instructions[kind];
        printf("%s", groups[g].name);
        for (int engine = 0; engine < ENGINES; engine++)
            printf("\t%lld", instructions[engine]);
        printf("\t%lld\t%lld\n", counts.loaded_bytes, counts.saved_bytes);
    }
    static element_t reference[SOME(NETWORK_OUTPUTS)];
    expected_t expected = expected_begin();
    long wrong = 0;
    fill("data/reference.bin", reference, NETWORK_OUTPUTS);
    for (long i = 0; i < NETWORK_OUTPUTS; i++) {
        wrong += network_output[i] != reference[i];
        expected_next(&expected, network_output[i]);
    }
    printf("outputs that are wrong\t%ld of %ld\n", wrong, (long)NETWORK_OUTPUTS);
    expected_end(&expected);
    FILE *file = fopen("data/output.bin", "wb");
    const size_t written = file ? fwrite(network_output, sizeof(element_t), NETWORK_OUTPUTS, file) : 0;
    if (!file || written != NETWORK_OUTPUTS || fclose(file))
        fail("data/output.bin", "cannot be written");
    return wrong != 0;
}
