/* Run the network on the images of data/, write its outputs, and tell what the DMA controller moved. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "dma.h"
#include "expected.h"
#include "network.h"

/* Read a whole file. */
static unsigned char *contents(const char *path, long *size)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    fseek(file, 0, SEEK_END);
    *size = ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*size ? *size : 1);
    if (!bytes || fread(bytes, 1, *size, file) != (size_t)*size) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    fclose(file);
    return bytes;
}

static void refuse(const char *path, long size, long expected)
{
    fprintf(stderr, "%s: %ld bytes, %ld are expected\n", path, size, expected);
    exit(1);
}

static long largest(const output_t *values, long count)
{
    long best = 0;
    for (long i = 1; i < count; i++)
        if (values[i] > values[best])
            best = i;
    return best;
}

int main(void)
{
    static const char *const kinds[KINDS] = DMA_KINDS;
    static unsigned char batch[BYTES((long)BATCH * IMAGE_ELEMENTS * IMAGE_BITS)];
    static unsigned char found[BYTES((long)BATCH * OUTPUT_ELEMENTS * OUTPUT_BITS)];
    static output_t outputs[BATCH * OUTPUT_ELEMENTS];
    long size, labels_size, right = 0, wrong = 0;
    unsigned char *weights = contents("data/weights.bin", &size);
    if (size != WEIGHT_BYTES)
        refuse("data/weights.bin", size, WEIGHT_BYTES);
    const long image_bytes = IMAGE_ELEMENTS * (long)sizeof(image_t);
    unsigned char *images = contents("data/images.bin", &size);
    if (size % image_bytes)
        refuse("data/images.bin", size, (size / image_bytes + 1) * image_bytes);
    const long count = size / image_bytes;
    unsigned char *labels = contents("data/labels.bin", &labels_size);
    if (labels_size && labels_size != count * (long)sizeof(int32_t))
        refuse("data/labels.bin", labels_size, count * (long)sizeof(int32_t));
    output_t *reference = (output_t *)contents("data/reference.bin", &size);
    if (size != count * OUTPUT_ELEMENTS * (long)sizeof *reference)
        refuse("data/reference.bin", size, count * OUTPUT_ELEMENTS * (long)sizeof *reference);
    expected_t expected = expected_begin();
    FILE *file = fopen("data/outputs.bin", "wb");
    if (!file) {
        fprintf(stderr, "data/outputs.bin: cannot be written\n");
        return 1;
    }
    for (long first = 0; first < count; first += BATCH) {
        const long here = count - first < BATCH ? count - first : BATCH;
        memset(batch, 0, sizeof batch);
        for (long i = 0; i < here * IMAGE_ELEMENTS; i++) {
            image_t value;
            memcpy(&value, images + first * image_bytes + i * (long)sizeof value, sizeof value);
            store(batch, i * IMAGE_BITS, IMAGE_BITS, value);
        }
        run_network(weights, batch, found, first == 0);
        for (long i = 0; i < here * OUTPUT_ELEMENTS; i++)
            outputs[i] = (output_t)load(found, i * OUTPUT_BITS, OUTPUT_BITS);
        for (long i = 0; i < here * OUTPUT_ELEMENTS; i++) {
            wrong += outputs[i] != reference[first * OUTPUT_ELEMENTS + i];
            expected_next(&expected, outputs[i]);
        }
        fwrite(outputs, sizeof *outputs, here * OUTPUT_ELEMENTS, file);
        for (long i = 0; labels_size && i < here; i++) {
            int32_t label;
            memcpy(&label, labels + (first + i) * (long)sizeof label, sizeof label);
            right += largest(outputs + i * OUTPUT_ELEMENTS, OUTPUT_ELEMENTS) == label;
        }
    }
    fclose(file);
    printf("images\t%ld\n", count);
    printf("outputs that are wrong\t%ld of %ld\n", wrong, count * OUTPUT_ELEMENTS);
    expected_end(&expected);
    if (labels_size)
        printf("right\t%ld\n", right);
    printf("DMA of the first %d\ttransfers\telements\t%s\n", BATCH, DMA_COLUMNS);
    for (int part = 0; part < PARTS; part++)
        for (int kind = 0; kind < KINDS; kind++) {
            const dma_count_t counts = part_counts[part][kind];
            if (counts.transfers)
                printf("%s, %s\t%ld\t%ld\t" DMA_FORMAT "\n", part_names[part], kinds[kind], counts.transfers,
                       counts.elements, DMA_VALUES(counts));
        }
#ifdef OTHER_COUNTS
    const int otherwise = OTHER_COUNTS();
#else
    const int otherwise = 0;
#endif
    free(weights);
    free(images);
    free(labels);
    free(reference);
    return wrong || otherwise;
}
