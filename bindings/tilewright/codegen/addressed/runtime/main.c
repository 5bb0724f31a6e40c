/* Run the network on the images of data/, tell what each step moves, and compare its outputs with the reference. */
#include <stdio.h>
#include <string.h>

#include "dma.h"
#include "data_files.h"
#include "expected.h"
#include "network.h"
#include VALUES /* floats.h or integers.h */

/* Run all steps; tell what they move. */
static void run(int told)
{
    for (int s = 0; s < STEPS; s++) {
        const dma_counts_t before = dma_counts;
        run_step(&steps[s]);
        if (told)
            printf("%s\t%lld\t%lld\n", steps[s].name, dma_counts.loaded_bytes - before.loaded_bytes,
                   dma_counts.saved_bytes - before.saved_bytes);
    }
}

/* The largest value of the output. */
static long largest(void)
{
    long best = 0;
    for (long i = 1; i < OUTPUT_BYTES / ELEMENT_BYTES; i++)
        if (element_of(network_output, i) > element_of(network_output, best))
            best = i;
    return best;
}

int main(void)
{
    static const char *const paths[] = {"data/input.bin", "data/reference.bin", "data/labels.bin", "data/output.bin"};
    static unsigned char reference[SOME(OUTPUT_BYTES)], label[4];
    FILE *weights = opened("data/weights.bin", "rb"), *files[4];
    long wrong = 0, right = 0;
    expected_t expected = expected_begin();
    fill(weights, "data/weights.bin", network_weights, WEIGHT_BYTES);
    finish(weights, "data/weights.bin");
    for (int i = 0; i < 4; i++)
        files[i] = opened(paths[i], i < 3 ? "rb" : "wb");
#define CLEARED(name, bytes) memset(name, 0xa5, bytes); /* what is on chip before is no zeros */
    MEMORIES(CLEARED)
    load_staying(staying, STAYING);
    const long long once = dma_counts.loaded_bytes;
    dma_counts.loaded_bytes = 0;
    printf("step\tbytes loaded\tbytes saved\n");
    for (int image = 0; image < IMAGES; image++) {
        fill(files[0], paths[0], network_input, INPUT_BYTES);
        fill(files[1], paths[1], reference, OUTPUT_BYTES);
        run(image == 0);
        if (fwrite(network_output, 1, OUTPUT_BYTES, files[3]) != OUTPUT_BYTES)
            fail(paths[3], "cannot be written");
        wrong += count_wrong(network_output, reference, OUTPUT_BYTES);
        for (long i = 0; i < OUTPUT_BYTES / ELEMENT_BYTES; i++)
            expected_next(&expected, element_of(network_output, i));
        if (LABELS) {
            fill(files[2], paths[2], label, sizeof label);
            right += largest() == (label[0] | (long)label[1] << 8 | (long)label[2] << 16 | (long)label[3] << 24);
        }
    }
    for (int i = 0; i < 3; i++)
        finish(files[i], paths[i]);
    if (fclose(files[3]))
        fail(paths[3], "cannot be written");
    printf("all steps, for an image\t%lld\t%lld\n", dma_counts.loaded_bytes / IMAGES, dma_counts.saved_bytes / IMAGES);
    printf("planned\t%lld\t%lld\n", LOADED_BYTES, SAVED_BYTES);
    if (STAYING)
        printf("weights that stay, loaded once\t%lld\n", once);
    printf(COMPARED " of outputs that are wrong\t%ld of %ld\n", wrong, count_compared(OUTPUT_BYTES) * IMAGES);
    expected_end(&expected);
    if (LABELS)
        printf("images in the right class\t%ld of %d\n", right, IMAGES);
    return wrong || once != STAYING_BYTES || dma_counts.loaded_bytes != LOADED_BYTES * IMAGES || dma_counts.saved_bytes != SAVED_BYTES * IMAGES;
}
