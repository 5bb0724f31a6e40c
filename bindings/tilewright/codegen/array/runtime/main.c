/* Run the program of data/program.bin on the images of data/, and tell beside the plan what it did. */
#include <stdio.h>
#include <stdlib.h>

#include "array.h"
#include "expected.h"
#include "plan.h"

/* Read a file of a known size. */
static int64_t *values_of(const char *path, int64_t count)
{
    element_t value;
    int64_t *found = allocate((size_t)count, sizeof(int64_t));
    FILE *file = fopen(path, "rb");
    if (!file)
        fail(path, "cannot be read");
    for (int64_t i = 0; i < count; i++) {
        if (fread(&value, sizeof value, 1, file) != 1)
            fail(path, "has another size than the network needs");
        found[i] = value;
    }
    if (fgetc(file) != EOF)
        fail(path, "has another size than the network needs");
    fclose(file);
    return found;
}

/* Tell a number beside the plan's; returns whether they differ. */
static int told(const char *what, int64_t found, int64_t planned)
{
    printf("%s\t%lld\t%lld\n", what, (long long)found, (long long)planned);
    return found != planned;
}

static int64_t end_of(const result_t *result, int frame)
{
    int64_t end = 0;
    for (int l = 0; l < result->layers; l++)
        end = result->of[l].ends[frame] > end ? result->of[l].ends[frame] : end;
    return end;
}

/* Tell what the array did; returns how many numbers are not those of the plan. */
static int report(const result_t *result)
{
    int differ = result->layers != LAYERS;
    int64_t hops = 0;
    printf("layer\tPEs\tstart\tplan\twords held\tplan\tweights\tplan\toperations\tplan\n");
    for (int l = 0; l < result->layers && l < LAYERS; l++) {
        const layer_t *layer = &result->of[l];
        const planned_t *plan = &planned[l];
        const int64_t columns[] = {
            layer->pes,     layer->start,  plan->start,     layer->most,     plan->buffer,
            layer->weights, plan->weights, layer->computed, plan->operations};
        printf("%s", layer->name);
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
            printf("\t%lld", (long long)columns[c]);
        printf("\n");
        differ += layer->computed != plan->operations;
        differ += layer->start != plan->start || layer->weights != plan->weights ||
                  layer->form[LAYER_BUFFER] != plan->buffer;
        /* Fewer frames than overlap do not fill the buffers. */
        differ += FILLED ? layer->most != plan->buffer : layer->most > plan->buffer;
        hops += layer->hops;
    }
    printf("\tfound\tplan\n");
    differ += told("latency, cycles", end_of(result, 0), LATENCY);
    for (int frame = 1; frame < result->frames; frame++)
        differ += told("interval, cycles", end_of(result, frame) - end_of(result, frame - 1), INTERVAL);
    printf("hops to the nearest PE of a layer that is read\t%lld\tat least %lld\n", (long long)hops,
           (long long)LEAST_HOPS);
    differ += hops < LEAST_HOPS;
    differ += told("channels of a link, at most", result->channels, CHANNELS);
    printf("values that crossed a link\t%lld\n", (long long)result->moved);
    printf("VLIW words of all PEs, each of %lld bits\t%lld\n", (long long)result->bits,
           (long long)result->words);
    printf("frames\t%d\n", result->frames);
    printf("cycles\t%lld\n", (long long)result->cycles);
    printf("numbers that are not the plan's\t%d\n", differ);
    return differ;
}

/* Compare all outputs, layer by layer and frame by frame; frames begin again with the first image. */
static int64_t compare(const int64_t *output, const int64_t *reference, int64_t frames)
{
    int64_t wrong = 0, at = 0, first = 0;
    expected_t expected = expected_begin();
    for (int o = 0; o < OUTPUTS; o++) {
        for (int64_t frame = 0; frame < frames; frame++)
            for (int64_t i = 0; i < output_sizes[o]; i++, at++) {
                wrong += output[at] != reference[first + frame % IMAGES * output_sizes[o] + i];
                if (frame < IMAGES)
                    expected_next(&expected, output[at]);
            }
        first += IMAGES * output_sizes[o];
    }
    printf("outputs that are wrong\t%lld of %lld\n", (long long)wrong, (long long)at);
    expected_end(&expected);
    return wrong;
}

static void write_outputs(const char *path, const int64_t *output, int64_t count)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        fail(path, "cannot be written");
    for (int64_t i = 0; i < count; i++) {
        const element_t value = (element_t)output[i];
        if (fwrite(&value, sizeof value, 1, file) != 1)
            fail(path, "cannot be written");
    }
    if (fclose(file))
        fail(path, "cannot be written");
}

int main(void)
{
    int64_t each = 0;
    for (int o = 0; o < OUTPUTS; o++)
        each += output_sizes[o];
    const code_t code = read_program("data/program.bin");
    const memory_t memory = {.input = values_of("data/input.bin", IMAGES * INPUTS),
                             .parameters = values_of("data/parameters.bin", PARAMETERS),
                             .output = allocate((size_t)(FRAMES * each), sizeof(int64_t)),
                             .images = IMAGES, .inputs = INPUTS, .parameter_count = PARAMETERS,
                             .outputs = FRAMES * each};
    const int64_t *reference = values_of("data/reference.bin", IMAGES * each);
    const result_t result = run_array(&code, &memory, MOST_CYCLES);
    int differ = report(&result) + (result.frames != FRAMES);
    const int64_t wrong = compare(memory.output, reference, FRAMES);
    write_outputs("data/output.bin", memory.output, FRAMES * each);
    free_all();
    return wrong || differ;
}
