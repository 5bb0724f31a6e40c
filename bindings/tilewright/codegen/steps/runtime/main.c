/* Execute all steps on the data of data/, tell what was moved, and compare the outputs with the reference. */
#include <stdio.h>
#include <stdlib.h>

#include "steps.h"

static void fail(const char *path, const char *what)
{
    fprintf(stderr, "%s: %s\n", path, what);
    exit(1);
}

static void fill(const char *path, element_t *values, size_t count)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail(path, "cannot be read");
    if (fread(values, sizeof *values, count, file) != count || fgetc(file) != EOF)
        fail(path, "is not as long as it must be");
    fclose(file);
}

/* Tell how many elements there were, and how many there must be; whether these differ. */
static int differs(const char *what, long long found, long long planned)
{
    printf("%s\t%lld\t%lld\n", what, found, planned);
    return found != planned;
}

int main(void)
{
    static element_t reference[OUTPUT_ELEMENTS];
    long wrong = 0;
    fill("data/input.bin", dram_input, INPUT_ELEMENTS);
    fill("data/kernels.bin", dram_kernels, KERNEL_ELEMENTS);
    fill("data/reference.bin", reference, OUTPUT_ELEMENTS);
    for (int i = 0; i < OUTPUT_ELEMENTS; i++)
        dram_output[i] = ~reference[i]; /* so that what is not written is wrong */
    for (int step = 0; step < STEPS + 2; step++) {
        run_step(&steps[step], actions, blocks);
        if (step == 0) /* what is on chip beforehand is not counted */
            moved[LOAD_KERNELS] = 0;
    }
    FILE *file = fopen("data/output.bin", "wb");
    if (!file || fwrite(dram_output, sizeof *dram_output, OUTPUT_ELEMENTS, file) != OUTPUT_ELEMENTS || fclose(file))
        fail("data/output.bin", "cannot be written");
    for (int i = 0; i < OUTPUT_ELEMENTS; i++)
        wrong += dram_output[i] != reference[i];
    printf("elements\tfound\tplanned\n");
    int other = differs("loaded of the input", moved[LOAD_INPUT], LOADED_INPUT);
    other |= differs("loaded of the kernels", moved[LOAD_KERNELS], LOADED_KERNELS);
    other |= differs("loaded of sums", moved[LOAD_SUMS], LOADED_SUMS);
    other |= differs("written", moved[WRITE], WRITTEN);
    other |= differs("most on chip", most_held, MOST_HELD);
    printf("steps\t%d\n", STEPS);
    printf("outputs that are wrong\t%ld of %d\n", wrong, OUTPUT_ELEMENTS);
    return wrong || other;
}
