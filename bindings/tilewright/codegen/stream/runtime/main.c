/* Run the network on the images of data/, write its outputs, and tell what each group did. */
#include <stdio.h>
#include <string.h>

#include "data_files.h"
#include "expected.h"
#include "network.h"

enum { ENGINES = 5 };

static const char *const engines[ENGINES] = {"LOAD", "SAVE", "CONV", "POOL", "MISC"};
static const int engine_of[KINDS] = {[LOAD] = 0, [FETCH] = 0, [SAVE] = 1, [CONV] = 2, [MAX_POOL] = 3,
                                     [AVERAGE_POOL] = 3, [ADD] = 4, [MULTIPLY] = 4, [COPY] = 4};

static void tell(const group_t *group)
{
    long long instructions[ENGINES] = {0};
    for (int kind = 0; kind < KINDS; kind++)
        instructions[engine_of[kind]] += counts.instructions[kind];
    printf("%s", group->name);
    for (int engine = 0; engine < ENGINES; engine++)
        printf("\t%lld", instructions[engine]);
    printf("\t%lld\t%lld\n", counts.loaded_bytes, counts.saved_bytes);
}

/* Run all groups; tell what they do. */
static void run(int told)
{
    for (int g = 0; g < GROUPS; g++) {
        memset(&counts, 0, sizeof counts);
        run_group(&groups[g]);
        if (told && !groups[g].on_host)
            tell(&groups[g]);
    }
}

/* The largest of the output's values for an image, of the networks whose classes are known. */
static long largest(const element_t *values, long count)
{
    long best = 0;
    for (long i = 1; i < count; i++)
        if (values[i] > values[best])
            best = i;
    return best;
}

int main(void)
{
    static const char *const paths[] = {"data/input.bin", "data/reference.bin", "data/labels.bin", "data/output.bin"};
    static element_t reference[SOME(NETWORK_OUTPUTS)];
    FILE *parameters = opened("data/parameters.bin", "rb"), *files[4];
    long wrong = 0, right = 0;
    int32_t label;
    expected_t expected = expected_begin();
    fill(parameters, "data/parameters.bin", network_parameters, NETWORK_PARAMETERS * sizeof(element_t));
    finish(parameters, "data/parameters.bin");
    for (int i = 0; i < 4; i++)
        files[i] = opened(paths[i], i < 3 ? "rb" : "wb");
    printf("group");
    for (int engine = 0; engine < ENGINES; engine++)
        printf("\t%s", engines[engine]);
    printf("\tbytes loaded\tbytes saved\n");
    for (int batch = 0; batch < BATCHES; batch++) {
        fill(files[0], paths[0], network_input, NETWORK_INPUTS * sizeof(element_t));
        fill(files[1], paths[1], reference, NETWORK_OUTPUTS * sizeof(element_t));
        run(batch == 0);
        if (fwrite(network_output, sizeof(element_t), NETWORK_OUTPUTS, files[3]) != NETWORK_OUTPUTS)
            fail(paths[3], "cannot be written");
        for (long i = 0; i < NETWORK_OUTPUTS; i++) {
            wrong += network_output[i] != reference[i];
            expected_next(&expected, network_output[i]);
        }
        for (int image = 0; LABELS && image < IMAGES; image++) {
            fill(files[2], paths[2], &label, sizeof label);
            right += largest(network_output + image * (NETWORK_OUTPUTS / IMAGES), NETWORK_OUTPUTS / IMAGES) == label;
        }
    }
    for (int i = 0; i < 3; i++)
        finish(files[i], paths[i]);
    if (fclose(files[3]))
        fail(paths[3], "cannot be written");
    printf("outputs that are wrong\t%ld of %ld\n", wrong, (long)NETWORK_OUTPUTS * BATCHES);
    expected_end(&expected);
    if (LABELS)
        printf("images in the right class\t%ld of %d\n", right, IMAGES * BATCHES);
    return wrong != 0;
}
