/* Run the network on the input of data/, tell what each step moves, and compare its output with the reference. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dma.h"
#include "network.h"

static void fail(const char *path, const char *what)
{
    fprintf(stderr, "%s: %s\n", path, what);
    exit(1);
}

/* Read a file of a known size. */
static void fill(const char *path, unsigned char *bytes, size_t size)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail(path, "cannot be read");
    if (fread(bytes, 1, size, file) != size || fgetc(file) != EOF)
        fail(path, "has another size than the network needs");
    fclose(file);
}

int main(void)
{
    static unsigned char reference[SOME(OUTPUT_BYTES)];
    fill("data/input.bin", network_input, INPUT_BYTES);
    fill("data/weights.bin", network_weights, WEIGHT_BYTES);
    fill("data/reference.bin", reference, OUTPUT_BYTES);
    memset(memory, 0xa5, sizeof memory); /* what is on chip before is no zeros */
    printf("step\tbytes loaded\tbytes saved\n");
    for (int s = 0; s < STEPS; s++) {
        const dma_counts_t before = dma_counts;
        run_step(&steps[s]);
        printf("%s\t%lld\t%lld\n", steps[s].name, dma_counts.loaded_bytes - before.loaded_bytes,
               dma_counts.saved_bytes - before.saved_bytes);
    }
    const int as_planned = dma_counts.loaded_bytes == LOADED_BYTES && dma_counts.saved_bytes == SAVED_BYTES;
    printf("all steps\t%lld\t%lld\n", dma_counts.loaded_bytes, dma_counts.saved_bytes);
    printf("planned\t%lld\t%lld\n", LOADED_BYTES, SAVED_BYTES);
    FILE *file = fopen("data/output.bin", "wb");
    const size_t written = file ? fwrite(network_output, 1, OUTPUT_BYTES, file) : 0;
    if (!file || written != OUTPUT_BYTES || fclose(file))
        fail("data/output.bin", "cannot be written");
    long wrong = 0;
    for (long i = 0; i < OUTPUT_BYTES; i++)
        wrong += network_output[i] != reference[i];
    printf("bytes of the output that are wrong\t%ld of %ld\n", wrong, (long)OUTPUT_BYTES);
    return wrong || !as_planned;
}
